// Binary formats whose rows all have the same size: fvecs, bvecs, fbin, u8bin
// and i8bin (row_source.h).

#ifndef COTERIE_CLIENT_ROWS_FIXED_ROWS_H_
#define COTERIE_CLIENT_ROWS_FIXED_ROWS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/rows/row_source.h"

namespace coterie {

// A *bin header must account for every byte of the file; the rows of *vecs
// must all say the dimension of the first, and an empty file is refused for it
// says none. REQUIRES: `format` is one of those above.
absl::StatusOr<std::unique_ptr<RowSource>> OpenFixedRows(InputFile file,
                                                         RowFormat format);

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_FIXED_ROWS_H_
