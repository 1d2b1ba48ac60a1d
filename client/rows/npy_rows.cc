#include "client/rows/npy_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/npy_file.h"

namespace coterie {
namespace {

static_assert(kMaxNpyColumns == kMaxDimension);

class NpyRows : public RowSource {
 public:
  explicit NpyRows(NpyFile file)
      : RowSource(file.name(), file.layout().rows, file.layout().columns),
        file_(std::move(file)) {}

  absl::Status Skip(int64_t rows) override {
    file_.SkipRows(rows);
    return absl::OkStatus();
  }

  absl::Status Read(int64_t max_rows, RowBlock* block) override {
    block->Clear();
    absl::Status status = file_.ReadRows(max_rows, &block->values);
    block->rows = static_cast<int64_t>(block->values.size()) / dimension_;
    return status;
  }

 private:
  NpyFile file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowSource>> OpenNpyRows(InputFile file) {
  absl::StatusOr<NpyFile> npy = NpyFile::FromStream(
      std::move(file.stream), file.bytes, std::move(file.name));
  if (!npy.ok()) return npy.status();
  if (npy->layout().one_dimensional) {
    return absl::InvalidArgumentError(absl::StrCat(
        npy->name(), ": one vector, shape (", npy->layout().columns,
        ",); expected rows, shape (rows, columns)"));
  }
  return std::make_unique<NpyRows>(*std::move(npy));
}

}  // namespace coterie
