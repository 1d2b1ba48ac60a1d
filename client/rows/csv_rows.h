// A CSV file (csv_reader.h) as rows: every column is a component, in the order
// of the file, but those that the options name as id or attributes.
//
// Columns are named as the header names them, or by number from 1. With
// CsvHeader::kGuess the first record is a header if a column is asked for by
// name, or if one that should be a component is no number there.
//
// An attribute column is NAME or NAME:TYPE with TYPE int, double, bool or
// string; without a type it gets the narrowest that fits all its fields.
// Without a header the attribute of column 5 is named "5".

#ifndef COTERIE_CLIENT_ROWS_CSV_ROWS_H_
#define COTERIE_CLIENT_ROWS_CSV_ROWS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/rows/row_source.h"

namespace coterie {

// Uses `delimiter`, `header`, `id_column` and `attribute_columns`.
absl::StatusOr<std::unique_ptr<RowSource>> OpenCsvRows(
    InputFile file, const RowOptions& options);

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_CSV_ROWS_H_
