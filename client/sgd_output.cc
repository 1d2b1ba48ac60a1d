#include "client/sgd_output.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/curve_plot.h"
#include "client/errors.h"
#include "client/loss_curve.h"
#include "client/numbers.h"

namespace coterie {
namespace {

std::string StopText(const v1::SgdModel& model) {
  switch (model.stop()) {
    case v1::SgdModel::MAX_UPDATES:
      return "as many as asked";
    case v1::SgdModel::TARGET_LOSS:
      return "at the target loss";
    case v1::SgdModel::MIN_GRADIENT:
      return "gradient is small enough";
    default:
      return "stopped";
  }
}

// Sums over the shards.
struct Bytes {
  explicit Bytes(const v1::SgdReport& report) {
    for (const v1::SgdShardAccount& shard : report.shards()) {
      down += shard.bytes_down();
      up += shard.bytes_up();
      whole += shard.bytes_whole();
      forward += shard.bytes_forward();
      backward += shard.bytes_backward();
    }
  }
  int64_t down = 0;
  int64_t up = 0;
  int64_t whole = 0;
  int64_t forward = 0;  // across the cut of a model
  int64_t backward = 0;
};

// Draws the reports of a stream as they come, to its end.
template <typename Event, typename ReportOf, typename ModelOf>
absl::StatusOr<TrainedRun> Show(const Session& session,
                                const std::string& label,
                                grpc::ClientReaderInterface<Event>* reader,
                                ReportOf report_of, ModelOf model_of) {
  LossCurve curve(
      {label, session.terminal().err_is_terminal, session.terminal().columns},
      &session.err());
  Event event;
  TrainedRun run;
  bool ended = false;
  while (reader->Read(&event)) {
    if (v1::SgdReport* report = report_of(event)) {
      curve.Add(report->update(), report->loss(), ReportLine(*report));
      run.reports.push_back(std::move(*report));
    } else if (v1::SgdModel* model = model_of(event)) {
      run.model = std::move(*model);
      ended = true;
    }
  }
  const grpc::Status finished = reader->Finish();
  if (!finished.ok()) {
    // The curve of a run that ended well stays.
    curve.Clear();
    return FromGrpcStatus(finished);
  }
  if (!ended) {
    return absl::InternalError("the server's stream ended without a model");
  }
  return run;
}

}  // namespace

std::string ReportLine(const v1::SgdReport& report) {
  const Bytes bytes(report);
  std::string line = absl::StrFormat(
      "update %s  loss %.6g  |gradient|^2 %.3g  up %s  down %s",
      WithCommas(report.update()), report.loss(), report.squared_gradient(),
      HumanBytes(bytes.up), HumanBytes(bytes.down));
  if (report.staleness().max() > 0) {
    absl::StrAppend(&line, "  staleness ", report.staleness().p50(), "/",
                    report.staleness().p95(), "/", report.staleness().max());
  }
  return line;
}

absl::StatusOr<TrainedRun> TrainAndShow(const Session& session,
                                        const v1::TrainSgdRequest& request) {
  grpc::ClientContext context;
  session.Prepare(&context);
  const auto reader = session.stubs().training->TrainSgd(&context, request);
  return Show<v1::TrainSgdResponse>(
      session, absl::StrCat("train ", request.collection()), reader.get(),
      [](v1::TrainSgdResponse& event) {
        return event.has_report() ? event.mutable_report() : nullptr;
      },
      [](v1::TrainSgdResponse& event) {
        return event.has_model() ? event.mutable_model() : nullptr;
      });
}

absl::StatusOr<TrainedRun> FollowSgdAndShow(
    const Session& session, const std::string& label,
    grpc::ClientReaderInterface<v1::JobEvent>* reader) {
  return Show<v1::JobEvent>(
      session, label, reader,
      [](v1::JobEvent& event) {
        return event.has_sgd_report() ? event.mutable_sgd_report() : nullptr;
      },
      [](v1::JobEvent& event) {
        return event.has_sgd_result() ? event.mutable_sgd_result() : nullptr;
      });
}

void PrintModel(const Session& session, const v1::SgdModel& model) {
  std::ostream& out = session.out();
  const v1::SgdReport& last = model.last();
  out << absl::StrFormat("%s on %s, loss %.6g, %s (%s), %.2f s\n",
                         Plural(model.parameter_count(), "parameter"),
                         Plural(model.rows(), "row"), last.loss(),
                         Plural(last.update(), "update"), StopText(model),
                         model.seconds());
  if (last.has_measured_at()) {
    out << absl::StrFormat("measured: loss %.6g, accuracy %.4f\n",
                           last.held_out_loss(), last.held_out_accuracy());
  }
  const Bytes bytes(last);
  out << "packed: " << HumanBytes(bytes.up) << " up, " << HumanBytes(bytes.down)
      << " down";
  if (bytes.forward > 0) {
    out << "\nacross the cut: " << HumanBytes(bytes.forward)
        << " of activations, " << HumanBytes(bytes.backward)
        << " of gradients back; data parallel: " << HumanBytes(bytes.whole)
        << " up, and as much down";
  } else if (bytes.whole > bytes.up) {
    out << absl::StrFormat("; whole gradients: %s up, %.1f%% saved",
                           HumanBytes(bytes.whole),
                           100 * (1 - static_cast<double>(bytes.up) /
                                          static_cast<double>(bytes.whole)));
  }
  out << "\n";
  if (model.bytes_sent() + model.bytes_received() > 0) {
    out << "links: " << HumanBytes(model.bytes_received()) << " up, "
        << HumanBytes(model.bytes_sent()) << " down\n";
  }
  out << "stored as " << model.name() << '\n';
  for (const std::string& warning : model.warnings()) {
    out << "warning: " << warning << '\n';
  }
}

absl::Status WriteSgdPlot(const std::string& title,
                          const std::vector<v1::SgdReport>& reports,
                          const std::string& path) {
  CurvePanel loss{.title = "loss"};
  CurvePanel bytes{.title = "bytes sent by workers so far",
                   .ink = Ink::kRed,
                   .from_zero = true,
                   .bytes = true};
  for (const v1::SgdReport& report : reports) {
    loss.values.push_back(report.loss());
    bytes.values.push_back(static_cast<double>(Bytes(report).up));
  }
  if (!reports.empty()) {
    loss.first = bytes.first = absl::StrCat(reports.front().update());
    loss.last = bytes.last = absl::StrCat(reports.back().update());
  }
  return WritePng(PlotCurves(title, loss, bytes), path);
}

}  // namespace coterie
