// Compiled with AVX2 and FMA: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "index/certified_kernels.h"
#include "index/certified_kernels_256.h"

namespace coterie::internal_certified {
namespace {

struct MultiplyAdd {
  // Pairs in 16 bits (they fit, as |s8| <= 64), then pairs of pairs in 32.
  static __m256i Add(__m256i sum, __m256i u8, __m256i s8) {
    const __m256i pairs = _mm256_maddubs_epi16(u8, s8);
    return _mm256_add_epi32(sum,
                            _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

}  // namespace

int64_t BatchAvx2(const CodeTile& tile, int64_t queries, CodeHit* hits) {
  return Batch256<MultiplyAdd>(tile, queries, hits);
}

int64_t FineAvx2(const CodeTile& tile, int low_bits, CodeHit* hits) {
  return Fine256<MultiplyAdd>(tile, low_bits, hits);
}

int64_t PlaneAvx2(const PlaneTile& tile, int low_bits, CodeHit* hits) {
  return Plane256<MultiplyAdd>(tile, low_bits, hits);
}

}  // namespace coterie::internal_certified
