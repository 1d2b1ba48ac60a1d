// A .npy matrix as rows (client/npy_file.h).

#ifndef COTERIE_CLIENT_ROWS_NPY_ROWS_H_
#define COTERIE_CLIENT_ROWS_NPY_ROWS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "client/rows/row_source.h"

namespace coterie {

// Refuses one vector, shape (columns,), as well as what NpyFile refuses.
absl::StatusOr<std::unique_ptr<RowSource>> OpenNpyRows(InputFile file);

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_NPY_ROWS_H_
