#include "training/coded_nearest.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/types/span.h"
#include "index/certified_dispatch.h"
#include "index/certified_kernels.h"
#include "index/code_simd.h"
#include "index/metric.h"
#include "index/vectors.h"
#include "training/code_look_kernels.h"
#include "training/code_vector.h"
#include "training/kmeans_rows.h"
#include "training/nearest_centre.h"

namespace coterie {

using internal_certified::CodeHit;
using internal_certified::CodeTile;
using internal_certified::kGroupRows;
using internal_certified::kTileQueries;
using internal_nearest::Centre;
using internal_nearest::Coded;
using internal_nearest::CodeVector;
using internal_nearest::MaxOf;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Rows that go over all centres together.
constexpr int64_t kChunkRows = 40 * kTileQueries;
// Codes of centres that they go over in one piece: should stay in L2.
constexpr int64_t kPieceBytes = 192 << 10;
constexpr int kCodeLimit = 127;

// All of [0, count), such that the first of them are spread over all.
std::vector<int32_t> Spread(int64_t count) {
  int64_t step = std::max<int64_t>(1, count * 618 / 1000);
  while (std::gcd(step, count) != 1) ++step;
  std::vector<int32_t> order(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    order[static_cast<size_t>(i)] = static_cast<int32_t>(i * step % count);
  }
  return order;
}

}  // namespace

CodedNearest::CodedNearest(const KMeansRows& rows, const RowCodes& codes,
                           const NearestCentre& centres,
                           absl::Span<const int32_t> members)
    : rows_(rows),
      codes_(codes),
      centres_(centres),
      members_(members.empty()
                   ? Spread(centres.size())
                   : std::vector<int32_t>(members.begin(), members.end())),
      size_(static_cast<int64_t>(members_.size())),
      kernel_(internal_certified::BatchKernelFor(codes.kernel())),
      look_(codes.kernel() == CodeKernel::kAvx512Vnni
                ? internal_nearest::CodeLookAvx512Vnni
                : nullptr),
      groups_((size_ + kGroupRows - 1) / kGroupRows),
      from_units_(std::ldexp(1 - 0x1p-40, codes.unit())),
      to_units_(std::ldexp(1.0, -codes.unit())) {
  const size_t padded = static_cast<size_t>(groups_ * kGroupRows);
  Line zero;
  std::fill_n(zero.bytes, 64, uint8_t{128});
  lines_.assign(static_cast<size_t>(groups_ * 4 * codes.quads()), zero);
  a_.assign(padded, 0);
  b_.assign(padded, 0);
  live_.assign(static_cast<size_t>(groups_), 0);
  scales_.assign(padded, 1);
  errors_.assign(padded, 0);
  squares_.assign(padded, 0);
  look_scales_.assign(kGroupRows, 0);
  look_squares_.assign(kGroupRows, std::numeric_limits<float>::infinity());
  std::vector<double> z(codes.offset().size());
  double most = 0;
  for (int64_t p = 0; p < size_; ++p) {
    const int64_t j = member(p);
    if (!centres.active(j)) continue;
    Centre(centres.metric(), centres.centre(j), centres.squared_norm(j),
           codes.offset(), codes.unit(), z);
    most = std::max(most, MaxOf(z));
  }
  for (int64_t p = 0; p < size_; ++p) {
    if (!centres.active(member(p))) continue;
    live_[static_cast<size_t>(p / kGroupRows)] |= uint64_t{1}
                                                  << (p % kGroupRows);
    // The floor keeps 1/t of one centre from swamping the rounding of all.
    CodeCentre(p, std::max(most / (64 * kCodeLimit), 0x1p-100), z);
  }
}

void CodedNearest::CodeCentre(int64_t position, double floor,
                              std::vector<double>& z) {
  const size_t at = static_cast<size_t>(position);
  const int64_t j = member(position);
  Centre(centres_.metric(), centres_.centre(j), centres_.squared_norm(j),
         codes_.offset(), codes_.unit(), z);
  const double t = std::max(MaxOf(z) / kCodeLimit, floor);
  // 16 centres x 4 dimensions in a line.
  Line* block = lines_.data() + position / 16 * codes_.quads();
  const Coded coded =
      CodeVector(z, t, kCodeLimit, [block, position](size_t i, int32_t code) {
        block[i / 4].bytes[position % 16 * 4 + static_cast<int64_t>(i % 4)] =
            static_cast<uint8_t>(code + 128);
      });
  scales_[at] = t;
  errors_[at] = coded.error;
  squares_[at] = t * t * static_cast<double>(coded.code_square);
  a_[at] = static_cast<float>(1 / t);
  b_[at] = static_cast<float>((squares_[at] - coded.error * coded.error) / t);
  if (position < kGroupRows) {
    look_scales_[at] = static_cast<float>(2 * t);
    look_squares_[at] = static_cast<float>(squares_[at]);
  }
  code_error_ = std::max(code_error_, coded.error / t);
  most_a_ = std::max(most_a_, 1 / t);
  most_b_ = std::max(most_b_, (squares_[at] + coded.error * coded.error) / t);
}

void CodedNearest::StartQueries(absl::Span<const int64_t> which,
                                Scratch& scratch) const {
  const size_t count = which.size();
  scratch.starts_.resize(count);
  scratch.cut_a_.resize(count);
  scratch.cut_b_.resize(count);
  scratch.cut_k_.resize(count);
  scratch.radii_.resize(count);
  scratch.candidates_.clear();
  scratch.first_.assign(count, -1);
  for (size_t q = 0; q < count; ++q) {
    scratch.starts_[q] = codes_.forms_[static_cast<size_t>(which[q])].start;
  }
}

void CodedNearest::SetRadius(int64_t row, size_t query, double radius,
                             Scratch& scratch) const {
  const RowCodes::Form& form = codes_.forms_[static_cast<size_t>(row)];
  scratch.radii_[query] = radius;
  const double far = radius * to_units_ * (1 + 0x1p-40) + form.error;
  const double square = form.square;
  const double b = 1 / (2.0 * form.scale);
  const double a = (square - far * far) * b;
  const double k = -far * (2 * b) * code_error_;
  const double loss =
      kFloatSlack * ((square + far * far) * b * most_a_ + b * most_b_ - k);
  const bool small = std::fabs(a) * most_a_ < 1e30 && b * most_b_ < 1e30 &&
                     -k < 1e30 && b < 1e30 && most_a_ < 1e30;
  scratch.cut_a_[query] =
      small ? static_cast<float>(a) : std::numeric_limits<float>::quiet_NaN();
  scratch.cut_b_[query] = static_cast<float>(b);
  scratch.cut_k_[query] = small ? static_cast<float>(k - loss) : 0;
}

const int32_t* CodedNearest::Queries(absl::Span<const int64_t> tile,
                                     Scratch& scratch) const {
  const int64_t quads = codes_.quads();
  const int32_t* codes = codes_.codes_.data();
  bool adjacent = true;
  for (size_t q = 1; q < tile.size(); ++q) {
    adjacent = adjacent && tile[q] == tile[0] + static_cast<int64_t>(q);
  }
  if (adjacent) return codes + tile[0] * quads;
  scratch.queries_.resize(tile.size() * static_cast<size_t>(quads));
  int32_t* to = scratch.queries_.data();
  for (int64_t row : tile) {
    to = std::copy_n(codes + row * quads, quads, to);
  }
  return scratch.queries_.data();
}

int64_t CodedNearest::Score(int64_t group, int64_t groups,
                            absl::Span<const int64_t> which, size_t query,
                            Scratch& scratch) const {
  const int64_t quads = codes_.quads();
  const absl::Span<const int64_t> tile_rows =
      which.subspan(query, static_cast<size_t>(kTileQueries));
  const CodeTile tile = {
      .codes = lines_[static_cast<size_t>(group * 4 * quads)].bytes,
      .groups = groups,
      .quads = quads,
      .a = a_.data() + group * kGroupRows,
      .b = b_.data() + group * kGroupRows,
      .live = live_.data() + group,
      .queries = Queries(tile_rows, scratch),
      .query_stride = quads,
      .starts = scratch.starts_.data() + query,
      .cut_a = scratch.cut_a_.data() + query,
      .cut_b = scratch.cut_b_.data() + query,
      .cut_k = scratch.cut_k_.data() + query,
      .ahead = nullptr};
  return kernel_(tile, static_cast<int64_t>(tile_rows.size()),
                 scratch.hits_.data());
}

void CodedNearest::AddCandidate(int64_t group, size_t query, const CodeHit& hit,
                                Scratch& scratch) const {
  int32_t& first = scratch.first_[query + hit.query];
  scratch.candidates_.push_back(
      {static_cast<int32_t>(group * kGroupRows + hit.row), hit.ip, 0, first});
  first = static_cast<int32_t>(scratch.candidates_.size() - 1);
}

int64_t CodedNearest::MostGroups(int64_t bytes) const {
  return std::clamp<int64_t>(bytes / (kGroupRows * 4 * codes_.quads()), 1,
                             1024);
}

void CodedNearest::Scan(absl::Span<const int64_t> which,
                        Scratch& scratch) const {
  const int64_t piece = MostGroups(kPieceBytes);
  scratch.hits_.resize(static_cast<size_t>(piece * kGroupRows * kTileQueries));
  for (int64_t group = 0; group < groups_; group += piece) {
    const int64_t groups = std::min(piece, groups_ - group);
    for (size_t query = 0; query < which.size(); query += kTileQueries) {
      const int64_t count = Score(group, groups, which, query, scratch);
      for (int64_t h = 0; h < count; ++h) {
        AddCandidate(group, query, scratch.hits_[static_cast<size_t>(h)],
                     scratch);
      }
    }
  }
}

// A lower bound on the radius, in natural units.
double CodedNearest::Lower(int64_t row, int64_t position, int32_t ip) const {
  const RowCodes::Form& form = codes_.forms_[static_cast<size_t>(row)];
  const size_t p = static_cast<size_t>(position);
  const double square = SquareAtLeast(form, position, ip);
  if (!(square > 0)) return 0;
  return std::max(0.0, std::sqrt(square) - form.error - errors_[p]) *
         from_units_;
}

int64_t CodedNearest::Resolve(int64_t row, int64_t query, NearestFound& found,
                              Scratch& scratch) const {
  using Candidate = Scratch::Candidate;
  const Metric metric = centres_.metric();
  const int32_t old = found.label;
  double radius = RadiusAtMost(metric, found.distance);
  // Of all centres but the nearest so far; those not hit lie beyond.
  found.other = scratch.radii_[static_cast<size_t>(query)];
  const int32_t first = scratch.first_[static_cast<size_t>(query)];
  Candidate* const candidates = scratch.candidates_.data();
  int64_t evaluated = 0;
  const auto evaluate = [&](int64_t j) {
    const double distance =
        rows_.Distance(row, centres_.centre(j), centres_.squared_norm(j));
    ++evaluated;
    const bool nearer = distance < found.distance ||
                        (distance == found.distance && j < found.label);
    const double farther = nearer ? found.distance : distance;
    found.other = std::min(found.other, RadiusAtLeast(metric, farther));
    if (nearer) {
      found.distance = distance;
      found.label = static_cast<int32_t>(j);
      radius = RadiusAtMost(metric, distance);
    }
  };
  int32_t nearest = -1;
  for (int32_t at = first; at >= 0; at = candidates[at].next) {
    Candidate& candidate = candidates[at];
    if (member(candidate.position) == old) continue;
    candidate.lower = Lower(row, candidate.position, candidate.ip);
    if (nearest < 0 || candidate.lower < candidates[nearest].lower) {
      nearest = at;
    }
  }
  if (nearest < 0) return 0;
  if (candidates[nearest].lower > radius) {
    found.other = std::min(found.other, candidates[nearest].lower);
    return 0;
  }
  evaluate(member(candidates[nearest].position));
  for (int32_t at = first; at >= 0; at = candidates[at].next) {
    const Candidate& candidate = candidates[at];
    const int64_t j = member(candidate.position);
    if (j == old || at == nearest) continue;
    if (candidate.lower > radius) {
      found.other = std::min(found.other, candidate.lower);
    } else {
      evaluate(j);
    }
  }
  return evaluated;
}

int64_t CodedNearest::Find(absl::Span<const int64_t> which,
                           absl::Span<const double> reach,
                           absl::Span<NearestFound> found,
                           Scratch& scratch) const {
  int64_t evaluated = 0;
  const size_t chunk = static_cast<size_t>(kChunkRows);
  for (size_t first = 0; first < which.size(); first += chunk) {
    const absl::Span<const int64_t> part = which.subspan(first, chunk);
    StartQueries(part, scratch);
    for (size_t q = 0; q < part.size(); ++q) {
      const double radius =
          RadiusAtMost(centres_.metric(), found[first + q].distance);
      SetRadius(part[q], q, radius + reach[first + q], scratch);
    }
    Scan(part, scratch);
    for (size_t q = 0; q < part.size(); ++q) {
      evaluated +=
          Resolve(part[q], static_cast<int64_t>(q), found[first + q], scratch);
    }
  }
  return evaluated;
}

}  // namespace coterie
