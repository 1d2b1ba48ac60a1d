// Records of a CSV file, RFC 4180.
//
// Not thread-safe. Fields are apart by one delimiter. A field in double quotes
// may hold delimiters, line ends (read as \n) and quotes written twice; blanks
// after the closing quote are dropped. A quote within an unquoted field is
// itself. Lines that are empty are no records.

#ifndef COTERIE_CLIENT_ROWS_CSV_READER_H_
#define COTERIE_CLIENT_ROWS_CSV_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/rows/input_file.h"
#include "client/rows/line_reader.h"

namespace coterie {

class CsvReader {
 public:
  // The widest vector takes less.
  static constexpr int64_t kMaxRecordBytes = 1 << 20;

  struct Field {
    std::string text;
    bool quoted = false;
  };

  CsvReader(InputFile file, char delimiter)
      : reader_(std::move(file), kMaxRecordBytes), delimiter_(delimiter) {}

  const std::string& name() const { return reader_.name(); }

  // Replaces `fields` by the next record; false at the end. INVALID_ARGUMENT
  // naming the line if a quote is not closed, something follows a closing
  // quote, or the record is too long.
  absl::StatusOr<bool> Next(std::vector<Field>* fields);

  // Line in which the record read last begins, from 1.
  int64_t line() const { return line_; }
  // "FILE: line 17".
  std::string Where() const;

  void Rewind() { reader_.Rewind(); }

 private:
  // Reads on from at_ into `field`; past its delimiter or to the line's end.
  absl::Status TakeField(Field* field);
  absl::Status TakeQuoted(Field* field);

  LineReader reader_;
  char delimiter_;
  int64_t line_ = 0;
  std::string text_;
  size_t at_ = 0;
  int64_t record_bytes_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_CSV_READER_H_
