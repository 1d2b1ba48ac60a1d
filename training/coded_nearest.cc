#include "training/coded_nearest.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/types/span.h"
#include "index/certified_dispatch.h"
#include "index/certified_kernels.h"
#include "index/code_simd.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/vectors.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_workers.h"
#include "training/nearest_centre.h"
#include "training/row_code_kernels.h"

namespace coterie {

using internal_certified::CodeHit;
using internal_certified::CodeTile;
using internal_certified::kGroupRows;
using internal_certified::kTileQueries;
using internal_nearest::kCodeLanes;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kRowsPerTask = 1024;
constexpr int64_t kRowsForOffset = 4096;
constexpr float kLeastScale = 0x1p-100f;
// Rows that go over all centres together.
constexpr int64_t kChunkRows = 40 * kTileQueries;
// Codes of centres that they go over in one piece: should stay in L2.
constexpr int64_t kPieceBytes = 192 << 10;
constexpr double kFloatSlack = 0x1p-20;
constexpr int kCodeLimit = 127;

internal_nearest::CodeRowKernel ActiveCodeRow() {
  switch (ActiveSimdTarget()) {
    case SimdTarget::kAvx512:
      return internal_nearest::CodeRowAvx512;
    case SimdTarget::kAvx2:
      return internal_nearest::CodeRowAvx2;
    case SimdTarget::kScalar:
      break;
  }
  return internal_nearest::CodeRowSse;
}

// The largest magnitude, as bits: those of finite magnitudes are ordered.
int32_t MostBits(VectorView x) {
  int32_t most = 0;
  for (float v : x) {
    most = std::max(most, absl::bit_cast<int32_t>(v) & 0x7fffffff);
  }
  return most;
}

int64_t QuadsOf(int64_t d) { return (d + 3) / 4; }

// y = (x - offset) / 2^unit (COSINE: x/|x|); relative error below 2^-50, or
// 2^-40 under COSINE.
void Centre(Metric metric, VectorView x, double squared_norm,
            const std::vector<float>& offset, int unit,
            std::vector<double>& y) {
  if (metric == Metric::kCosine) {
    const double inverse = 1 / std::sqrt(squared_norm);
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * inverse;
    return;
  }
  const double scale = std::ldexp(1.0, -unit);
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = (static_cast<double>(x[i]) - offset[i]) * scale;
  }
}

double MaxOf(const std::vector<double>& y) {
  double most = 0;
  for (double v : y) most = std::max(most, std::fabs(v));
  return most;
}

struct Coded {
  double error;         // >= |y - scale code|
  int64_t code_square;  // sum of squared codes
  int32_t sum;          // of codes
};

// Codes of y, to the nearest, at most `limit`.
template <typename Store>
Coded CodeVector(const std::vector<double>& y, double scale, int limit,
                 Store store) {
  constexpr double kShift = 0x1.8p52;
  const double inverse = 1 / scale;
  const double most = limit;
  double residual = 0;
  double norm = 0;
  Coded coded = {0, 0, 0};
  for (size_t i = 0; i < y.size(); ++i) {
    const double v = std::min(std::max(y[i] * inverse, -most), most);
    const double code = (v + kShift) - kShift;
    const double r = y[i] - scale * code;
    residual += r * r;
    norm += y[i] * y[i];
    const int32_t c = static_cast<int32_t>(code);
    coded.code_square += c * c;
    coded.sum += c;
    store(i, c);
  }
  coded.error = std::sqrt(residual) * (1 + 0x1p-30) + std::sqrt(norm) * 0x1p-38;
  return coded;
}

float FloatAtLeast(double v) {
  const float f = static_cast<float>(v);
  return f < v ? std::nextafterf(f, std::numeric_limits<float>::infinity()) : f;
}

}  // namespace

int64_t RowCodes::MemoryBytes(int64_t n, int64_t d) {
  return n * (4 * QuadsOf(d) + static_cast<int64_t>(sizeof(Form)));
}

struct RowCodes::Scratch {
  explicit Scratch(int64_t d)
      : floats(static_cast<size_t>((d + kCodeLanes - 1) / kCodeLanes *
                                   kCodeLanes)),
        doubles(static_cast<size_t>(d)) {}
  std::vector<float> floats;
  std::vector<double> doubles;
};

RowCodes::RowCodes(const KMeansRows& rows, const KMeansWorkers& workers)
    : kernel_(ActiveCodeKernel()),
      code_row_(ActiveCodeRow()),
      quads_(QuadsOf(rows.dimension())),
      offset_(static_cast<size_t>(rows.dimension()), 0.0f),
      codes_(static_cast<size_t>(rows.size() * quads_)),
      forms_(static_cast<size_t>(rows.size())) {
  if (rows.metric() != Metric::kCosine) FindOffset(rows, workers);
  const float to_units = std::ldexp(1.0f, -unit_);
  unit_offset_ = Scratch(rows.dimension()).floats;
  std::transform(offset_.begin(), offset_.end(), unit_offset_.begin(),
                 [to_units](float o) { return o * to_units; });
  workers.ForEach((rows.size() + kRowsPerTask - 1) / kRowsPerTask,
                  [&](int32_t, int64_t task) {
                    Scratch scratch(rows.dimension());
                    const int64_t begin = task * kRowsPerTask;
                    const int64_t end =
                        std::min(begin + kRowsPerTask, rows.size());
                    for (int64_t i = begin; i < end; ++i) {
                      Code(rows, i, scratch);
                    }
                  });
}

// The mean of some rows is as good as that of all. The unit has to hold every
// row.
void RowCodes::FindOffset(const KMeansRows& rows,
                          const KMeansWorkers& workers) {
  const int64_t step = std::max<int64_t>(1, rows.size() / kRowsForOffset);
  std::vector<double> mean(offset_.size(), 0);
  int64_t count = 0;
  for (int64_t i = 0; i < rows.size(); i += step, ++count) {
    const float* x = rows.data(i);
    for (size_t j = 0; j < mean.size(); ++j) mean[j] += x[j];
  }
  for (size_t j = 0; j < mean.size(); ++j) {
    offset_[j] = static_cast<float>(mean[j] / static_cast<double>(count));
  }
  std::vector<int32_t> largest(static_cast<size_t>(workers.count), 0);
  workers.ForEach((rows.size() + kRowsPerTask - 1) / kRowsPerTask,
                  [&](int32_t worker, int64_t task) {
                    const int64_t begin = task * kRowsPerTask;
                    const int64_t end =
                        std::min(begin + kRowsPerTask, rows.size());
                    int32_t& most = largest[static_cast<size_t>(worker)];
                    for (int64_t i = begin; i < end; ++i) {
                      most = std::max(most, MostBits(rows.row(i)));
                    }
                  });
  const float most =
      absl::bit_cast<float>(*std::max_element(largest.begin(), largest.end()));
  if (most > 0) std::frexp(most, &unit_);
  unit_ = std::max(unit_, -126);  // 2^-unit is a float
}

void RowCodes::Code(const KMeansRows& rows, int64_t row, Scratch& scratch) {
  float factor = std::ldexp(1.0f, -unit_);
  if (rows.metric() == Metric::kCosine) {
    const double inverse = 1 / std::sqrt(rows.squared_norm(row));
    if (!(inverse > 0x1p-100 && inverse < 0x1p100)) {
      return CodeSlowly(rows, row, scratch);
    }
    factor = static_cast<float>(inverse);
  }
  Form& form = forms_[static_cast<size_t>(row)];
  const internal_nearest::CodedRow coded =
      code_row_({.row = rows.data(row),
                 .offset = unit_offset_.data(),
                 .factor = factor,
                 .d = rows.dimension(),
                 .limit = QueryCodeLimit(kernel_)},
                scratch.floats.data(),
                reinterpret_cast<int8_t*>(codes_.data() + row * quads_));
  form.scale = std::max(coded.scale, kLeastScale);
  // Beside the sum's own error, each component of y has two roundings (COSINE:
  // three), and its difference from the code one.
  form.error = FloatAtLeast(
      std::sqrt(static_cast<double>(coded.residual)) * (1 + 0x1p-11) +
      std::sqrt(static_cast<double>(coded.square)) * 0x1p-21 + 0x1p-130);
  form.square =
      static_cast<float>(static_cast<double>(form.scale) * form.scale *
                         static_cast<double>(coded.code_square));
  form.start = -128 * coded.code_sum;
}

// In double, for directions of rows whose norm float32 does not hold.
void RowCodes::CodeSlowly(const KMeansRows& rows, int64_t row,
                          Scratch& scratch) {
  std::vector<double>& y = scratch.doubles;
  Centre(rows.metric(), rows.row(row), rows.squared_norm(row), offset_, unit_,
         y);
  const int limit = QueryCodeLimit(kernel_);
  Form& form = forms_[static_cast<size_t>(row)];
  form.scale = std::max(FloatAtLeast(MaxOf(y) / limit), kLeastScale);
  auto* bytes = reinterpret_cast<int8_t*>(codes_.data() + row * quads_);
  const Coded coded =
      CodeVector(y, form.scale, limit, [bytes](size_t i, int32_t code) {
        bytes[i] = static_cast<int8_t>(code);
      });
  form.error = FloatAtLeast(coded.error);
  form.square =
      static_cast<float>(static_cast<double>(form.scale) * form.scale *
                         static_cast<double>(coded.code_square));
  form.start = -128 * coded.sum;
}

CodedNearest::CodedNearest(const KMeansRows& rows, const RowCodes& codes,
                           const NearestCentre& centres,
                           absl::Span<const int32_t> members)
    : rows_(rows),
      codes_(codes),
      centres_(centres),
      members_(members.begin(), members.end()),
      size_(members.empty() ? centres.size()
                            : static_cast<int64_t>(members.size())),
      kernel_(internal_certified::BatchKernelFor(codes.kernel())),
      groups_((size_ + kGroupRows - 1) / kGroupRows),
      from_units_(std::ldexp(1 - 0x1p-40, codes.unit())) {
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
  code_error_ = std::max(code_error_, coded.error / t);
  most_a_ = std::max(most_a_, 1 / t);
  most_b_ = std::max(most_b_, (squares_[at] + coded.error * coded.error) / t);
}

void CodedNearest::FillQueries(absl::Span<const int64_t> which,
                               absl::Span<const double> reach,
                               absl::Span<const NearestFound> found,
                               Scratch& scratch) const {
  const size_t count = which.size();
  scratch.starts_.resize(count);
  scratch.cut_a_.resize(count);
  scratch.cut_b_.resize(count);
  scratch.cut_k_.resize(count);
  scratch.radii_.resize(count);
  const double to_units = std::ldexp(1.0, -codes_.unit());
  for (size_t q = 0; q < count; ++q) {
    const size_t row = static_cast<size_t>(which[q]);
    const RowCodes::Form& form = codes_.forms_[row];
    scratch.starts_[q] = form.start;
    const double radius =
        RadiusAtMost(centres_.metric(), found[q].distance) + reach[q];
    scratch.radii_[q] = radius;
    const double far = radius * to_units * (1 + 0x1p-40) + form.error;
    const double s = form.scale;
    const double square = form.square;
    const double a = (square - far * far) / (2 * s);
    const double b = 1 / (2 * s);
    const double k = -far / s * code_error_;
    const double loss =
        kFloatSlack *
        ((square + far * far) / (2 * s) * most_a_ + b * most_b_ - k);
    const bool small = std::fabs(a) * most_a_ < 1e30 && b * most_b_ < 1e30 &&
                       -k < 1e30 && b < 1e30 && most_a_ < 1e30;
    scratch.cut_a_[q] =
        small ? static_cast<float>(a) : std::numeric_limits<float>::quiet_NaN();
    scratch.cut_b_[q] = static_cast<float>(b);
    scratch.cut_k_[q] = small ? static_cast<float>(k - loss) : 0;
  }
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

void CodedNearest::Scan(absl::Span<const int64_t> which,
                        Scratch& scratch) const {
  const int64_t quads = codes_.quads();
  const int64_t queries = static_cast<int64_t>(which.size());
  const int64_t piece =
      std::clamp<int64_t>(kPieceBytes / (kGroupRows * 4 * quads), 1, 1024);
  scratch.hits_.resize(static_cast<size_t>(piece * kGroupRows * kTileQueries));
  scratch.candidates_.clear();
  scratch.first_.assign(which.size(), -1);
  for (int64_t group = 0; group < groups_; group += piece) {
    for (int64_t query = 0; query < queries; query += kTileQueries) {
      const absl::Span<const int64_t> tile_rows = which.subspan(
          static_cast<size_t>(query), static_cast<size_t>(kTileQueries));
      const CodeTile tile = {
          .codes = lines_[static_cast<size_t>(group * 4 * quads)].bytes,
          .groups = std::min(piece, groups_ - group),
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
      const int64_t count = kernel_(
          tile, static_cast<int64_t>(tile_rows.size()), scratch.hits_.data());
      for (int64_t h = 0; h < count; ++h) {
        const CodeHit& hit = scratch.hits_[static_cast<size_t>(h)];
        int32_t& first = scratch.first_[static_cast<size_t>(query + hit.query)];
        scratch.candidates_.push_back(
            {static_cast<int32_t>(group * kGroupRows + hit.row), hit.ip, 0,
             first});
        first = static_cast<int32_t>(scratch.candidates_.size() - 1);
      }
    }
  }
}

// A lower bound on the radius, in natural units.
double CodedNearest::Lower(int64_t row, int64_t position, int32_t ip) const {
  const RowCodes::Form& form = codes_.forms_[static_cast<size_t>(row)];
  const size_t p = static_cast<size_t>(position);
  const double sum = form.square + squares_[p];
  const double square = sum -
                        2 * form.scale * scales_[p] * static_cast<double>(ip) -
                        sum * kFloatSlack;
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
    FillQueries(part, reach.subspan(first, chunk), found.subspan(first, chunk),
                scratch);
    Scan(part, scratch);
    for (size_t q = 0; q < part.size(); ++q) {
      evaluated +=
          Resolve(part[q], static_cast<int64_t>(q), found[first + q], scratch);
    }
  }
  return evaluated;
}

}  // namespace coterie
