// The files of an import, row by row: vectors, and beside them ids, attributes
// and text. Everything that can be checked before the first row is sent has
// been when Open returns.
//
// Not thread-safe. Memory: one batch, and what the readers hold
// (client/rows/row_source.h). Errors name file and row or line.

#ifndef COTERIE_CLIENT_IMPORT_INPUTS_H_
#define COTERIE_CLIENT_IMPORT_INPUTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/points.pb.h"
#include "client/rows/row_source.h"
#include "client/rows/side_files.h"
#include "client/text_lines.h"

namespace coterie {

struct ImportFiles {
  std::string rows;
  // By the extension unless set.
  std::optional<RowFormat> format;
  RowOptions options;

  // Beside the rows; empty for none.
  std::string ids;
  std::string attributes;
  std::string text;
  // The attribute that holds the text.
  std::string text_attribute = "text";
  // Without ids: row i gets first_id + i.
  uint64_t first_id = 0;
};

class ImportInputs {
 public:
  // INVALID_ARGUMENT if a file cannot be used, files differ in rows, ids are
  // given twice, or ids would go beyond the last.
  static absl::StatusOr<ImportInputs> Open(const ImportFiles& files);

  int64_t rows() const { return rows_->rows(); }
  int64_t dimension() const { return rows_->dimension(); }
  // As RowSource::SetDimension.
  absl::Status SetDimension(int64_t dimension) {
    return rows_->SetDimension(dimension);
  }

  // Rows of a request: `most`, or fewer so that it stays below 4 MiB. The same
  // for the same files.
  int64_t BatchRows(int64_t most) const;

  // REQUIRES: 0 <= rows <= rows left.
  absl::Status Skip(int64_t rows);

  // Adds the next min(max_rows, rows left) rows to `batch`; none at the end.
  absl::Status Next(int64_t max_rows, v1::UpsertRequest* batch);

  // Names and identities (client/import_checkpoint.h) of all files and of what
  // is read from them: the same for the same points under the same ids.
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Identity()
      const;

 private:
  explicit ImportInputs(const ImportFiles& files) : files_(files) {}

  absl::Status OpenBeside();
  absl::Status CheckRows(const std::string& name, int64_t rows,
                         const char* unit) const;
  absl::Status CheckFirstId() const;
  // The attributes of row `i` of the block, from all files that have some.
  absl::Status AddAttributes(int64_t i, v1::Point* point);

  ImportFiles files_;
  RowFormat format_ = RowFormat::kNpy;
  std::unique_ptr<RowSource> rows_;
  std::unique_ptr<IdFile> ids_;
  std::unique_ptr<AttributeFile> attributes_;
  std::optional<TextLines> text_;

  int64_t next_row_ = 0;
  RowBlock block_;
  std::vector<Attributes> beside_;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_IMPORT_INPUTS_H_
