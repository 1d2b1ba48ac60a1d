#include <CLI/App.hpp>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/limits.h"
#include "api/points_convert.h"
#include "client/collections.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/numbers.h"
#include "client/progress_bar.h"
#include "client/rows/atomic_file.h"
#include "client/rows/json_attributes.h"
#include "client/rows/row_writer.h"

namespace coterie {
namespace {

constexpr char kHelp[] = R"(Examples:
  coterie export words words.npy
  coterie export words words.fvecs --no-attributes
  coterie export words words.csv --force

Writes all points: vectors to FILE in the format of its extension, npy, fvecs,
fbin or csv; ids beside it to FILE.ids.npy (in csv they are the first column);
attributes to FILE.attributes.jsonl, one JSON object a line. Row i of each is
the same point. coterie import takes them back, byte for byte:

  coterie import copy words.npy --ids words.npy.ids.npy \
      --attributes words.npy.attributes.jsonl --create --metric cosine

Each shard is read at one moment, so that no write is seen half; points come by
shard, slot and id, one piece at a time. Files appear under their names when
all are whole. Without --timeout an export may take a day.)";

class ExportCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("export", "Write all points to files");
    command->add_option("NAME", collection_, "Collection")->required();
    command->add_option("FILE", file_, "Vectors, one a row")->required();
    command->add_option("--format", format_text_,
                        "Format of FILE (default: by its extension)");
    command->add_option("--ids", ids_file_,
                        "Ids, .npy of uint64 (default: FILE.ids.npy)");
    CLI::Option* attributes = command->add_option(
        "--attributes", attributes_file_,
        "Attributes, JSON lines (default: FILE.attributes.jsonl)");
    command->add_flag("--no-attributes", no_attributes_, "Leave attributes out")
        ->excludes(attributes);
    command->add_flag("--force", force_, "Replace files that exist");
    command->footer(kHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    // One call streams everything.
    session->set_default_timeout(absl::Hours(24));
    absl::Status status = CheckFlags();
    if (!status.ok()) return status;
    absl::StatusOr<v1::GetCollectionResponse> found =
        GetCollection(*session, collection_);
    if (!found.ok()) return found.status();
    dimension_ = found->collection().dimension();
    status = OpenFiles();
    if (!status.ok()) return status;
    status = Stream(*session, found->stats().points());
    if (!status.ok()) return status;
    return Conclude(*session);
  }

 private:
  absl::Status CheckFlags() {
    absl::StatusOr<RowFormat> format = format_text_.empty()
                                           ? RowFormatOfPath(file_)
                                           : ParseRowFormat(format_text_);
    if (!format.ok()) {
      return UsageError(format.status().message(),
                        "Say which it is: --format npy, fvecs, fbin or csv");
    }
    format_ = *format;
    if (ids_file_.empty() && format_ != RowFormat::kCsv) {
      ids_file_ = file_ + ".ids.npy";
    }
    if (attributes_file_.empty() && !no_attributes_) {
      attributes_file_ = file_ + ".attributes.jsonl";
    }
    for (const std::string& path : {file_, ids_file_, attributes_file_}) {
      std::error_code error;
      if (!force_ && !path.empty() && std::filesystem::exists(path, error)) {
        return WithHint(absl::AlreadyExistsError(absl::StrCat(path, " exists")),
                        "Replace it with --force, or name another file");
      }
    }
    return absl::OkStatus();
  }

  absl::Status OpenFiles() {
    absl::StatusOr<std::unique_ptr<RowWriter>> rows =
        CreateRows(file_, format_, dimension_);
    if (!rows.ok()) return rows.status();
    rows_ = *std::move(rows);
    if (!ids_file_.empty()) {
      absl::StatusOr<std::unique_ptr<RowWriter>> ids = CreateIds(ids_file_);
      if (!ids.ok()) return ids.status();
      ids_ = *std::move(ids);
    }
    if (!attributes_file_.empty()) {
      absl::StatusOr<AtomicFile> attributes =
          AtomicFile::Create(attributes_file_);
      if (!attributes.ok()) return attributes.status();
      attributes_.emplace(*std::move(attributes));
    }
    return absl::OkStatus();
  }

  absl::Status Stream(const Session& session, int64_t expected) {
    ProgressBar bar({.label = absl::StrCat("export ", collection_),
                     .unit = "points",
                     .total = expected,
                     .terminal = session.terminal().err_is_terminal,
                     .columns = session.terminal().columns},
                    &session.err(), absl::Now());
    v1::ScanRequest request;
    request.set_collection(collection_);
    request.set_with_vectors(true);
    request.mutable_with_attributes()->set_all(attributes_.has_value());
    grpc::ClientContext context;
    session.Prepare(&context);
    const std::unique_ptr<grpc::ClientReaderInterface<v1::ScanResponse>>
        reader = session.stubs().points->Scan(&context, request);
    v1::ScanResponse page;
    absl::Status status;
    while (status.ok() && reader->Read(&page)) {
      for (const v1::Point& point : page.points()) {
        status = Write(point);
        if (!status.ok()) break;
      }
      // Points written while this reads are more than were counted.
      bar.Update(std::min(points_, expected), absl::Now());
    }
    if (!status.ok()) context.TryCancel();
    const grpc::Status finished = reader->Finish();
    if (status.ok()) status = FromGrpcStatus(finished);
    if (!status.ok()) {
      bar.Clear();
      return status;
    }
    bar.Finish(absl::Now());
    return absl::OkStatus();
  }

  absl::Status Write(const v1::Point& point) {
    const std::string field = absl::StrCat("point ", point.id());
    absl::StatusOr<std::vector<float>> vector =
        DecodeVector(point.vector(), field, Limits());
    if (!vector.ok() || static_cast<int64_t>(vector->size()) != dimension_) {
      return absl::InternalError(absl::StrCat(
          field, ": the server sent no vector of dimension ", dimension_));
    }
    ++points_;
    absl::Status status = rows_->Add(point.id(), *vector);
    if (status.ok() && ids_ != nullptr) status = ids_->Add(point.id(), {});
    if (!status.ok() || !attributes_.has_value()) return status;
    absl::StatusOr<Attributes> attributes =
        DecodeAttributes(point.attributes(), field, Limits());
    if (!attributes.ok()) return attributes.status();
    return attributes_->Append(
        absl::StrCat(FormatAttributes(*attributes), "\n"));
  }

  // All files are whole before the first gets its name.
  absl::Status Conclude(const Session& session) {
    absl::Status status = rows_->Finish();
    if (status.ok() && ids_ != nullptr) status = ids_->Finish();
    if (status.ok() && attributes_.has_value()) status = attributes_->Sync();
    if (status.ok() && ids_ != nullptr) status = ids_->Commit();
    if (status.ok() && attributes_.has_value()) status = attributes_->Commit();
    if (status.ok()) status = rows_->Commit();
    if (!status.ok()) return status;
    if (session.json()) {
      v1::CountResponse total;
      total.set_count(points_);
      session.PrintJson(total);
      return absl::OkStatus();
    }
    session.out() << "exported " << Plural(points_, "point") << " of "
                  << collection_ << " to " << file_;
    for (const std::string& path : {ids_file_, attributes_file_}) {
      if (!path.empty()) session.out() << ", " << path;
    }
    session.out() << '\n';
    return absl::OkStatus();
  }

  std::string collection_;
  std::string file_;
  std::string format_text_;
  std::string ids_file_;
  std::string attributes_file_;
  bool no_attributes_ = false;
  bool force_ = false;

  RowFormat format_ = RowFormat::kNpy;
  int64_t dimension_ = 0;
  int64_t points_ = 0;
  std::unique_ptr<RowWriter> rows_;
  std::unique_ptr<RowWriter> ids_;
  std::optional<AtomicFile> attributes_;
};

}  // namespace

std::unique_ptr<Command> NewExportCommand() {
  return std::make_unique<ExportCommand>();
}

}  // namespace coterie
