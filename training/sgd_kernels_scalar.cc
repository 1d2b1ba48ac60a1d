#include <stdint.h>

#include "training/sgd_kernels.h"

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

void Dots(const double* w, const float* const* rows, int64_t d, double* out) {
  for (int r = 0; r < 4; ++r) out[r] = Dot(w, rows[r], d);
}

void Add(const double* factors, const float* const* rows,
         const float* const* /*next*/, int64_t d, double* sums) {
  for (int64_t j = 0; j < d; ++j) {
    for (int r = 0; r < 4; ++r) {
      sums[j] += factors[r] * static_cast<double>(rows[r][j]);
    }
  }
}

}  // namespace

const Kernels kScalarKernels = {Dots, Add};

}  // namespace coterie::internal_sgd
