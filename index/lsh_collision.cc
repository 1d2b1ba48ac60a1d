#include "index/lsh_collision.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/lsh_random.h"

namespace coterie::internal_lsh {
namespace {

constexpr int64_t kPairs = 2500;
constexpr double kHalfPi = 1.57079632679489661923;
constexpr uint64_t kSeed = 0x636f6c6c6973696f;

// Box and Muller's normal deviates.
std::vector<float> Normal(int64_t n, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i += 2) {
    const double u = (static_cast<double>(Mix(seed, i) >> 11) + 1) * 0x1p-53;
    const double v = static_cast<double>(Mix(seed, i + 1) >> 11) * 0x1p-53;
    const double r = std::sqrt(-2 * std::log(u));
    values[static_cast<size_t>(i)] =
        static_cast<float>(r * std::cos(4 * kHalfPi * v));
    if (i + 1 < n) {
      values[static_cast<size_t>(i + 1)] =
          static_cast<float>(r * std::sin(4 * kHalfPi * v));
    }
  }
  return values;
}

// The largest magnitude of x and where it is.
struct Largest {
  int64_t at = 0;
  float magnitude = -1;
};

Largest LargestOf(const float* x, int64_t dims) {
  Largest largest;
  for (int64_t i = 0; i < dims; ++i) {
    const float m = std::fabs(x[i]);
    if (m > largest.magnitude) largest = {i, m};
  }
  return largest;
}

}  // namespace

CollisionTable::CollisionTable(int64_t dims)
    : probabilities_(static_cast<size_t>(kAngles * kGaps), 0) {
  const std::vector<float> q = Normal(kPairs * dims, kSeed);
  const std::vector<float> g = Normal(kPairs * dims, kSeed + 1);
  std::vector<float> x(static_cast<size_t>(dims));
  std::vector<int64_t> trials(kGaps, 0);
  for (int64_t p = 0; p < kPairs; ++p) {
    const float* query = q.data() + p * dims;
    const float most = LargestOf(query, dims).magnitude;
    for (int64_t i = 0; i < dims; ++i) {
      const int64_t column = GapColumn(most - std::fabs(query[i]));
      if (column < kGaps) ++trials[static_cast<size_t>(column)];
    }
    for (int64_t a = 0; a < kAngles; ++a) {
      const double angle = static_cast<double>(a + 1) * kHalfPi / kAngles;
      const float c = static_cast<float>(std::cos(angle));
      const float s = static_cast<float>(std::sin(angle));
      for (int64_t i = 0; i < dims; ++i) {
        x[static_cast<size_t>(i)] =
            c * query[i] + s * g[static_cast<size_t>(p * dims + i)];
      }
      const int64_t at = LargestOf(x.data(), dims).at;
      if ((x[static_cast<size_t>(at)] < 0) != (query[at] < 0)) continue;
      const int64_t column = GapColumn(most - std::fabs(query[at]));
      if (column < kGaps) {
        ++probabilities_[static_cast<size_t>(a * kGaps + column)];
      }
    }
  }
  for (size_t i = 0; i < probabilities_.size(); ++i) {
    probabilities_[i] /=
        static_cast<float>(std::max<int64_t>(1, trials[i % kGaps]));
  }
}

const CollisionTable& CollisionTable::For(int64_t log2_dims) {
  static std::atomic<const CollisionTable*> tables[24] = {};
  std::atomic<const CollisionTable*>& slot =
      tables[static_cast<size_t>(log2_dims)];
  const CollisionTable* table = slot.load(std::memory_order_acquire);
  if (table != nullptr) return *table;
  // Two threads may make it at once; they make the same.
  const CollisionTable* fresh = new CollisionTable(int64_t{1} << log2_dims);
  if (slot.compare_exchange_strong(table, fresh, std::memory_order_acq_rel)) {
    return *fresh;
  }
  delete fresh;
  return *table;
}

int64_t CollisionTable::AngleRow(double angle) {
  const double at = std::ceil(angle * kAngles / kHalfPi) - 1;
  if (!(at < kAngles)) return kAngles;
  return std::max<int64_t>(0, static_cast<int64_t>(at));
}

int64_t CollisionTable::GapColumn(float gap) {
  if (gap == 0) return 0;
  const double column = 1 + static_cast<double>(gap) * (kGaps - 1) / kMaxGap;
  return column < kGaps ? static_cast<int64_t>(column) : kGaps;
}

}  // namespace coterie::internal_lsh
