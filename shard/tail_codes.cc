#include "shard/tail_codes.h"

#include <utility>

namespace coterie {

void TailCodes::Grow(Metric metric, RowsView rows) {
  if (rows.n == 0 || rows.n % kSmall != 0) return;
  const int64_t block_rows = rows.n % kLarge == 0 ? kLarge : kSmall;
  const int64_t first = rows.n - block_rows;
  const RowsView coded = {rows.row(first).data(), block_rows, rows.d,
                          rows.stride};
  auto block = std::make_shared<CodedBlock>(
      CodedBlock{first, CertifiedCodes(metric, coded), nullptr});
  if (rows.d >= kPlaneFrom) {
    block->plane = std::make_unique<CertifiedPlane>(block->codes, coded);
  }
  CodedBlocks blocks;
  if (blocks_ != nullptr) blocks = *blocks_;
  // Those that the new one takes the place of.
  while (!blocks.empty() && blocks.back()->first >= first) blocks.pop_back();
  blocks.push_back(std::move(block));
  blocks_ = std::make_shared<const CodedBlocks>(std::move(blocks));
}

int64_t MemoryBytes(const CodedBlocks* blocks) {
  if (blocks == nullptr) return 0;
  int64_t bytes = 0;
  for (const auto& block : *blocks) {
    bytes += block->codes.MemoryBytes() +
             (block->plane != nullptr ? block->plane->MemoryBytes() : 0);
  }
  return bytes;
}

}  // namespace coterie
