#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/status_details.h"
#include "client/collections.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/import_checkpoint.h"
#include "client/import_flags.h"
#include "client/import_inputs.h"
#include "client/numbers.h"
#include "client/progress_bar.h"
#include "client/upsert_pipeline.h"

namespace coterie {
namespace {

// Server errors speak of points of a batch; the user knows rows of a file.
absl::Status NameRows(const absl::Status& status, const std::string& file,
                      int64_t first_row, int64_t rows) {
  std::string where = absl::StrCat("rows ", first_row, "..",
                                   first_row + rows - 1, " of ", file);
  const std::optional<std::string> field = FieldOf(status);
  constexpr absl::string_view kPrefix = "points[";
  int64_t index = 0;
  if (field.has_value() && absl::StartsWith(*field, kPrefix) &&
      absl::SimpleAtoi(absl::string_view(*field).substr(
                           kPrefix.size(), field->find(']') - kPrefix.size()),
                       &index) &&
      index >= 0 && index < rows) {
    where = absl::StrCat("row ", first_row + index, " of ", file);
  }
  return WithMessage(status, absl::StrCat(where, ": ", status.message()));
}

class ImportCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override { return flags_.Register(app); }

  absl::Status Run(Session* session) override {
    session->set_default_timeout(absl::Seconds(60));
    absl::Status ready = flags_.Check();
    if (!ready.ok()) return ready;
    absl::StatusOr<ImportInputs> inputs = ImportInputs::Open(flags_.files);
    if (!inputs.ok()) return inputs.status();
    ready = EnsureCollection(*session, &*inputs);
    if (!ready.ok()) return ready;
    absl::StatusOr<CheckpointKeeper> keeper = Plan(*session, *inputs);
    if (!keeper.ok()) return keeper.status();
    const int64_t stored = keeper->checkpoint().acknowledged_rows;
    ready = inputs->Skip(stored);
    if (!ready.ok()) return ready;
    if (flags_.resume) {
      session->err() << (stored == 0 ? "nothing to resume: from the first row"
                                     : absl::StrCat("resuming behind ",
                                                    Plural(stored, "row")))
                     << std::endl;
    }
    return SendAll(*session, &*inputs, &*keeper);
  }

 private:
  absl::Status AdviseImport(absl::Status status, int64_t columns) const {
    if (!absl::IsNotFound(status)) return status;
    return WithHint(std::move(status),
                    absl::StrCat("Create it first: coterie create ",
                                 flags_.collection, " --dim ", columns,
                                 " --metric cosine; or add --create --metric "
                                 "cosine"));
  }

  // The collection exists and takes these rows.
  absl::Status EnsureCollection(const Session& session,
                                ImportInputs* inputs) const {
    if (flags_.create) {
      if (flags_.dimension != 0) {
        absl::Status status = inputs->SetDimension(flags_.dimension);
        if (!status.ok()) return status;
      }
      v1::Collection wanted;
      wanted.set_name(flags_.collection);
      wanted.set_dimension(static_cast<int32_t>(inputs->dimension()));
      wanted.set_metric(flags_.metric());
      wanted.set_slots(flags_.slots);
      absl::StatusOr<v1::CreateCollectionResponse> created =
          CreateCollection(session, wanted);
      if (created.ok()) return absl::OkStatus();
      if (!absl::IsAlreadyExists(created.status())) return created.status();
    }
    absl::StatusOr<v1::GetCollectionResponse> found =
        GetCollection(session, flags_.collection);
    if (!found.ok()) return AdviseImport(found.status(), inputs->dimension());
    const v1::Collection& collection = found->collection();
    if (!inputs->SetDimension(collection.dimension()).ok()) {
      return WithHint(
          absl::FailedPreconditionError(
              absl::StrCat(flags_.files.rows, " has ", inputs->dimension(),
                           " columns but collection \"", flags_.collection,
                           "\" has dimension ", collection.dimension())),
          "Import into a collection of that dimension: coterie describe");
    }
    if (flags_.create && collection.metric() != flags_.metric()) {
      return WithHint(
          absl::FailedPreconditionError(absl::StrCat(
              "collection \"", flags_.collection, "\" exists with metric ",
              MetricName(collection.metric()), ", not ",
              MetricName(flags_.metric()))),
          "Leave out --create to import into it as it is");
    }
    return absl::OkStatus();
  }

  // Where to begin, and how; what is found of an earlier run with --resume.
  absl::StatusOr<CheckpointKeeper> Plan(const Session& session,
                                        const ImportInputs& inputs) const {
    ImportCheckpoint plan;
    plan.client_id = NewClientId();
    plan.batch_rows = inputs.BatchRows(flags_.batch);
    plan.in_flight = flags_.in_flight;
    auto identity = inputs.Identity();
    if (!identity.ok()) return identity.status();
    plan.identity = *std::move(identity);
    plan.identity.emplace_back("the collection", flags_.collection);
    absl::StatusOr<v1::DescribeResponse> cluster = session.Call(
        session.stubs().cluster, &v1::ClusterService::StubInterface::Describe,
        v1::DescribeRequest());
    plan.identity.emplace_back(
        "the cluster", cluster.ok() ? cluster->cluster_uuid() : "unknown");
    const std::string path =
        flags_.checkpoint.empty()
            ? absl::StrCat(flags_.files.rows, ".", flags_.collection,
                           ".checkpoint")
            : flags_.checkpoint;
    if (flags_.resume) {
      absl::Status status = Recall(session, path, inputs.rows(), &plan);
      if (!status.ok()) return status;
    }
    CheckpointKeeper keeper(path, !flags_.checkpoint.empty(), std::move(plan));
    absl::Status proven = keeper.Prove();
    if (!proven.ok()) return proven;
    return keeper;
  }

  // Replaces `plan` by the checkpoint, if there is one and it still holds.
  absl::Status Recall(const Session& session, const std::string& path,
                      int64_t rows, ImportCheckpoint* plan) const {
    const std::string hint =
        "Import without --resume to start over: it is safe to repeat";
    absl::StatusOr<std::optional<ImportCheckpoint>> saved =
        ReadCheckpoint(path);
    if (!saved.ok()) return WithHint(saved.status(), hint);
    if (!saved->has_value()) return absl::OkStatus();
    const ImportCheckpoint& was = **saved;
    absl::Status status = CheckSameImport(was, *plan, path);
    const bool sound = was.in_flight <= ImportFlags::kMaxInFlight &&
                       was.batch_rows <= ImportFlags::kMaxBatch &&
                       was.acknowledged_rows <= rows &&
                       (was.acknowledged_rows % was.batch_rows == 0 ||
                        was.acknowledged_rows == rows);
    if (status.ok() && !sound) {
      status = absl::InvalidArgumentError(
          absl::StrCat(path, ": numbers that no import has written"));
    }
    if (!status.ok()) return WithHint(std::move(status), hint);
    v1::CountRequest request;
    request.set_collection(flags_.collection);
    absl::StatusOr<v1::CountResponse> count =
        session.Call(session.stubs().points,
                     &v1::PointService::StubInterface::Count, request);
    if (!count.ok()) return count.status();
    if (count->count() < was.acknowledged_rows) {
      return WithHint(absl::FailedPreconditionError(absl::StrCat(
                          "collection \"", flags_.collection, "\" has ",
                          Plural(count->count(), "point"), ", fewer than the ",
                          WithCommas(was.acknowledged_rows),
                          " rows stored before: dropped meanwhile?")),
                      hint);
    }
    *plan = was;
    return absl::OkStatus();
  }

  absl::Status SendAll(const Session& session, ImportInputs* inputs,
                       CheckpointKeeper* keeper) const {
    const ImportCheckpoint plan = keeper->checkpoint();
    const int64_t rows = inputs->rows();
    const auto in_order = [&](const UpsertPipeline::Progress& progress) {
      return std::min(rows, progress.batches_in_order * plan.batch_rows);
    };
    ProgressBar bar({.label = absl::StrCat("import ", flags_.collection),
                     .total = rows - plan.acknowledged_rows,
                     .terminal = session.terminal().err_is_terminal,
                     .columns = session.terminal().columns},
                    &session.err(), absl::Now());
    bool noted = false;
    const auto on_progress = [&](const UpsertPipeline::Progress& progress) {
      if (progress.retries > 0 && !std::exchange(noted, true)) {
        bar.Note(absl::StrCat("retrying: ", progress.last_error));
      }
      const absl::Time now = absl::Now();
      bar.Update(progress.points_done, now);
      const absl::Status kept = keeper->Keep(in_order(progress), now);
      if (!kept.ok()) {
        bar.Note(absl::StrCat("cannot be resumed: ", kept.message()));
      }
    };
    UpsertPipeline pipeline(
        {.in_flight = static_cast<int>(plan.in_flight),
         .retry = {.give_up_after = flags_.retry_for()},
         .client_id = plan.client_id,
         .first_batch = plan.acknowledged_rows / plan.batch_rows},
        [&](const v1::UpsertRequest& batch) {
          return Send(session, batch, plan.batch_rows);
        },
        on_progress);
    const absl::Status status = Feed(plan.batch_rows, inputs, &pipeline);
    const UpsertPipeline::Progress progress = pipeline.progress();
    if (!status.ok()) {
      bar.Clear();
      keeper->Write(in_order(progress)).IgnoreError();
      return Explain(status, plan.acknowledged_rows + progress.points_done,
                     rows, keeper->written());
    }
    bar.Update(progress.points_done, absl::Now());
    bar.Finish(absl::Now());
    keeper->Remove();
    v1::UpsertResponse total;
    total.set_upserted(progress.points_done);
    if (session.json()) {
      session.PrintJson(total);
    } else {
      session.out() << "imported " << Plural(progress.points_done, "row")
                    << " into " << flags_.collection << '\n';
    }
    return absl::OkStatus();
  }

  static absl::Status Explain(const absl::Status& status, int64_t done,
                              int64_t rows, bool resumable) {
    if (done == 0) return status;
    return WithMessage(
        status,
        absl::StrCat(status.message(), "; of ", Plural(rows, "row"),
                     " at least ", WithCommas(done),
                     " are stored, and importing again is safe",
                     resumable ? " (--resume goes on from there)" : ""));
  }

  absl::Status Send(const Session& session, const v1::UpsertRequest& batch,
                    int64_t batch_rows) const {
    absl::StatusOr<v1::UpsertResponse> response =
        session.Call(session.stubs().points,
                     &v1::PointService::StubInterface::Upsert, batch);
    if (response.ok()) return absl::OkStatus();
    return NameRows(response.status(), flags_.files.rows,
                    batch.request_id().sequence() * batch_rows,
                    batch.points_size());
  }

  absl::Status Feed(int64_t batch_rows, ImportInputs* inputs,
                    UpsertPipeline* pipeline) const {
    while (true) {
      v1::UpsertRequest batch;
      batch.set_collection(flags_.collection);
      absl::Status status = inputs->Next(batch_rows, &batch);
      if (!status.ok()) return status;
      if (batch.points().empty()) return pipeline->Finish();
      status = pipeline->Add(std::move(batch));
      if (!status.ok()) return status;
    }
  }

  ImportFlags flags_;
};

}  // namespace

std::unique_ptr<Command> NewImportCommand() {
  return std::make_unique<ImportCommand>();
}

}  // namespace coterie
