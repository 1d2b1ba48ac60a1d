// The search by codes for rows of which nothing is known.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "index/certified_kernels.h"
#include "training/code_look_kernels.h"
#include "training/coded_nearest.h"
#include "training/nearest_centre.h"

namespace coterie {

using internal_certified::CodeHit;
using internal_certified::kGroupRows;
using internal_certified::kTileQueries;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Rows that go over all centres together.
constexpr size_t kChunkRows = 40 * kTileQueries;
// Codes of centres between two looks at how far to search.
constexpr int64_t kPieceBytes = 48 << 10;
// Code distances miss by errors that have no direction: by a part of their
// bounds that falls with the square root of the dimension, taken so many times.
constexpr double kDeviations = 2.5;

}  // namespace

// Whether the member is the nearest of the query by codes so far.
inline bool CodedNearest::TakeNearer(int64_t position, size_t query,
                                     double square, Scratch& scratch) const {
  if (!(square < scratch.least_[query])) return false;
  scratch.least_[query] = square;
  scratch.least_errors_[query] = errors_[static_cast<size_t>(position)];
  return true;
}

// Most rows' nearest centre lies within.
void CodedNearest::GuessRadius(int64_t row, size_t query,
                               Scratch& scratch) const {
  const double distance = std::sqrt(std::max(0.0, scratch.least_[query]));
  const double error = codes_.forms_[static_cast<size_t>(row)].error +
                       scratch.least_errors_[query];
  const double part =
      kDeviations / std::sqrt(static_cast<double>(codes_.offset().size())) +
      error / (2 * distance);
  const double radius =
      (distance + error * std::min(1.0, part)) * (1 + kFloatSlack) / to_units_;
  if (radius < scratch.radii_[query]) SetRadius(row, query, radius, scratch);
}

// The nearest of the first centres says how far to look to begin with.
void CodedNearest::Look(absl::Span<const int64_t> which, size_t query,
                        Scratch& scratch) const {
  const absl::Span<const int64_t> tile =
      which.subspan(query, static_cast<size_t>(kTileQueries));
  internal_nearest::CodeLooked looked[kTileQueries];
  if (look_ == nullptr || live_[0] == 0) return;
  look_({.codes = lines_[0].bytes,
         .quads = codes_.quads(),
         .doubled_scales = look_scales_.data(),
         .squares = look_squares_.data(),
         .rows = static_cast<int64_t>(tile.size()),
         .row_codes = Queries(tile, scratch),
         .row_stride = codes_.quads(),
         .starts = scratch.starts_.data() + query,
         .inverse_scales = scratch.inverse_scales_.data() + query},
        looked);
  for (size_t i = 0; i < tile.size(); ++i) {
    const RowCodes::Form& form = codes_.forms_[static_cast<size_t>(tile[i])];
    if (TakeNearer(looked[i].centre, query + i,
                   SquareAtLeast(form, looked[i].centre, looked[i].ip),
                   scratch)) {
      GuessRadius(tile[i], query + i, scratch);
    }
  }
}

// Takes the hits of the tile of rows from `query` on.
void CodedNearest::Tighten(int64_t group, absl::Span<const int64_t> which,
                           size_t query, int64_t hits, Scratch& scratch) const {
  const int64_t first = group * kGroupRows;
  bool nearer[kTileQueries] = {};
  for (int64_t h = 0; h < hits; ++h) {
    const CodeHit& hit = scratch.hits_[static_cast<size_t>(h)];
    const RowCodes::Form& form =
        codes_.forms_[static_cast<size_t>(which[query + hit.query])];
    const double square = SquareAtLeast(form, first + hit.row, hit.ip);
    nearer[hit.query] |=
        TakeNearer(first + hit.row, query + hit.query, square, scratch);
    AddCandidate(group, query, hit, scratch);
  }
  for (size_t i = 0; i < kTileQueries; ++i) {
    if (nearer[i]) GuessRadius(which[query + i], query + i, scratch);
  }
}

void CodedNearest::ScanFirst(absl::Span<const int64_t> which,
                             Scratch& scratch) const {
  const int64_t most = MostGroups(kPieceBytes);
  scratch.hits_.resize(static_cast<size_t>(most * kGroupRows * kTileQueries));
  scratch.least_.assign(which.size(), kInfinity);
  scratch.least_errors_.assign(which.size(), 0);
  scratch.inverse_scales_.resize(which.size());
  for (size_t q = 0; q < which.size(); ++q) {
    scratch.inverse_scales_[q] =
        1 / codes_.forms_[static_cast<size_t>(which[q])].scale;
    SetRadius(which[q], q, kInfinity, scratch);
  }
  for (size_t query = 0; query < which.size(); query += kTileQueries) {
    Look(which, query, scratch);
  }
  int64_t groups = 1;
  for (int64_t group = 0; group < groups_; group += groups) {
    // As many again as are behind.
    groups = std::clamp<int64_t>(group, 1, std::min(most, groups_ - group));
    for (size_t query = 0; query < which.size(); query += kTileQueries) {
      const int64_t hits = Score(group, groups, which, query, scratch);
      Tighten(group, which, query, hits, scratch);
    }
  }
}

int64_t CodedNearest::FindFirst(absl::Span<const int64_t> which,
                                absl::Span<NearestFound> found,
                                Scratch& scratch) const {
  int64_t evaluated = 0;
  for (size_t first = 0; first < which.size(); first += kChunkRows) {
    const absl::Span<const int64_t> part = which.subspan(first, kChunkRows);
    StartQueries(part, scratch);
    ScanFirst(part, scratch);
    scratch.again_.clear();
    for (size_t q = 0; q < part.size(); ++q) {
      NearestFound& one = found[first + q];
      one = {-1, kInfinity, kInfinity};
      evaluated += Resolve(part[q], static_cast<int64_t>(q), one, scratch);
      if (RadiusAtMost(centres_.metric(), one.distance) > scratch.radii_[q]) {
        scratch.again_.push_back(static_cast<int64_t>(first + q));
      }
    }
    if (!scratch.again_.empty()) {
      evaluated += FindAgain(which, found, scratch);
    }
  }
  return evaluated;
}

int64_t CodedNearest::FindAgain(absl::Span<const int64_t> which,
                                absl::Span<NearestFound> found,
                                Scratch& scratch) const {
  std::vector<int64_t> rows;
  std::vector<NearestFound> again;
  for (int64_t i : scratch.again_) {
    rows.push_back(which[static_cast<size_t>(i)]);
    again.push_back(found[static_cast<size_t>(i)]);
  }
  const int64_t evaluated = Find(rows, std::vector<double>(rows.size(), 0),
                                 absl::MakeSpan(again), scratch);
  for (size_t r = 0; r < again.size(); ++r) {
    found[static_cast<size_t>(scratch.again_[r])] = again[r];
  }
  return evaluated;
}

}  // namespace coterie
