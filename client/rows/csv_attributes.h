// Columns of a CSV file that become typed attributes.
//
// Thread-compatible. Two passes: See every record, then Take each. A field
// that is empty and not quoted is no attribute of that row.

#ifndef COTERIE_CLIENT_ROWS_CSV_ATTRIBUTES_H_
#define COTERIE_CLIENT_ROWS_CSV_ATTRIBUTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "api/point.h"
#include "client/rows/csv_reader.h"
#include "client/rows/number_text.h"

namespace coterie {

class CsvAttributes {
 public:
  // Column `column` (from 0) becomes attribute `name`. Without a type it gets
  // the narrowest that all its fields share (number_text.h).
  void Add(size_t column, std::string name, std::optional<ValueType> type);

  bool empty() const { return columns_.empty(); }

  // First pass. INVALID_ARGUMENT, beginning with `where`, if a field is not of
  // the type given. REQUIRES: `fields` has every column.
  absl::Status See(const std::vector<CsvReader::Field>& fields,
                   const std::string& where);

  // Second pass.
  absl::StatusOr<Attributes> Take(const std::vector<CsvReader::Field>& fields,
                                  const std::string& where) const;

  // Most bytes of names and values that a record had in the first pass.
  int64_t most_bytes() const { return most_bytes_; }

 private:
  struct Column {
    size_t column = 0;
    std::string name;
    std::optional<ValueType> type;
    TypeGuess guess;
  };

  std::vector<Column> columns_;
  int64_t most_bytes_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_CSV_ATTRIBUTES_H_
