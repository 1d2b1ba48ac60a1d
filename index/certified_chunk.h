// How a piece of rows is cut into chunks that kernels take.
//
// Immutable; keeps references to the rows and their codes.

#ifndef COTERIE_INDEX_CERTIFIED_CHUNK_H_
#define COTERIE_INDEX_CERTIFIED_CHUNK_H_

#include <algorithm>
#include <cstdint>

#include "absl/numeric/bits.h"
#include "index/certified_codes.h"
#include "index/certified_slack.h"
#include "index/exact_scan.h"

namespace coterie::internal_certified {

// Rows of one panel, from a multiple of kGroupRows on.
struct CodeChunk {
  int64_t row = 0;
  int64_t groups = 0;
  uint64_t live[CertifiedCodes::kPanelRows / CertifiedCodes::kGroupRows];
};

class CodeChunks {
 public:
  CodeChunks(const ScanRows& rows, const CertifiedCodes& codes)
      : rows_(rows),
        dead_testify_(codes.slack().fault ==
                      CertifiedFault::kDeadRowsTestified) {}

  // The first group from `row` on that has a live row, or where it would be
  // beyond `end`.
  int64_t FirstLive(int64_t row, int64_t end) const {
    if (rows_.live == nullptr) return row;
    while (row < end && rows_.live[row / 64] == 0) row += kGroupRows;
    return row;
  }

  // Returns how many rows are live, of those in [begin, end_row). A chunk ends
  // before a group without any: a filter may leave few rows, and codes of the
  // others need not be read.
  int64_t Fill(int64_t row, int64_t groups, int64_t begin, int64_t end_row,
               CodeChunk& chunk) const {
    constexpr int64_t kPanelRows = CertifiedCodes::kPanelRows;
    const int64_t panel_end = (row / kPanelRows + 1) * kPanelRows;
    const int64_t end = std::min(panel_end, end_row);
    chunk.row = row;
    chunk.groups = std::min(groups, (end - row + kGroupRows - 1) / kGroupRows);
    int64_t live_rows = 0;
    for (int64_t g = 0; g < chunk.groups; ++g) {
      const int64_t first = row + g * kGroupRows;
      uint64_t word = ~uint64_t{0};
      if (rows_.live != nullptr) word = rows_.live[first / 64];
      if (word == 0 && g > 0) {
        chunk.groups = g;
        break;
      }
      if (first < begin) word &= ~uint64_t{0} << (begin - first);
      if (end_row - first < kGroupRows) {
        word &= ~(~uint64_t{0} << (end_row - first));
      }
      live_rows += absl::popcount(word);
      if (dead_testify_) {
        word = ~uint64_t{0} >> std::max<int64_t>(0, first + 64 - end_row);
      }
      chunk.live[g] = word;
    }
    return live_rows;
  }

 private:
  static constexpr int64_t kGroupRows = CertifiedCodes::kGroupRows;

  const ScanRows& rows_;
  const bool dead_testify_;
};

}  // namespace coterie::internal_certified

#endif  // COTERIE_INDEX_CERTIFIED_CHUNK_H_
