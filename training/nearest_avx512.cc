// Compiled with AVX-512 F, BW, DQ and VL enabled: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "training/nearest_kernels.h"
#include "training/nearest_kernels_body.h"
#include "training/row_code_body.h"
#include "training/row_code_kernels.h"

namespace coterie::internal_nearest {
namespace {

struct Avx512 {
  using Reg = __m512;
  using Int = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kRows = 8;
  static constexpr int kRegs = 3;
  static Reg Zero() { return _mm512_setzero_ps(); }
  static Reg Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, Reg v) { _mm512_storeu_ps(p, v); }
  static Reg Broadcast(float v) { return _mm512_set1_ps(v); }
  static Reg Add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static Reg MultiplyAdd(Reg a, Reg b, Reg sum) {
    return _mm512_fmadd_ps(a, b, sum);
  }
  static Reg Max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  static Reg Min(Reg a, Reg b) { return _mm512_min_ps(a, b); }
  static Int LoadInt(const int32_t* p) { return _mm512_loadu_si512(p); }
  static void StoreInt(int32_t* p, Int v) { _mm512_storeu_si512(p, v); }
  static Int Indices(int32_t first) {
    return _mm512_add_epi32(_mm512_set1_epi32(first),
                            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                                              11, 12, 13, 14, 15));
  }
  static Int SelectGreater(Reg a, Reg b, Int yes, Int no) {
    return _mm512_mask_mov_epi32(no, _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), yes);
  }
};

static_assert(Avx512::kLanes * Avx512::kRegs == kWidthAvx512);

}  // namespace

void NearestAvx512(const NearestTile& tile) { Nearest<Avx512>(tile); }
void ScoresAvx512(const NearestTile& tile) { StoreAll<Avx512>(tile); }

CodedRow CodeRowAvx512(const RowToCode& from, float* y, int8_t* codes) {
  return CodeRow(from, y, codes);
}

}  // namespace coterie::internal_nearest
