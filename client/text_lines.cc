#include "client/text_lines.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "api/quoted.h"
#include "client/printable.h"

namespace coterie {

absl::StatusOr<TextLines> TextLines::Open(const std::string& path) {
  absl::StatusOr<InputFile> file = OpenInputFile(path);
  if (!file.ok()) return file.status();
  return FromFile(*std::move(file));
}

absl::StatusOr<TextLines> TextLines::FromFile(InputFile file) {
  TextLines lines(std::move(file));
  std::string line;
  while (true) {
    absl::StatusOr<bool> more = lines.ReadLine(&line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    lines.longest_line_bytes_ =
        std::max(lines.longest_line_bytes_, static_cast<int64_t>(line.size()));
  }
  lines.lines_ = lines.reader_.line();
  lines.reader_.Rewind();
  return lines;
}

absl::Status TextLines::Next(std::string* line) {
  if (reader_.line() == lines_) {
    return absl::OutOfRangeError(
        absl::StrCat(name(), ": all ", lines_, " lines are read"));
  }
  absl::StatusOr<bool> more = ReadLine(line);
  if (!more.ok()) return more.status();
  if (!*more || static_cast<int64_t>(line->size()) > longest_line_bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat(reader_.Where(), ": the file has been changed meanwhile"));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> TextLines::ReadLine(std::string* line) {
  absl::StatusOr<bool> more = reader_.Next(line);
  if (!more.ok() || !*more || IsValidUtf8(*line)) return more;
  return absl::InvalidArgumentError(
      absl::StrCat(reader_.Where(), " is not UTF-8: ", Printable(*line, 40)));
}

}  // namespace coterie
