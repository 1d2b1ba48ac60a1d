#include <CLI/App.hpp>
#include <algorithm>
#include <limits>
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
#include "client/npy_file.h"
#include "client/numbers.h"
#include "client/point_text.h"
#include "client/progress_bar.h"
#include "client/text_lines.h"
#include "client/upsert_pipeline.h"

namespace coterie {
namespace {

constexpr char kHelp[] = R"(Examples:
  coterie import words words-10k.npy --text words-10k.txt --as word \
      --create --metric cosine
  coterie import words more.npy --first-id 10000

FILE.npy is what numpy.save writes of a 2-D array of float32, float64 or
float16. Row i becomes point FIRST_ID + i. The text file has one line a row,
kept as a string attribute. Files are read piece by piece, whatever their size.
Several batches are under way at once; a busy or restarting server is waited
for, up to a minute a batch. Running the same import again is safe: it writes
the same points. Each call may take 60 s unless --timeout says otherwise.)";

// A quarter of what a message may hold: four in flight stay far below the
// server's own bounds.
constexpr int64_t kBatchBytes = 4 << 20;
// Tags, lengths and id of a point, generously.
constexpr int64_t kPointOverheadBytes = 64;
constexpr int64_t kMaxBatch = 4096;
constexpr int64_t kMaxInFlight = 16;

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
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("import", "Import the rows of a .npy file");
    command->add_option("NAME", collection_, "Collection")->required();
    command->add_option("FILE.npy", file_, "Vectors, one a row")->required();
    CLI::Option* text = command->add_option(
        "--text", text_file_, "Text of each row, one a line, UTF-8");
    command
        ->add_option("--as", attribute_,
                     "Attribute that holds the text (default: text)")
        ->needs(text);
    command->add_option("--first-id", first_id_,
                        "Id of row 0 (default: 0); row i gets id + i");
    command->add_option("--batch", batch_,
                        "Rows a request, 1..4096 (default: 1000)");
    command->add_option("--in-flight", in_flight_,
                        "Requests under way at once, 1..16 (default: 4)");
    CLI::Option* create = command->add_flag(
        "--create", create_, "Create the collection if there is none");
    command->add_option("--metric", metric_, "With --create: cosine, l2 or ip")
        ->needs(create);
    command->add_option("--slots", slots_, "With --create: slots (default: 64)")
        ->needs(create);
    command->footer(kHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    session->set_default_timeout(absl::Seconds(60));
    absl::Status ready = CheckFlags();
    if (!ready.ok()) return ready;
    absl::StatusOr<NpyFile> vectors = NpyFile::Open(file_);
    if (!vectors.ok()) return BadFile(vectors.status());
    std::optional<TextLines> text;
    ready = OpenText(*vectors, &text);
    if (!ready.ok()) return ready;
    ready = CheckIds(vectors->layout().rows);
    if (!ready.ok()) return ready;
    ready = EnsureCollection(*session, vectors->layout().columns);
    if (!ready.ok()) return ready;
    return SendAll(*session, &*vectors, text.has_value() ? &*text : nullptr);
  }

 private:
  static absl::Status BadFile(absl::Status status) {
    return WithHint(std::move(status),
                    "Write it with: numpy.save(\"rows.npy\", "
                    "a.astype(\"<f4\")), a of shape (rows, columns)");
  }

  absl::Status CheckFlags() {
    const std::string see = "See: coterie import --help";
    if (batch_ < 1 || batch_ > kMaxBatch) {
      return UsageError(
          absl::StrCat("--batch ", batch_, ": expected 1..", kMaxBatch), see);
    }
    if (in_flight_ < 1 || in_flight_ > kMaxInFlight) {
      return UsageError(absl::StrCat("--in-flight ", in_flight_,
                                     ": expected 1..", kMaxInFlight),
                        see);
    }
    if (create_ && metric_.empty()) {
      return UsageError("--create needs --metric",
                        "Say what near means: --metric cosine, l2 or ip");
    }
    if (!metric_.empty()) {
      absl::StatusOr<v1::Metric> metric = ParseMetric(metric_);
      if (!metric.ok()) return metric.status();
      parsed_metric_ = *metric;
    }
    absl::StatusOr<uint64_t> id = ParsePointId(first_id_);
    if (!id.ok()) {
      return UsageError(absl::StrCat("--first-id: ", id.status().message()),
                        see);
    }
    parsed_first_id_ = *id;
    return absl::OkStatus();
  }

  absl::Status OpenText(const NpyFile& vectors,
                        std::optional<TextLines>* text) const {
    if (vectors.layout().one_dimensional) {
      return BadFile(absl::InvalidArgumentError(
          absl::StrCat(file_, ": one vector, shape (", vectors.layout().columns,
                       ",); expected rows, shape (rows, columns)")));
    }
    if (text_file_.empty()) return absl::OkStatus();
    absl::StatusOr<TextLines> opened = TextLines::Open(text_file_);
    if (!opened.ok()) {
      return WithHint(opened.status(),
                      "The text file has one line of UTF-8 for each row");
    }
    if (opened->lines() != vectors.layout().rows) {
      return WithHint(
          absl::InvalidArgumentError(absl::StrCat(
              text_file_, " has ", Plural(opened->lines(), "line"), " but ",
              file_, " has ", Plural(vectors.layout().rows, "row"))),
          "The text file must have one line for each row");
    }
    text->emplace(*std::move(opened));
    return absl::OkStatus();
  }

  absl::Status CheckIds(int64_t rows) const {
    constexpr uint64_t kLastId = std::numeric_limits<uint64_t>::max();
    if (rows == 0 ||
        static_cast<uint64_t>(rows) - 1 <= kLastId - parsed_first_id_) {
      return absl::OkStatus();
    }
    return UsageError(
        absl::StrCat("--first-id ", first_id_, ": ", Plural(rows, "row"),
                     " go beyond the last id, ", kLastId),
        absl::StrCat("Use a --first-id of at most ",
                     kLastId - (static_cast<uint64_t>(rows) - 1)));
  }

  absl::Status AdviseImport(absl::Status status, int64_t columns) const {
    if (!absl::IsNotFound(status)) return status;
    return WithHint(std::move(status),
                    absl::StrCat("Create it first: coterie create ",
                                 collection_, " --dim ", columns,
                                 " --metric cosine; or add --create --metric "
                                 "cosine"));
  }

  // The collection exists and takes these rows.
  absl::Status EnsureCollection(const Session& session, int64_t columns) const {
    if (create_) {
      v1::Collection wanted;
      wanted.set_name(collection_);
      wanted.set_dimension(static_cast<int32_t>(columns));
      wanted.set_metric(parsed_metric_);
      wanted.set_slots(slots_);
      absl::StatusOr<v1::CreateCollectionResponse> created =
          CreateCollection(session, wanted);
      if (created.ok()) return absl::OkStatus();
      if (!absl::IsAlreadyExists(created.status())) return created.status();
    }
    absl::StatusOr<v1::GetCollectionResponse> found =
        GetCollection(session, collection_);
    if (!found.ok()) return AdviseImport(found.status(), columns);
    const v1::Collection& collection = found->collection();
    if (collection.dimension() != columns) {
      return WithHint(
          absl::FailedPreconditionError(absl::StrCat(
              file_, " has ", columns, " columns but collection \"",
              collection_, "\" has dimension ", collection.dimension())),
          "Import into a collection of that dimension: coterie describe");
    }
    if (create_ && collection.metric() != parsed_metric_) {
      return WithHint(
          absl::FailedPreconditionError(absl::StrCat(
              "collection \"", collection_, "\" exists with metric ",
              MetricName(collection.metric()), ", not ",
              MetricName(parsed_metric_))),
          "Leave out --create to import into it as it is");
    }
    return absl::OkStatus();
  }

  absl::Status SendAll(const Session& session, NpyFile* vectors,
                       TextLines* text) const {
    const int64_t rows = vectors->layout().rows;
    ProgressBar bar({.label = absl::StrCat("import ", collection_),
                     .total = rows,
                     .terminal = session.terminal().err_is_terminal,
                     .columns = session.terminal().columns},
                    &session.err(), absl::Now());
    bool noted = false;
    const auto on_progress = [&](const UpsertPipeline::Progress& progress) {
      if (progress.retries > 0 && !std::exchange(noted, true)) {
        bar.Note(absl::StrCat("retrying: ", progress.last_error));
      }
      bar.Update(progress.points_done, absl::Now());
    };
    UpsertPipeline pipeline(
        [&](const v1::UpsertRequest& batch) { return Send(session, batch); },
        on_progress, static_cast<int>(in_flight_), RetryPolicy());
    const absl::Status status = Feed(vectors, text, &pipeline);
    const int64_t done = pipeline.points_done();
    if (!status.ok()) {
      bar.Clear();
      return Explain(status, done, rows);
    }
    bar.Update(done, absl::Now());
    bar.Finish(absl::Now());
    v1::UpsertResponse total;
    total.set_upserted(done);
    if (session.json()) {
      session.PrintJson(total);
    } else {
      session.out() << "imported " << Plural(done, "row") << " into "
                    << collection_ << '\n';
    }
    return absl::OkStatus();
  }

  absl::Status Explain(const absl::Status& status, int64_t done,
                       int64_t rows) const {
    if (done == 0) return status;
    return WithMessage(
        status, absl::StrCat(status.message(), "; of ", Plural(rows, "row"),
                             " at least ", WithCommas(done),
                             " are stored, and importing again is safe"));
  }

  absl::Status Send(const Session& session,
                    const v1::UpsertRequest& batch) const {
    absl::StatusOr<v1::UpsertResponse> response =
        session.Call(session.stubs().points,
                     &v1::PointService::StubInterface::Upsert, batch);
    if (response.ok()) return absl::OkStatus();
    // Rows are numbered from parsed_first_id_ without gaps.
    const auto first_row =
        static_cast<int64_t>(batch.points(0).id() - parsed_first_id_);
    return NameRows(response.status(), file_, first_row, batch.points_size());
  }

  absl::Status Feed(NpyFile* vectors, TextLines* text,
                    UpsertPipeline* pipeline) const {
    const int64_t columns = vectors->layout().columns;
    const int64_t point_bytes =
        columns * static_cast<int64_t>(sizeof(float)) + kPointOverheadBytes +
        static_cast<int64_t>(attribute_.size()) +
        (text == nullptr ? 0 : text->longest_line_bytes());
    const int64_t rows_per_batch =
        std::clamp<int64_t>(kBatchBytes / point_bytes, 1, batch_);
    uint64_t id = parsed_first_id_;
    std::vector<float> values;
    while (true) {
      absl::Status status = vectors->ReadRows(rows_per_batch, &values);
      if (!status.ok()) return status;
      if (values.empty()) return pipeline->Finish();
      v1::UpsertRequest batch;
      batch.set_collection(collection_);
      for (size_t at = 0; at < values.size(); at += columns) {
        v1::Point* point = batch.add_points();
        point->set_id(id++);
        *point->mutable_vector() =
            PackVector(absl::MakeConstSpan(values).subspan(at, columns));
        if (text == nullptr) continue;
        std::string* line =
            (*point->mutable_attributes())[attribute_].mutable_string_value();
        status = text->Next(line);
        if (!status.ok()) return status;
      }
      status = pipeline->Add(std::move(batch));
      if (!status.ok()) return status;
    }
  }

  std::string collection_;
  std::string file_;
  std::string text_file_;
  std::string attribute_ = "text";
  std::string first_id_ = "0";
  int64_t batch_ = 1000;
  int64_t in_flight_ = 4;
  bool create_ = false;
  std::string metric_;
  int32_t slots_ = 0;

  v1::Metric parsed_metric_ = v1::METRIC_UNSPECIFIED;
  uint64_t parsed_first_id_ = 0;
};

}  // namespace

std::unique_ptr<Command> NewImportCommand() {
  return std::make_unique<ImportCommand>();
}

}  // namespace coterie
