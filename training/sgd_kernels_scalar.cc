#include <stdint.h>

#include <cmath>

#include "training/sgd_kernels.h"
#include "training/sgd_math.h"

namespace coterie::internal_sgd {
namespace {

double Dot(const double* w, const float* x, int64_t d) {
  double lane[8] = {};
  for (int64_t j = 0; j < d; ++j) {
    lane[j % 8] += w[j] * static_cast<double>(x[j]);
  }
  for (int i = 0; i < 4; ++i) lane[i] += lane[i + 4];
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

void Dots(const double* w, const float* const* rows,
          const float* const* /*next*/, int count, int64_t d, double* out) {
  for (int r = 0; r < count; ++r) out[r] = Dot(w, rows[r], d);
}

void Add(const double* factors, const float* const* rows, int count, int64_t d,
         double* sums) {
  for (int64_t j = 0; j < d; ++j) {
    for (int r = 0; r < count; ++r) {
      sums[j] += factors[r] * static_cast<double>(rows[r][j]);
    }
  }
}

void Logistic(const double* z, const double* labels, int count, double* factor,
              double* linear, double* growth) {
  for (int i = 0; i < count; ++i) {
    const double y = labels[i] > 0 ? 1.0 : -1.0;
    const double m = y * z[i];
    const double rest = m == m ? SgdExp(-std::abs(m)) : m;
    linear[i] = m < 0 ? -m : 0.0;
    growth[i] = 1 + rest;
    factor[i] = -y * (m < 0 ? 1.0 : rest) / (1 + rest);
  }
}

}  // namespace

const Kernels kScalarKernels = {Dots, Add, Logistic};

}  // namespace coterie::internal_sgd
