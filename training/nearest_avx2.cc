// Compiled with AVX2 and FMA enabled: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "training/nearest_kernels.h"
#include "training/nearest_kernels_body.h"
#include "training/row_code_body.h"
#include "training/row_code_kernels.h"

namespace coterie::internal_nearest {
namespace {

struct Avx2 {
  using Reg = __m256;
  using Int = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kRows = 4;
  static constexpr int kRegs = 3;
  static Reg Zero() { return _mm256_setzero_ps(); }
  static Reg Load(const float* p) { return _mm256_loadu_ps(p); }
  static void Store(float* p, Reg v) { _mm256_storeu_ps(p, v); }
  static Reg Broadcast(float v) { return _mm256_set1_ps(v); }
  static Reg Add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  static Reg MultiplyAdd(Reg a, Reg b, Reg sum) {
    return _mm256_fmadd_ps(a, b, sum);
  }
  static Reg Max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  static Reg Min(Reg a, Reg b) { return _mm256_min_ps(a, b); }
  static Int LoadInt(const int32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static void StoreInt(int32_t* p, Int v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
  }
  static Int Indices(int32_t first) {
    return _mm256_add_epi32(_mm256_set1_epi32(first),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Int SelectGreater(Reg a, Reg b, Int yes, Int no) {
    return _mm256_blendv_epi8(
        no, yes, _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GT_OQ)));
  }
};

static_assert(Avx2::kLanes * Avx2::kRegs == kWidthAvx2);

}  // namespace

void NearestAvx2(const NearestTile& tile) { Nearest<Avx2>(tile); }
void ScoresAvx2(const NearestTile& tile) { StoreAll<Avx2>(tile); }

CodedRow CodeRowAvx2(const RowToCode& from, float* y, int8_t* codes) {
  return CodeRow(from, y, codes);
}

}  // namespace coterie::internal_nearest
