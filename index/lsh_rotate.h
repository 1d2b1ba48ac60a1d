// 16 random rotations of one vector at a time, a lane each: the kernels of the
// LSH index, one set per SIMD target. Pure functions; any thread.
//
// Plain declarations only: files compiled for one instruction set include this.
// Every target computes the same bits.

#ifndef COTERIE_INDEX_LSH_ROTATE_H_
#define COTERIE_INDEX_LSH_ROTATE_H_

#include <stdint.h>

namespace coterie::internal_lsh {

inline constexpr int64_t kLanes = 16;
// Rounds of random signs and a Hadamard transform. Three are near to a uniform
// rotation (Andoni et al., NIPS 2015).
inline constexpr int64_t kRounds = 3;

struct RotateKernels {
  // out: dims x 16 floats. Three times, out = H (signs * out), H the Hadamard
  // matrix with entries +-1, from v in each lane. signs: kRounds x dims x 16
  // floats, which carry the scale. dims: a power of two, >= 16. Arrays of
  // lanes are aligned to 64 bytes.
  void (*rotate)(const float* v, int64_t dims, const float* signs, float* out);

  // codes[lane] = 2 * i + (out[i] < 0) for the least i that has the largest
  // |out[i]| of the first `dims`.
  void (*largest)(const float* out, int64_t dims, uint32_t* codes);

  // In how many bits a and b, of `words` words of 64, differ.
  int64_t (*differ)(const uint64_t* a, const uint64_t* b, int64_t words);
};

extern const RotateKernels kRotateScalar;
// REQUIRES, when called: the CPU has the instructions.
extern const RotateKernels kRotateAvx2;
extern const RotateKernels kRotateAvx512;

}  // namespace coterie::internal_lsh

#endif  // COTERIE_INDEX_LSH_ROTATE_H_
