// The kernels of lsh_rotate.h, written once over vectors of 16 floats that the
// compiler maps to the instruction set of the file that includes this.
// Everything is local to that file.

#ifndef COTERIE_INDEX_LSH_ROTATE_KERNELS_H_
#define COTERIE_INDEX_LSH_ROTATE_KERNELS_H_

#include <stdint.h>

#include "index/lsh_rotate.h"

namespace coterie::internal_lsh {
namespace {

typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t IntLanes __attribute__((vector_size(64)));

void Hadamard(Lanes* x, int64_t dims) {
  for (int64_t h = 1; h < dims; h *= 2) {
    for (int64_t i = 0; i < dims; i += 2 * h) {
      for (int64_t j = i; j < i + h; ++j) {
        const Lanes a = x[j];
        const Lanes b = x[j + h];
        x[j] = a + b;
        x[j + h] = a - b;
      }
    }
  }
}

void Rotate(const float* v, int64_t dims, const float* signs, float* out) {
  Lanes* x = reinterpret_cast<Lanes*>(out);
  const Lanes* s = reinterpret_cast<const Lanes*>(signs);
  for (int64_t i = 0; i < dims; ++i) x[i] = s[i] * v[i];
  Hadamard(x, dims);
  for (int64_t round = 1; round < kRounds; ++round) {
    s += dims;
    for (int64_t i = 0; i < dims; ++i) x[i] *= s[i];
    Hadamard(x, dims);
  }
}

void Largest(const float* out, int64_t dims, uint32_t* codes) {
  const Lanes* x = reinterpret_cast<const Lanes*>(out);
  const Lanes zero = {};
  Lanes best = zero - 1.0f;
  IntLanes code = {};
  for (int64_t i = 0; i < dims; ++i) {
    const IntLanes negative = x[i] < zero;  // -1 where true
    const Lanes magnitude = negative ? zero - x[i] : x[i];
    const IntLanes better = magnitude > best;
    best = better ? magnitude : best;
    code = better ? static_cast<int32_t>(2 * i) - negative : code;
  }
  __builtin_memcpy(codes, &code, sizeof(code));
}

int64_t Differ(const uint64_t* a, const uint64_t* b, int64_t words) {
  int64_t differ = 0;
  for (int64_t w = 0; w < words; ++w) {
    differ += __builtin_popcountll(a[w] ^ b[w]);
  }
  return differ;
}

}  // namespace
}  // namespace coterie::internal_lsh

#endif  // COTERIE_INDEX_LSH_ROTATE_KERNELS_H_
