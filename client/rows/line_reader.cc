#include "client/rows/line_reader.h"

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

constexpr absl::string_view kByteOrderMark("\xef\xbb\xbf", 3);
constexpr size_t kBufferBytes = 64 << 10;

}  // namespace

LineReader::LineReader(InputFile file, int64_t max_line_bytes)
    : stream_(std::move(file.stream)),
      name_(std::move(file.name)),
      max_line_bytes_(max_line_bytes),
      buffer_(kBufferBytes) {}

bool LineReader::Fill() {
  stream_->read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  at_ = buffer_.data();
  end_ = at_ + stream_->gcount();
  return at_ != end_;
}

absl::StatusOr<bool> LineReader::Next(std::string* line) {
  line->clear();
  if (at_ == end_ && !Fill()) return false;
  ++line_;
  while (true) {
    const auto* newline =
        static_cast<const char*>(std::memchr(at_, '\n', end_ - at_));
    const char* const stop = newline == nullptr ? end_ : newline;
    // One more for the \r of an end that may follow.
    if (static_cast<int64_t>(line->size()) + (stop - at_) >
        max_line_bytes_ + 1) {
      line->resize(max_line_bytes_ + 1);
      break;
    }
    line->append(at_, stop);
    at_ = newline == nullptr ? end_ : newline + 1;
    if (newline != nullptr || !Fill()) break;
  }
  if (!line->empty() && line->back() == '\r') line->pop_back();
  if (static_cast<int64_t>(line->size()) > max_line_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        Where(), " is longer than ", max_line_bytes_, " bytes, the limit"));
  }
  if (line_ == 1 && absl::StartsWith(*line, kByteOrderMark)) {
    line->erase(0, kByteOrderMark.size());
  }
  return true;
}

std::string LineReader::Where() const {
  return absl::StrCat(name_, ": line ", line_);
}

void LineReader::Rewind() {
  stream_->clear();
  stream_->seekg(0);
  at_ = end_ = nullptr;
  line_ = 0;
}

}  // namespace coterie
