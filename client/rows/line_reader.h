// The lines of a text file, one at a time.
//
// Not thread-safe. Holds one line and 64 KiB. A line ends at \n or \r\n or the
// end of the file; a final line end adds no empty line. A UTF-8 byte order mark
// at the start is dropped.

#ifndef COTERIE_CLIENT_ROWS_LINE_READER_H_
#define COTERIE_CLIENT_ROWS_LINE_READER_H_

#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/rows/input_file.h"

namespace coterie {

class LineReader {
 public:
  LineReader(InputFile file, int64_t max_line_bytes);

  const std::string& name() const { return name_; }

  // Replaces `line` by the next one; false at the end of the file.
  // INVALID_ARGUMENT naming file and line if it is longer than allowed.
  absl::StatusOr<bool> Next(std::string* line);

  // Number of the line read last, from 1; 0 before the first.
  int64_t line() const { return line_; }

  // "FILE: line 17".
  std::string Where() const;

  // Back to the beginning.
  void Rewind();

 private:
  // False at the end.
  bool Fill();

  std::unique_ptr<std::istream> stream_;
  std::string name_;
  int64_t max_line_bytes_;
  int64_t line_ = 0;
  std::vector<char> buffer_;
  // What is left of the buffer.
  const char* at_ = nullptr;
  const char* end_ = nullptr;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_LINE_READER_H_
