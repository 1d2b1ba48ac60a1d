// Compiled with AVX2, FMA and AVX-VNNI: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "index/certified_kernels.h"
#include "index/certified_kernels_256.h"

namespace coterie::internal_certified {
namespace {

struct Vnni {
  static __m256i Add(__m256i sum, __m256i u8, __m256i s8) {
    return _mm256_dpbusd_avx_epi32(sum, u8, s8);
  }
};

}  // namespace

int64_t BatchAvxVnni(const CodeTile& tile, int64_t queries, CodeHit* hits) {
  return Batch256<Vnni>(tile, queries, hits);
}

int64_t FineAvxVnni(const CodeTile& tile, int low_bits, CodeHit* hits) {
  return Fine256<Vnni>(tile, low_bits, hits);
}

int64_t PlaneAvxVnni(const PlaneTile& tile, int low_bits, CodeHit* hits) {
  return Plane256<Vnni>(tile, low_bits, hits);
}

}  // namespace coterie::internal_certified
