// The lines of a text file, checked as a whole before the first is handed out.
//
// Not thread-safe. Reads the file twice, never holding more than one line. A
// line ends at \n or \r\n or the end of the file; a final line end adds no
// empty line. A UTF-8 byte order mark at the start is dropped.

#ifndef COTERIE_CLIENT_TEXT_LINES_H_
#define COTERIE_CLIENT_TEXT_LINES_H_

#include <cstdint>
#include <istream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coterie {

class TextLines {
 public:
  // Most bytes in a line: attributes of a point are at most 16 KiB together.
  static constexpr int64_t kMaxLineBytes = 16 << 10;

  // INVALID_ARGUMENT naming file and line (counted from 1) if it cannot be
  // read, is not a regular file, or a line is too long or not UTF-8.
  // O(size of the file).
  static absl::StatusOr<TextLines> Open(const std::string& path);

  // As Open, over a seekable stream.
  static absl::StatusOr<TextLines> FromStream(
      std::unique_ptr<std::istream> stream, std::string name);

  int64_t lines() const { return lines_; }
  int64_t longest_line_bytes() const { return longest_line_bytes_; }
  const std::string& name() const { return name_; }

  // The next line. OUT_OF_RANGE after the last; INVALID_ARGUMENT if the file
  // has changed since it was opened.
  absl::Status Next(std::string* line);

 private:
  TextLines(std::unique_ptr<std::istream> stream, std::string name)
      : stream_(std::move(stream)), name_(std::move(name)) {}

  // False at the end of the file.
  absl::StatusOr<bool> ReadLine(std::string* line);

  std::unique_ptr<std::istream> stream_;
  std::string name_;
  int64_t lines_ = 0;
  int64_t longest_line_bytes_ = 0;
  // Lines read in the pass under way.
  int64_t read_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_TEXT_LINES_H_
