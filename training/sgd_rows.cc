#include "training/sgd_rows.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "index/distance.h"
#include "training/draw.h"
#include "training/sgd_draw.h"

namespace coterie {
namespace {

struct Entry {
  int32_t worker;
  PointId id;
  double label;
  const float* row;
};

bool Live(const SgdBlockOfRows& block, int64_t i) {
  return block.live == nullptr || (block.live[i / 64] >> (i % 64) & 1) != 0;
}

absl::Status CheckSplit(const SgdSplit& split) {
  if (split.workers < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_workers is ", split.workers, "; must be >= 1"));
  }
  if (!(split.held_out >= 0 && split.held_out < 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "held-out share is ", split.held_out, "; must be in [0, 1)"));
  }
  return absl::OkStatus();
}

int32_t PartOf(const SgdSplit& split, PointId id) {
  const bool held_out =
      split.held_out > 0 &&
      UniformOf(SgdHash(SgdDraw::kHoldOut, {split.seed, id})) < split.held_out;
  return held_out ? split.workers : SgdWorkerOf(id, split.workers);
}

}  // namespace

absl::StatusOr<SgdRows> SgdRows::Create(
    const SgdModel& model, const SgdSplit& split,
    absl::Span<const SgdBlockOfRows> blocks) {
  if (absl::Status s = CheckSplit(split); !s.ok()) return s;
  std::vector<Entry> entries;
  for (const SgdBlockOfRows& block : blocks) {
    if (block.rows.d != model.dimension) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows have dimension ", block.rows.d, ", the model ",
                       model.dimension));
    }
    for (int64_t i = 0; i < block.rows.n; ++i) {
      if (!Live(block, i)) continue;
      const PointId id = block.ids[i];
      if (absl::Status s = CheckSgdLabel(model, block.labels[i]); !s.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("point ", id, ": ", s.message()));
      }
      entries.push_back(
          {PartOf(split, id), id, block.labels[i], block.rows.row(i).data()});
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.worker != b.worker ? a.worker < b.worker : a.id < b.id;
  });
  SgdRows result;
  result.begins_.assign(static_cast<size_t>(split.workers) + 2, 0);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (i > 0 && entries[i - 1].id == entry.id) {
      return absl::InvalidArgumentError(
          absl::StrCat("point ", entry.id, " is there twice"));
    }
    ++result.begins_[static_cast<size_t>(entry.worker) + 1];
    result.ids_.push_back(entry.id);
    result.labels_.push_back(entry.label);
    result.rows_.push_back(entry.row);
    const VectorView row(entry.row, static_cast<size_t>(model.dimension));
    const double norm = CanonicalSquaredNorm(row);
    result.checksum_ +=
        HashOf({entry.id, std::bit_cast<uint64_t>(entry.label + 0.0),
                std::bit_cast<uint64_t>(norm)});
    if (entry.worker == split.workers) continue;
    result.max_squared_norm_ = std::max(result.max_squared_norm_, norm);
    const bool negative =
        model.kind == SgdModelKind::kLogistic && entry.label == 0;
    const double label = negative ? -1.0 : entry.label;
    // Those held out come last.
    if (i == 0) result.least_label_ = result.most_label_ = label;
    result.least_label_ = std::min(result.least_label_, label);
    result.most_label_ = std::max(result.most_label_, label);
  }
  for (size_t i = 1; i < result.begins_.size(); ++i) {
    result.begins_[i] += result.begins_[i - 1];
  }
  return result;
}

}  // namespace coterie
