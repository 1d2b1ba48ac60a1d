#include "client/import_inputs.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/points_convert.h"
#include "api/quoted.h"
#include "client/errors.h"
#include "client/import_checkpoint.h"
#include "client/numbers.h"
#include "client/rows/input_file.h"

namespace coterie {
namespace {

// A quarter of what a message may hold: several in flight stay far below the
// server's own bounds.
constexpr int64_t kBatchBytes = 4 << 20;
// Tags, lengths and id of a point, generously.
constexpr int64_t kPointOverheadBytes = 64;
// Values handled at once where rows are only skipped.
constexpr int64_t kSkippedAtOnce = 4096;

bool IsCsvPath(const std::string& path) {
  const absl::StatusOr<RowFormat> format = RowFormatOfPath(path);
  return format.ok() && *format == RowFormat::kCsv;
}

absl::Status AdviseRows(absl::Status status, RowFormat format) {
  if (format != RowFormat::kNpy) return status;
  return WithHint(std::move(status),
                  "Write it with: numpy.save(\"rows.npy\", "
                  "a.astype(\"<f4\")), a of shape (rows, columns)");
}

// Options that would do nothing.
absl::Status CheckOptions(const RowOptions& options, RowFormat format) {
  const bool csv = !options.id_column.empty() ||
                   !options.attribute_columns.empty() ||
                   options.header != CsvHeader::kGuess;
  const std::string other = absl::StrCat(
      "the format is ", RowFormatName(format), "; another: --format");
  if (csv && format != RowFormat::kCsv) {
    return UsageError("--id-column, --attribute-column and --header are of csv",
                      other);
  }
  if (options.zero_based && format != RowFormat::kLibsvm) {
    return UsageError("--zero-based is of libsvm", other);
  }
  return absl::OkStatus();
}

absl::Status AddAll(const Attributes& attributes, absl::string_view source,
                    v1::Point* point) {
  for (const auto& [name, value] : attributes) {
    if (point->attributes().count(name) > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute ", Quoted(name), " comes from ", source,
                       " and from another file as well"));
    }
  }
  google::protobuf::Map<std::string, v1::AttributeValue> encoded;
  EncodeAttributes(attributes, &encoded);
  if (point->attributes().empty()) {
    point->mutable_attributes()->swap(encoded);
  } else {
    point->mutable_attributes()->insert(encoded.begin(), encoded.end());
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status SkipBeside(SideFile<T>* file, int64_t rows) {
  std::vector<T> values;
  while (file != nullptr && rows > 0) {
    absl::Status status = file->Read(std::min(rows, kSkippedAtOnce), &values);
    if (!status.ok()) return status;
    rows -= static_cast<int64_t>(values.size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImportInputs> ImportInputs::Open(const ImportFiles& files) {
  ImportInputs inputs(files);
  if (files.format.has_value()) {
    inputs.format_ = *files.format;
  } else {
    absl::StatusOr<RowFormat> format = RowFormatOfPath(files.rows);
    if (!format.ok()) {
      return WithHint(
          format.status(),
          absl::StrCat("Say which it is: --format ", RowFormatNames()));
    }
    inputs.format_ = *format;
  }
  absl::Status fits = CheckOptions(files.options, inputs.format_);
  if (!fits.ok()) return fits;
  absl::StatusOr<InputFile> file = OpenInputFile(files.rows);
  if (!file.ok()) return AdviseRows(file.status(), inputs.format_);
  absl::StatusOr<std::unique_ptr<RowSource>> rows =
      OpenRows(*std::move(file), inputs.format_, files.options);
  if (!rows.ok()) return AdviseRows(rows.status(), inputs.format_);
  inputs.rows_ = *std::move(rows);
  absl::Status status = inputs.OpenBeside();
  if (!status.ok()) return status;
  status = inputs.CheckFirstId();
  if (!status.ok()) return status;
  return inputs;
}

absl::Status ImportInputs::OpenBeside() {
  if (!files_.text.empty()) {
    absl::StatusOr<TextLines> text = TextLines::Open(files_.text);
    if (!text.ok()) {
      return WithHint(text.status(),
                      "The text file has one line of UTF-8 for each row");
    }
    text_.emplace(*std::move(text));
    absl::Status status = CheckRows(text_->name(), text_->lines(), "line");
    if (!status.ok()) return status;
  }
  if (!files_.ids.empty()) {
    absl::StatusOr<InputFile> file = OpenInputFile(files_.ids);
    if (!file.ok()) return file.status();
    absl::StatusOr<std::unique_ptr<IdFile>> ids = OpenIds(*std::move(file));
    if (!ids.ok()) return ids.status();
    ids_ = *std::move(ids);
    absl::Status status = CheckRows(ids_->name(), ids_->rows(), "id");
    if (!status.ok()) return status;
  }
  if (!files_.attributes.empty()) {
    absl::StatusOr<InputFile> file = OpenInputFile(files_.attributes);
    if (!file.ok()) return file.status();
    absl::StatusOr<std::unique_ptr<AttributeFile>> attributes = OpenAttributes(
        *std::move(file), IsCsvPath(files_.attributes),
        absl::EndsWithIgnoreCase(files_.attributes, ".tsv") ? '\t' : ',');
    if (!attributes.ok()) return attributes.status();
    attributes_ = *std::move(attributes);
    absl::Status status =
        CheckRows(attributes_->name(), attributes_->rows(), "row");
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ImportInputs::CheckRows(const std::string& name, int64_t rows,
                                     const char* unit) const {
  if (rows == rows_->rows()) return absl::OkStatus();
  return WithHint(absl::InvalidArgumentError(absl::StrCat(
                      name, " has ", Plural(rows, unit), " but ", rows_->name(),
                      " has ", Plural(rows_->rows(), "row"))),
                  "It must have one for each row");
}

absl::Status ImportInputs::CheckFirstId() const {
  if (ids_ != nullptr && rows_->has_ids()) {
    return UsageError("ids come from a column and from --ids",
                      "Leave one of them out");
  }
  constexpr uint64_t kLastId = std::numeric_limits<uint64_t>::max();
  const auto rows = static_cast<uint64_t>(rows_->rows());
  if (ids_ != nullptr || rows_->has_ids() || rows == 0 ||
      rows - 1 <= kLastId - files_.first_id) {
    return absl::OkStatus();
  }
  return UsageError(
      absl::StrCat("--first-id ", files_.first_id, ": ",
                   Plural(rows_->rows(), "row"), " go beyond the last id, ",
                   kLastId),
      absl::StrCat("Use a --first-id of at most ", kLastId - (rows - 1)));
}

int64_t ImportInputs::BatchRows(int64_t most) const {
  int64_t bytes = dimension() * static_cast<int64_t>(sizeof(float)) +
                  kPointOverheadBytes + rows_->attribute_bytes();
  if (attributes_ != nullptr) bytes += attributes_->most_bytes();
  if (text_.has_value()) {
    bytes += static_cast<int64_t>(files_.text_attribute.size()) +
             text_->longest_line_bytes();
  }
  return std::clamp<int64_t>(kBatchBytes / bytes, 1, most);
}

absl::Status ImportInputs::Skip(int64_t rows) {
  absl::Status status = rows_->Skip(rows);
  if (status.ok()) status = SkipBeside(ids_.get(), rows);
  if (status.ok()) status = SkipBeside(attributes_.get(), rows);
  std::string line;
  for (int64_t i = 0; status.ok() && text_.has_value() && i < rows; ++i) {
    status = text_->Next(&line);
  }
  next_row_ += rows;
  return status;
}

absl::Status ImportInputs::Next(int64_t max_rows, v1::UpsertRequest* batch) {
  absl::Status status = rows_->Read(max_rows, &block_);
  if (!status.ok()) return status;
  if (block_.rows == 0) return absl::OkStatus();
  if (ids_ != nullptr) {
    status = ids_->Read(block_.rows, &block_.ids);
    if (!status.ok()) return status;
  }
  if (attributes_ != nullptr) {
    status = attributes_->Read(block_.rows, &beside_);
    if (!status.ok()) return status;
  }
  const auto rows = static_cast<size_t>(block_.rows);
  if ((!block_.ids.empty() && block_.ids.size() != rows) ||
      (attributes_ != nullptr && beside_.size() != rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows_->name(), ": row ", next_row_,
                     ": a file beside it has been changed meanwhile"));
  }
  for (int64_t i = 0; i < block_.rows; ++i, ++next_row_) {
    v1::Point* point = batch->add_points();
    point->set_id(block_.ids.empty()
                      ? files_.first_id + static_cast<uint64_t>(next_row_)
                      : block_.ids[i]);
    v1::PackedVector* packed = point->mutable_vector()->mutable_packed();
    packed->set_dtype(v1::F32);
    packed->set_data(block_.values.data() + i * dimension(),
                     dimension() * sizeof(float));
    status = AddAttributes(i, point);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ImportInputs::AddAttributes(int64_t i, v1::Point* point) {
  absl::Status status;
  if (!block_.attributes.empty()) {
    status = AddAll(block_.attributes[i], rows_->name(), point);
  }
  if (status.ok() && attributes_ != nullptr) {
    status = AddAll(beside_[i], attributes_->name(), point);
  }
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        rows_->name(), ": row ", next_row_, ": ", status.message()));
  }
  if (!text_.has_value()) return absl::OkStatus();
  if (point->attributes().count(files_.text_attribute) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows_->name(), ": row ", next_row_, ": attribute ",
                     Quoted(files_.text_attribute), " comes from ",
                     text_->name(), " and from another file as well"));
  }
  return text_->Next((*point->mutable_attributes())[files_.text_attribute]
                         .mutable_string_value());
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>>
ImportInputs::Identity() const {
  std::vector<std::pair<std::string, std::string>> identity;
  for (const auto& [what, path] :
       std::initializer_list<std::pair<const char*, std::string>>{
           {"rows", files_.rows},
           {"ids", files_.ids},
           {"attributes", files_.attributes},
           {"text", files_.text}}) {
    absl::StatusOr<std::string> file =
        path.empty() ? "none" : IdentifyFile(path);
    if (!file.ok()) return file.status();
    identity.emplace_back(absl::StrCat("the file of ", what), *file);
  }
  const RowOptions& options = files_.options;
  identity.emplace_back(
      "what is read",
      absl::StrCat("format ", RowFormatName(format_), ", dimension ",
                   dimension(), ", first id ", files_.first_id, ", text ",
                   files_.text_attribute, ", label ", options.label,
                   options.zero_based ? ", zero-based" : "", ", delimiter ",
                   std::string(1, options.delimiter), ", header ",
                   static_cast<int>(options.header), ", id column ",
                   options.id_column, ", attribute columns ",
                   absl::StrJoin(options.attribute_columns, " ")));
  return identity;
}

}  // namespace coterie
