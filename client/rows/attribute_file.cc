// Attributes beside the vectors.

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/quoted.h"
#include "client/numbers.h"
#include "client/rows/csv_attributes.h"
#include "client/rows/csv_reader.h"
#include "client/rows/json_attributes.h"
#include "client/rows/line_reader.h"
#include "client/rows/side_files.h"

namespace coterie {
namespace {

// 16 KiB of attributes, each character an escape.
constexpr int64_t kMaxJsonBytes = 128 << 10;

class JsonLines : public AttributeFile {
 public:
  explicit JsonLines(InputFile file)
      : AttributeFile(file.name), reader_(std::move(file), kMaxJsonBytes) {}

  absl::Status Examine() {
    std::vector<Attributes> one;
    while (true) {
      absl::Status status = Read(1, &one);
      if (!status.ok()) return status;
      if (one.empty()) break;
      ++rows_;
      // Numbers take up to 10 bytes, whatever their text.
      most_bytes_ =
          std::max(most_bytes_, AttributeBytes(one[0]) +
                                    static_cast<int64_t>(one[0].size()) * 10);
    }
    reader_.Rewind();
    return absl::OkStatus();
  }

  absl::Status Read(int64_t max_rows,
                    std::vector<Attributes>* values) override {
    values->clear();
    while (static_cast<int64_t>(values->size()) < max_rows) {
      absl::StatusOr<bool> more = reader_.Next(&line_);
      if (!more.ok()) return more.status();
      if (!*more) break;
      // A blank line would be a row without attributes: {} says that.
      absl::StatusOr<Attributes> attributes = ParseAttributes(line_);
      if (!attributes.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(reader_.Where(), ", ", attributes.status().message()));
      }
      values->push_back(*std::move(attributes));
    }
    return absl::OkStatus();
  }

 private:
  LineReader reader_;
  std::string line_;
};

class CsvTable : public AttributeFile {
 public:
  CsvTable(InputFile file, char delimiter)
      : AttributeFile(file.name), reader_(std::move(file), delimiter) {}

  absl::Status Examine() {
    absl::StatusOr<bool> more = reader_.Next(&fields_);
    if (!more.ok()) return more.status();
    if (!*more) {
      return absl::InvalidArgumentError(absl::StrCat(
          name_, ": empty; expected a header that names the attributes"));
    }
    absl::Status status = NameColumns();
    if (!status.ok()) return status;
    while (true) {
      more = Next();
      if (!more.ok()) return more.status();
      if (!*more) break;
      status = attributes_.See(fields_, reader_.Where());
      if (!status.ok()) return status;
      ++rows_;
    }
    most_bytes_ = attributes_.most_bytes();
    reader_.Rewind();
    return reader_.Next(&fields_).status();
  }

  absl::Status Read(int64_t max_rows,
                    std::vector<Attributes>* values) override {
    values->clear();
    while (static_cast<int64_t>(values->size()) < max_rows) {
      absl::StatusOr<bool> more = Next();
      if (!more.ok()) return more.status();
      if (!*more) break;
      absl::StatusOr<Attributes> attributes =
          attributes_.Take(fields_, reader_.Where());
      if (!attributes.ok()) return attributes.status();
      values->push_back(*std::move(attributes));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status NameColumns() {
    std::set<std::string> names;
    columns_ = fields_.size();
    for (size_t i = 0; i < columns_; ++i) {
      std::string name(absl::StripAsciiWhitespace(fields_[i].text));
      if (name.empty() || !IsValidUtf8(name) || !names.insert(name).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(reader_.Where(), ", column ", i + 1, " is named ",
                         Quoted(name), "; expected names, each once"));
      }
      attributes_.Add(i, std::move(name), std::nullopt);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Next() {
    absl::StatusOr<bool> more = reader_.Next(&fields_);
    if (!more.ok() || !*more || fields_.size() == columns_) return more;
    return absl::InvalidArgumentError(
        absl::StrCat(reader_.Where(), ": ",
                     Plural(static_cast<int64_t>(fields_.size()), "field"),
                     "; the header has ", columns_));
  }

  CsvReader reader_;
  CsvAttributes attributes_;
  size_t columns_ = 0;
  std::vector<CsvReader::Field> fields_;
};

template <typename File>
absl::StatusOr<std::unique_ptr<AttributeFile>> Examined(
    std::unique_ptr<File> file) {
  absl::Status status = file->Examine();
  if (!status.ok()) return status;
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttributeFile>> OpenAttributes(InputFile file,
                                                              bool csv,
                                                              char delimiter) {
  if (csv) {
    return Examined(std::make_unique<CsvTable>(std::move(file), delimiter));
  }
  return Examined(std::make_unique<JsonLines>(std::move(file)));
}

}  // namespace coterie
