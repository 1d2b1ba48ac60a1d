#include "client/rows/csv_reader.h"

#include "absl/strings/str_cat.h"

namespace coterie {

absl::StatusOr<bool> CsvReader::Next(std::vector<Field>* fields) {
  do {
    absl::StatusOr<bool> more = reader_.Next(&text_);
    if (!more.ok() || !*more) return more;
  } while (text_.empty());
  line_ = reader_.line();
  at_ = 0;
  record_bytes_ = static_cast<int64_t>(text_.size());
  size_t count = 0;
  while (true) {
    if (fields->size() == count) fields->emplace_back();
    absl::Status status = TakeField(&(*fields)[count++]);
    if (!status.ok()) return status;
    if (at_ == text_.size()) break;
    // A delimiter; behind the last one there is one more field.
    ++at_;
  }
  fields->resize(count);
  return true;
}

absl::Status CsvReader::TakeField(Field* field) {
  field->quoted = at_ < text_.size() && text_[at_] == '"';
  if (field->quoted) return TakeQuoted(field);
  const size_t end = std::min(text_.find(delimiter_, at_), text_.size());
  field->text.assign(text_, at_, end - at_);
  at_ = end;
  return absl::OkStatus();
}

absl::Status CsvReader::TakeQuoted(Field* field) {
  field->text.clear();
  ++at_;
  while (true) {
    const size_t quote = text_.find('"', at_);
    if (quote == std::string::npos) {
      // The field goes on in the next line.
      field->text.append(text_, at_);
      field->text.push_back('\n');
      absl::StatusOr<bool> more = reader_.Next(&text_);
      if (!more.ok()) return more.status();
      if (!*more) {
        return absl::InvalidArgumentError(
            absl::StrCat(Where(), ": a quoted field does not end"));
      }
      at_ = 0;
      record_bytes_ += static_cast<int64_t>(text_.size()) + 1;
      if (record_bytes_ > kMaxRecordBytes) {
        return absl::InvalidArgumentError(
            absl::StrCat(Where(), ": a record is longer than ", kMaxRecordBytes,
                         " bytes: is a quote not closed?"));
      }
      continue;
    }
    field->text.append(text_, at_, quote - at_);
    at_ = quote + 1;
    if (at_ == text_.size() || text_[at_] != '"') break;
    field->text.push_back('"');
    ++at_;
  }
  while (at_ < text_.size() && text_[at_] != delimiter_ &&
         (text_[at_] == ' ' || text_[at_] == '\t')) {
    ++at_;
  }
  if (at_ == text_.size() || text_[at_] == delimiter_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(reader_.Where(), ", byte ", at_ + 1,
                   ": text after a closing quote; a quote within a field is "
                   "written twice"));
}

std::string CsvReader::Where() const {
  return absl::StrCat(reader_.name(), ": line ", line_);
}

}  // namespace coterie
