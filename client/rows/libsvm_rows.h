// The sparse text format of LIBSVM and SVMlight:
//
//   LABEL [qid:Q] INDEX:VALUE INDEX:VALUE ... [# comment]
//
// Indices count from 1, as LIBSVM defines: index 1 is component 0; with
// `zero_based` they count from 0. They ascend within a line. What is not
// listed is 0. The dimension is the largest index, unless SetDimension widens
// it: a test set need not use the last features of its training set.
//
// The label becomes an attribute: an integer if all labels of the file are
// ("+1", "-1"), else a double. qid is kept as the integer attribute "qid".
// Lines that are blank or all comment are no rows.

#ifndef COTERIE_CLIENT_ROWS_LIBSVM_ROWS_H_
#define COTERIE_CLIENT_ROWS_LIBSVM_ROWS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/rows/row_source.h"

namespace coterie {

// Uses `zero_based` and `label` of the options.
absl::StatusOr<std::unique_ptr<RowSource>> OpenLibsvmRows(
    InputFile file, const RowOptions& options);

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_LIBSVM_ROWS_H_
