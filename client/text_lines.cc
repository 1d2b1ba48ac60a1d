#include "client/text_lines.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/quoted.h"
#include "client/printable.h"

namespace coterie {
namespace {

constexpr absl::string_view kByteOrderMark("\xef\xbb\xbf", 3);

}  // namespace

absl::StatusOr<TextLines> TextLines::Open(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no such file"));
  }
  // A pipe cannot be read twice.
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a regular file"));
  }
  auto stream = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!stream->is_open()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be read (permissions?)"));
  }
  return FromStream(std::move(stream), path);
}

absl::StatusOr<TextLines> TextLines::FromStream(
    std::unique_ptr<std::istream> stream, std::string name) {
  TextLines lines(std::move(stream), std::move(name));
  std::string line;
  while (true) {
    absl::StatusOr<bool> more = lines.ReadLine(&line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    lines.longest_line_bytes_ =
        std::max(lines.longest_line_bytes_, static_cast<int64_t>(line.size()));
  }
  lines.lines_ = lines.read_;
  lines.read_ = 0;
  lines.stream_->clear();
  lines.stream_->seekg(0);
  return lines;
}

absl::Status TextLines::Next(std::string* line) {
  if (read_ == lines_) {
    return absl::OutOfRangeError(
        absl::StrCat(name_, ": all ", lines_, " lines are read"));
  }
  absl::StatusOr<bool> more = ReadLine(line);
  if (!more.ok()) return more.status();
  if (!*more || static_cast<int64_t>(line->size()) > longest_line_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        name_, ": line ", read_, ": the file has been changed meanwhile"));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> TextLines::ReadLine(std::string* line) {
  line->clear();
  // Byte by byte from the stream's buffer: getline would take a line of any
  // length into memory.
  std::streambuf* const buffer = stream_->rdbuf();
  constexpr int kEnd = std::char_traits<char>::eof();
  int c = buffer->sbumpc();
  if (c == kEnd) return false;
  ++read_;
  for (; c != kEnd && c != '\n'; c = buffer->sbumpc()) {
    line->push_back(static_cast<char>(c));
    if (static_cast<int64_t>(line->size()) > kMaxLineBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": line ", read_, " is longer than ",
                       kMaxLineBytes, " bytes, the limit of an attribute"));
    }
  }
  if (!line->empty() && line->back() == '\r') line->pop_back();
  if (read_ == 1 && absl::StartsWith(*line, kByteOrderMark)) {
    line->erase(0, kByteOrderMark.size());
  }
  if (!IsValidUtf8(*line)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name_, ": line ", read_, " is not UTF-8: ", Printable(*line, 40)));
  }
  return true;
}

}  // namespace coterie
