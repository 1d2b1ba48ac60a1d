// The loops of row_code_kernels.h in the compiler's vectors. Included only by
// files compiled for one instruction set: everything here is local to the file
// that includes it.

#ifndef COTERIE_TRAINING_ROW_CODE_BODY_H_
#define COTERIE_TRAINING_ROW_CODE_BODY_H_

#include <stdint.h>
#include <string.h>

#include "training/row_code_kernels.h"

namespace coterie::internal_nearest {
namespace {

using CodeFloats = float __attribute__((vector_size(64)));
using CodeInts = int32_t __attribute__((vector_size(64)));
using CodeBytes = int8_t __attribute__((vector_size(16)));

using FourFloats = float __attribute__((vector_size(16)));
using FourInts = int32_t __attribute__((vector_size(16)));

static_assert(sizeof(CodeFloats) == kCodeLanes * sizeof(float));

// y, and its largest magnitude. Bits of magnitudes are ordered as integers.
inline __attribute__((always_inline)) float ShiftRow(const RowToCode& from,
                                                     float* y) {
  CodeInts most = {};
  int64_t i = 0;
  for (; i < from.d; i += kCodeLanes) {
    CodeFloats x = {};
    CodeFloats offset;
    if (from.d - i >= kCodeLanes) {
      memcpy(&x, from.row + i, sizeof(x));
    } else {
      memcpy(&x, from.row + i, static_cast<size_t>(from.d - i) * sizeof(float));
    }
    memcpy(&offset, from.offset + i, sizeof(offset));
    const CodeFloats v = x * from.factor - offset;
    memcpy(y + i, &v, sizeof(v));
    CodeInts magnitude;
    memcpy(&magnitude, &v, sizeof(v));
    magnitude &= 0x7fffffff;
    most = magnitude > most ? magnitude : most;
  }
  int32_t bits = 0;
  for (int l = 0; l < kCodeLanes; ++l) {
    if (most[l] > bits) bits = most[l];
  }
  float largest;
  memcpy(&largest, &bits, sizeof(largest));
  return largest;
}

// The sum of all lanes, by halves.
template <typename Quarter, typename Vector>
inline __attribute__((always_inline)) auto SumOf(const Vector& v) {
  Quarter quarters[4];
  static_assert(sizeof(quarters) == sizeof(v));
  memcpy(quarters, &v, sizeof(v));
  const Quarter sum = (quarters[0] + quarters[1]) + (quarters[2] + quarters[3]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

inline __attribute__((always_inline)) CodedRow CodeRow(const RowToCode& from,
                                                       float* y,
                                                       int8_t* codes) {
  // Adding it rounds to integers.
  constexpr float kShift = 0x1.8p23f;
  const float limit = static_cast<float>(from.limit);
  CodedRow coded = {ShiftRow(from, y) / limit, 0, 0, 0, 0};
  if (!(coded.scale < 0x1p60f)) return coded;
  if (!(coded.scale > 0x1p-100f)) coded.scale = 0;
  const float inverse = coded.scale > 0 ? 1 / coded.scale : 0;
  CodeFloats residual = {};
  CodeFloats square = {};
  CodeFloats code_square = {};
  CodeInts code_sum = {};
  for (int64_t i = 0; i < from.d; i += kCodeLanes) {
    CodeFloats v;
    memcpy(&v, y + i, sizeof(v));
    CodeFloats c = v * inverse;
    c = c > limit ? CodeFloats{} + limit : c;
    c = c < -limit ? CodeFloats{} - limit : c;
    c = (c + kShift) - kShift;
    const CodeFloats r = v - c * coded.scale;
    residual += r * r;
    square += v * v;
    code_square += c * c;
    const CodeInts whole = __builtin_convertvector(c, CodeInts);
    code_sum += whole;
    const CodeBytes bytes = __builtin_convertvector(whole, CodeBytes);
    const int64_t rest = from.d - i;
    memcpy(codes + i, &bytes,
           static_cast<size_t>(rest < kCodeLanes ? rest : kCodeLanes));
  }
  coded.residual = SumOf<FourFloats>(residual);
  coded.square = SumOf<FourFloats>(square);
  coded.code_square =
      SumOf<FourInts>(__builtin_convertvector(code_square, CodeInts));
  coded.code_sum = SumOf<FourInts>(code_sum);
  return coded;
}

}  // namespace
}  // namespace coterie::internal_nearest

#endif  // COTERIE_TRAINING_ROW_CODE_BODY_H_
