// What every x86-64 has: SSE2, no FMA.

#include <emmintrin.h>
#include <stdint.h>

#include "training/nearest_kernels.h"
#include "training/nearest_kernels_body.h"
#include "training/row_code_body.h"
#include "training/row_code_kernels.h"

namespace coterie::internal_nearest {
namespace {

struct Sse {
  using Reg = __m128;
  using Int = __m128i;
  static constexpr int kLanes = 4;
  static constexpr int kRows = 4;
  static constexpr int kRegs = 2;
  static Reg Zero() { return _mm_setzero_ps(); }
  static Reg Load(const float* p) { return _mm_loadu_ps(p); }
  static void Store(float* p, Reg v) { _mm_storeu_ps(p, v); }
  static Reg Broadcast(float v) { return _mm_set1_ps(v); }
  static Reg Add(Reg a, Reg b) { return _mm_add_ps(a, b); }
  static Reg MultiplyAdd(Reg a, Reg b, Reg sum) {
    return _mm_add_ps(_mm_mul_ps(a, b), sum);
  }
  static Reg Max(Reg a, Reg b) { return _mm_max_ps(a, b); }
  static Reg Min(Reg a, Reg b) { return _mm_min_ps(a, b); }
  static Int LoadInt(const int32_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static void StoreInt(int32_t* p, Int v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v);
  }
  static Int Indices(int32_t first) {
    return _mm_add_epi32(_mm_set1_epi32(first), _mm_setr_epi32(0, 1, 2, 3));
  }
  static Int SelectGreater(Reg a, Reg b, Int yes, Int no) {
    const __m128i mask = _mm_castps_si128(_mm_cmpgt_ps(a, b));
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
  }
};

static_assert(Sse::kLanes * Sse::kRegs == kWidthSse);

}  // namespace

void NearestSse(const NearestTile& tile) { Nearest<Sse>(tile); }
void ScoresSse(const NearestTile& tile) { StoreAll<Sse>(tile); }

CodedRow CodeRowSse(const RowToCode& from, float* y, int8_t* codes) {
  return CodeRow(from, y, codes);
}

}  // namespace coterie::internal_nearest
