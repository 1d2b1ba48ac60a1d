// The lines of a text file, checked as a whole before the first is handed out.
//
// Not thread-safe. Reads the file twice, never holding more than one line; see
// client/rows/line_reader.h for what a line is.

#ifndef COTERIE_CLIENT_TEXT_LINES_H_
#define COTERIE_CLIENT_TEXT_LINES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/rows/line_reader.h"

namespace coterie {

class TextLines {
 public:
  // Most bytes in a line: attributes of a point are at most 16 KiB together.
  static constexpr int64_t kMaxLineBytes = 16 << 10;

  // INVALID_ARGUMENT naming file and line (counted from 1) if it cannot be
  // read, is not a regular file, or a line is too long or not UTF-8.
  // O(size of the file).
  static absl::StatusOr<TextLines> Open(const std::string& path);

  static absl::StatusOr<TextLines> FromFile(InputFile file);

  int64_t lines() const { return lines_; }
  int64_t longest_line_bytes() const { return longest_line_bytes_; }
  const std::string& name() const { return reader_.name(); }

  // The next line. OUT_OF_RANGE after the last; INVALID_ARGUMENT if the file
  // has changed since it was opened.
  absl::Status Next(std::string* line);

 private:
  explicit TextLines(InputFile file)
      : reader_(std::move(file), kMaxLineBytes) {}

  // False at the end of the file.
  absl::StatusOr<bool> ReadLine(std::string* line);

  LineReader reader_;
  int64_t lines_ = 0;
  int64_t longest_line_bytes_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_TEXT_LINES_H_
