#include "index/lsh.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/numeric/bits.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "index/certified_rounding.h"
#include "index/distance.h"
#include "index/lsh_collision.h"
#include "index/lsh_dispatch.h"
#include "index/lsh_random.h"
#include "index/lsh_rotate.h"
#include "index/metric.h"
#include "index/tree_types.h"
#include "index/vectors.h"

namespace coterie {

using internal_lsh::CollisionTable;
using internal_lsh::kLanes;
using internal_lsh::kRounds;
using internal_lsh::Mix;

namespace {

constexpr int64_t kTaskRows = 1024;
// A sketch takes as many coordinates of each of 16 rotations.
constexpr int64_t kSketchCoordinates = LshIndex::kSketchWords * 64 / kLanes;
constexpr int64_t kMostHashBits = 24;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A power of two that also serves the sketch.
int64_t PaddedDimension(int64_t d) {
  return std::max<int64_t>(
      kSketchCoordinates,
      static_cast<int64_t>(absl::bit_ceil(static_cast<uint64_t>(d))));
}

int64_t Log2(int64_t n) {
  return absl::bit_width(static_cast<uint64_t>(std::max<int64_t>(1, n))) - 1;
}

}  // namespace

// Files new rows: finds the place of each in all tables, then merges it in.
class LshIndex::Filer {
 public:
  Filer(LshIndex& index, RowsView rows)
      : index_(index),
        rows_(rows),
        old_n_(index.n_),
        fresh_(rows.n - index.n_),
        places_(static_cast<size_t>(fresh_ * index.tables_)) {}

  void Run(RunTasks run_tasks) {
    index_.sketches_.resize(static_cast<size_t>(rows_.n * kSketchWords));
    std::vector<double> norms(static_cast<size_t>(CeilDiv(fresh_, kTaskRows)),
                              0);
    run_tasks(static_cast<int64_t>(norms.size()), [&](int64_t task) {
      norms[static_cast<size_t>(task)] =
          Hash(old_n_ + task * kTaskRows,
               std::min(rows_.n, old_n_ + (task + 1) * kTaskRows));
    });
    for (double norm : norms) {
      index_.max_norm_ =
          std::max(index_.max_norm_, -RoundDown(-std::min(norm, 0x1p127)));
    }
    const Array<uint32_t> old = std::move(index_.rows_);
    index_.rows_.assign(static_cast<size_t>(rows_.n * index_.tables_), 0);
    run_tasks(index_.tables_, [&](int64_t table) { Merge(table, old); });
    index_.n_ = rows_.n;
  }

 private:
  // Finds the places of rows [begin, end); returns the greatest norm.
  double Hash(int64_t begin, int64_t end) {
    const auto& kernels = internal_lsh::ActiveRotateKernels();
    std::vector<float> direction(static_cast<size_t>(index_.dims_));
    Array<float> rotated(static_cast<size_t>(index_.dims_ * kLanes));
    uint32_t codes[kLanes];
    double most = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double norm = index_.Direction(rows_.row(i), direction.data());
      most = std::max(most, norm);
      uint32_t* places = places_.data() + (i - old_n_) * index_.tables_;
      for (int64_t g = 0; g + 1 < index_.groups(); ++g) {
        const int64_t hash = g / index_.table_groups();
        const int64_t table = g % index_.table_groups() * kLanes;
        const int64_t bits = index_.code_bits(hash);
        index_.Rotate(direction.data(), g, rotated.data());
        kernels.largest(rotated.data(), int64_t{1} << (bits - 1), codes);
        for (int64_t t = table; t < std::min(index_.tables_, table + kLanes);
             ++t) {
          places[t] = places[t] << bits | codes[t - table];
        }
      }
      const auto shell = static_cast<uint32_t>(index_.ShellOf(norm));
      for (int64_t t = 0; t < index_.tables_; ++t) {
        places[t] = places[t] * static_cast<uint32_t>(index_.shells()) + shell;
      }
      index_.Rotate(direction.data(), index_.groups() - 1, rotated.data());
      index_.Sketch(rotated.data(), index_.sketches_.data() + i * kSketchWords);
    }
    return most;
  }

  // Old rows stay in front of new ones: buckets list rows in order.
  void Merge(int64_t table, const Array<uint32_t>& old) {
    const int64_t size = index_.directory_size();
    uint32_t* directory = index_.directory_.data() + table * size;
    const std::vector<uint32_t> before(directory, directory + size);
    std::vector<uint32_t> next(static_cast<size_t>(size), 0);
    for (int64_t i = 0; i < fresh_; ++i) {
      ++next[places_[static_cast<size_t>(i * index_.tables_ + table)] + 1];
    }
    for (int64_t b = 1; b < size; ++b) {
      next[static_cast<size_t>(b)] += next[static_cast<size_t>(b - 1)];
      directory[b] =
          before[static_cast<size_t>(b)] + next[static_cast<size_t>(b)];
    }
    const uint32_t* from = old.data() + table * old_n_;
    uint32_t* to = index_.rows_.data() + table * rows_.n;
    for (int64_t b = 0; b + 1 < size; ++b) {
      const size_t at = static_cast<size_t>(b);
      std::copy(from + before[at], from + before[at + 1], to + directory[b]);
      next[at] = directory[b] + (before[at + 1] - before[at]);
    }
    for (int64_t i = 0; i < fresh_; ++i) {
      const size_t place =
          places_[static_cast<size_t>(i * index_.tables_ + table)];
      to[next[place]++] = static_cast<uint32_t>(old_n_ + i);
    }
  }

  LshIndex& index_;
  const RowsView rows_;
  const int64_t old_n_;
  const int64_t fresh_;
  std::vector<uint32_t> places_;  // of each new row in each table
};

int64_t LshIndex::max_code_bits() const { return Log2(dims_) + 1; }

int64_t LshIndex::table_groups() const { return CeilDiv(tables_, kLanes); }

void LshIndex::Prepare() {
  dims_ = PaddedDimension(d_);
  // The first round also scales: coordinates of a direction have variance 1.
  signs_.resize(static_cast<size_t>(groups() * kRounds * dims_ * kLanes));
  const int64_t round_size = dims_ * kLanes;
  for (size_t i = 0; i < signs_.size(); ++i) {
    const int64_t round = static_cast<int64_t>(i) / round_size % kRounds;
    const float scale = round == 0 ? 1 / static_cast<float>(dims_) : 1;
    const bool negative = Mix(seed_, static_cast<int64_t>(i)) >> 63 != 0;
    signs_[i] = negative ? -scale : scale;
  }
  collisions_.clear();
  for (int64_t h = 0; h < hashes(); ++h) {
    collisions_.push_back(&CollisionTable::For(code_bits(h) - 1));
  }
}

double LshIndex::Direction(VectorView v, float* direction) const {
  double square = 0;
  for (size_t j = 0; j < v.size(); ++j) {
    const double y = static_cast<double>(v[j]) - centre_[j];
    square += y * y;
  }
  const double norm = std::sqrt(square);
  const double scale = norm > 0 ? 1 / norm : 0;
  for (size_t j = 0; j < v.size(); ++j) {
    direction[j] =
        static_cast<float>((static_cast<double>(v[j]) - centre_[j]) * scale);
  }
  std::fill(direction + v.size(), direction + dims_, 0.0f);
  return norm;
}

int64_t LshIndex::ShellOf(double norm) const {
  return std::upper_bound(shells_.begin(), shells_.end(), norm) -
         shells_.begin();
}

void LshIndex::Rotate(const float* direction, int64_t group,
                      float* rotated) const {
  internal_lsh::ActiveRotateKernels().rotate(
      direction, dims_, signs_.data() + group * kRounds * dims_ * kLanes,
      rotated);
}

void LshIndex::Sketch(const float* rotated, uint64_t* sketch) const {
  std::fill_n(sketch, kSketchWords, 0);
  for (int64_t i = 0; i < kSketchCoordinates * kLanes; ++i) {
    sketch[i / 64] |= uint64_t{rotated[i] < 0} << (i % 64);
  }
}

LshIndex LshIndex::Build(Metric metric, RowsView rows, const Options& options,
                         RunTasks run_tasks) {
  assert(rows.d >= 1 && rows.d <= kMaxDimension);
  assert(options.tables >= 1 && options.tables <= kMaxTables);
  LshIndex index;
  index.metric_ = metric;
  index.d_ = rows.d;
  index.seed_ = options.seed;
  index.tables_ = options.tables;
  index.dims_ = PaddedDimension(rows.d);
  index.centre_.assign(static_cast<size_t>(rows.d), 0);
  if (metric == Metric::kSquaredL2 && rows.n > 0) {
    std::vector<double> sum(static_cast<size_t>(rows.d), 0);
    for (int64_t i = 0; i < rows.n; ++i) {
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += rows.row(i)[j];
    }
    for (size_t j = 0; j < sum.size(); ++j) {
      index.centre_[j] =
          static_cast<float>(sum[j] / static_cast<double>(rows.n));
    }
  }
  if (metric != Metric::kCosine && rows.n > 0) index.ChooseShells(rows);
  // Two rows to a bucket, and hashes over all coordinates as far as that goes.
  const int64_t most = index.max_code_bits();
  const int64_t expected = std::max(rows.n, options.expected_rows);
  const int64_t bits = std::max<int64_t>(
      4, Log2(expected) - (metric == Metric::kCosine ? 1 : 2));
  const int64_t hashes = std::max<int64_t>(1, (bits + most / 2) / most);
  index.hash_bits_ = std::min({bits, hashes * most, kMostHashBits});
  index.Prepare();
  index.directory_.assign(
      static_cast<size_t>(index.tables_ * index.directory_size()), 0);
  index.Insert(rows, run_tasks);
  return index;
}

void LshIndex::ChooseShells(RowsView rows) {
  constexpr int64_t kSample = 4096;
  std::vector<float> direction(static_cast<size_t>(dims_));
  std::vector<float> norms;
  const int64_t m = std::min(rows.n, kSample);
  for (int64_t i = 0; i < m; ++i) {
    norms.push_back(static_cast<float>(
        Direction(rows.row(i * rows.n / m), direction.data())));
  }
  std::sort(norms.begin(), norms.end());
  for (int64_t s = 1; s < kShells; ++s) {
    shells_.push_back(norms[static_cast<size_t>(s * m / kShells)]);
  }
}

void LshIndex::Insert(RowsView rows, RunTasks run_tasks) {
  assert(rows.n >= n_ && rows.n < std::numeric_limits<int32_t>::max());
  if (rows.n > n_) Filer(*this, rows).Run(run_tasks);
}

namespace {

constexpr size_t kTrainedFloats = sizeof(LshIndex::Trained) / sizeof(float);

bool TrainedFits(const LshIndex::Parts& parts) {
  return parts.trained.size() % kTrainedFloats == 0 &&
         absl::c_all_of(parts.trained,
                        [](float x) { return x >= -1 && x <= 1e6F; }) &&
         parts.sketch_cut > 0 && parts.sketch_cut <= 1;
}

}  // namespace

LshIndex::Parts LshIndex::parts() const {
  return {.metric = metric_,
          .n = n_,
          .d = d_,
          .seed = seed_,
          .tables = tables_,
          .hash_bits = hash_bits_,
          .max_norm = max_norm_,
          .centre = centre_,
          .shells = shells_,
          .directory = directory_,
          .rows = rows_,
          .sketches = sketches_,
          .trained = absl::MakeConstSpan(
              reinterpret_cast<const float*>(trained_.data()),
              trained_.size() * kTrainedFloats),
          .sketch_cut = sketch_cut_};
}

absl::StatusOr<LshIndex> LshIndex::FromParts(const Parts& parts) {
  const auto refuse = [](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat("lsh index: ", what...));
  };
  if (parts.d < 1 || parts.d > kMaxDimension) {
    return refuse("dimension ", parts.d, " is not in [1, ", kMaxDimension, "]");
  }
  if (parts.n < 0 || parts.n >= std::numeric_limits<int32_t>::max()) {
    return refuse(parts.n, " rows are not in [0, 2^31)");
  }
  if (parts.tables < 1 || parts.tables > kMaxTables || parts.hash_bits < 1 ||
      parts.hash_bits > kMostHashBits) {
    return refuse(parts.tables, " tables of ", parts.hash_bits, " bits");
  }
  if (!TrainedFits(parts)) {
    return refuse("what was trained is none of its numbers");
  }
  LshIndex index;
  index.sketch_cut_ = parts.sketch_cut;
  index.trained_.resize(parts.trained.size() / kTrainedFloats);
  if (!parts.trained.empty()) {
    std::memcpy(static_cast<void*>(index.trained_.data()), parts.trained.data(),
                parts.trained.size() * sizeof(float));
  }
  index.metric_ = parts.metric;
  index.n_ = parts.n;
  index.d_ = parts.d;
  index.seed_ = parts.seed;
  index.tables_ = parts.tables;
  index.hash_bits_ = parts.hash_bits;
  index.max_norm_ = parts.max_norm;
  index.shells_.assign(parts.shells.begin(), parts.shells.end());
  const int64_t size = index.directory_size();
  if (static_cast<int64_t>(parts.centre.size()) != parts.d ||
      index.shells() > kShells || !absl::c_is_sorted(parts.shells) ||
      static_cast<int64_t>(parts.directory.size()) != parts.tables * size ||
      static_cast<int64_t>(parts.rows.size()) != parts.tables * parts.n ||
      static_cast<int64_t>(parts.sketches.size()) != kSketchWords * parts.n) {
    return refuse("arrays for ", parts.tables, " tables and ", parts.n,
                  " rows do not fit together");
  }
  for (int64_t t = 0; t < parts.tables; ++t) {
    const auto directory = parts.directory.subspan(
        static_cast<size_t>(t * size), static_cast<size_t>(size));
    if (directory.front() != 0 || directory.back() != parts.n ||
        !absl::c_is_sorted(directory)) {
      return refuse("the directory of table ", t, " is out of order");
    }
  }
  for (uint32_t row : parts.rows) {
    if (row >= parts.n) return refuse("row ", row, " of ", parts.n);
  }
  index.centre_.assign(parts.centre.begin(), parts.centre.end());
  index.directory_.assign(parts.directory.begin(), parts.directory.end());
  index.rows_.assign(parts.rows.begin(), parts.rows.end());
  index.sketches_.assign(parts.sketches.begin(), parts.sketches.end());
  index.Prepare();
  return index;
}

int64_t LshIndex::MemoryBytes() const {
  return static_cast<int64_t>((directory_.capacity() + rows_.capacity()) *
                                  sizeof(uint32_t) +
                              sketches_.capacity() * sizeof(uint64_t) +
                              signs_.capacity() * sizeof(float));
}

}  // namespace coterie
