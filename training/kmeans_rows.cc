#include "training/kmeans_rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {
namespace {

struct Entry {
  PointId id = 0;
  const float* row = nullptr;
  double weight = 1;
};

bool TakesPart(const KMeansBlock& block, int64_t i) {
  return block.live == nullptr || (block.live[i / 64] >> (i % 64) & 1) != 0;
}

absl::Status Gather(const KMeansBlock& block, std::vector<Entry>& entries) {
  for (int64_t i = 0; i < block.rows.n; ++i) {
    if (!TakesPart(block, i)) continue;
    Entry entry = {block.ids[i], block.rows.row(i).data(), 1};
    if (block.weights != nullptr) {
      entry.weight = block.weights[i];
      if (!(entry.weight >= 0) || !std::isfinite(entry.weight)) {
        return absl::InvalidArgumentError(
            absl::StrFormat("point %d: weight %g is not a finite number >= 0",
                            entry.id, entry.weight));
      }
    }
    entries.push_back(entry);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KMeansRows> KMeansRows::Create(
    Metric metric, int64_t dimension, absl::Span<const KMeansBlock> blocks) {
  std::vector<Entry> entries;
  const bool weighted = !blocks.empty() && blocks[0].weights != nullptr;
  for (const KMeansBlock& block : blocks) {
    if (block.rows.n == 0) continue;
    if (block.rows.d != dimension) {
      return absl::InvalidArgumentError(
          absl::StrFormat("k-means over %d dimensions: a block of rows has %d",
                          dimension, block.rows.d));
    }
    if ((block.weights != nullptr) != weighted) {
      return absl::InvalidArgumentError(
          "some blocks of rows have weights and others have none");
    }
    const absl::Status gathered = Gather(block, entries);
    if (!gathered.ok()) return gathered;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.id < b.id; });
  KMeansRows rows;
  rows.metric_ =
      metric == Metric::kCosine ? Metric::kCosine : Metric::kSquaredL2;
  rows.d_ = dimension;
  rows.ids_.reserve(entries.size());
  rows.rows_.reserve(entries.size());
  for (const Entry& entry : entries) {
    if (!rows.ids_.empty() && rows.ids_.back() == entry.id) {
      return absl::InvalidArgumentError(
          absl::StrFormat("point %d is given twice", entry.id));
    }
    rows.ids_.push_back(entry.id);
    rows.rows_.push_back(entry.row);
    if (weighted) rows.weights_.push_back(entry.weight);
    if (rows.metric_ == Metric::kCosine) {
      rows.squared_norms_.push_back(CanonicalSquaredNorm(
          VectorView(entry.row, static_cast<size_t>(dimension))));
    }
  }
  return rows;
}

int64_t KMeansRows::Find(PointId id) const {
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
  return at != ids_.end() && *at == id ? at - ids_.begin() : -1;
}

}  // namespace coterie
