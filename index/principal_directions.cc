#include "index/principal_directions.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/certified_lanes.h"
#include "index/distances.h"
#include "index/vectors.h"

namespace coterie {
namespace {

using internal_certified::LaneDot;
using internal_certified::PadToLanes;

void AddScaled(const float* x, double factor, int64_t d, double* sum) {
  for (int64_t j = 0; j < d; ++j) sum[j] += factor * static_cast<double>(x[j]);
}

void AddScaled(const double* x, double factor, int64_t d, double* sum) {
  for (int64_t j = 0; j < d; ++j) sum[j] += factor * x[j];
}

// Columns of doubles, padded with zeros to whole lanes.
class Basis {
 public:
  Basis(int64_t count, int64_t d)
      : count_(count),
        padded_(PadToLanes(d)),
        columns_(static_cast<size_t>(count * padded_)) {}

  double* column(int64_t i) { return columns_.data() + i * padded_; }

  void Clear() { std::fill(columns_.begin(), columns_.end(), 0.0); }

  // Gram and Schmidt's, each column twice: what once leaves of the others where
  // a column hardly differs from them is gone then. Columns without anything of
  // their own become zero.
  void Orthonormalise() {
    for (int64_t i = 0; i < count_; ++i) {
      const double before = Norm(i);
      for (int pass = 0; pass < 2; ++pass) {
        for (int64_t k = 0; k < i; ++k) {
          AddScaled(column(k), -LaneDot(column(i), column(k), padded_), padded_,
                    column(i));
        }
      }
      const double left = Norm(i);
      const double factor = left > 0x1p-40 * before ? 1 / left : 0;
      for (int64_t j = 0; j < padded_; ++j) column(i)[j] *= factor;
    }
  }

 private:
  double Norm(int64_t i) {
    return std::sqrt(LaneDot(column(i), column(i), padded_));
  }

  const int64_t count_;
  const int64_t padded_;
  std::vector<double> columns_;
};

}  // namespace

std::vector<float> PrincipalDirections(RowsView rows, int64_t count,
                                       int64_t rounds) {
  assert(count <= std::min(rows.n, rows.d) && rounds >= 1);
  const int64_t d = rows.d;
  std::vector<float> directions(static_cast<size_t>(count * d));
  std::vector<double> products(static_cast<size_t>(count));
  Basis basis(count, d);
  // Rows lie where their directions do: a first round for nothing.
  for (int64_t i = 0; i < count; ++i) {
    AddScaled(rows.row(i * rows.n / count).data(), 1, d, basis.column(i));
  }
  for (int64_t round = 0;; ++round) {
    basis.Orthonormalise();
    for (int64_t i = 0; i < count; ++i) {
      std::transform(basis.column(i), basis.column(i) + d,
                     directions.data() + i * d,
                     [](double v) { return static_cast<float>(v); });
    }
    if (round == rounds) return directions;
    basis.Clear();
    for (int64_t r = 0; r < rows.n; ++r) {
      CanonicalDots(rows.row(r), {directions.data(), count, d, d},
                    products.data());
      for (int64_t i = 0; i < count; ++i) {
        AddScaled(rows.row(r).data(), products[static_cast<size_t>(i)], d,
                  basis.column(i));
      }
    }
  }
}

}  // namespace coterie
