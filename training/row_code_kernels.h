// The inner loops that make 8-bit codes of rows (coded_nearest.h). Pure
// functions of what they read; any thread.
//
// Plain declarations only: files compiled for one instruction set include this.

#ifndef COTERIE_TRAINING_ROW_CODE_KERNELS_H_
#define COTERIE_TRAINING_ROW_CODE_KERNELS_H_

#include <stdint.h>

namespace coterie::internal_nearest {

// Dimensions of a register: scratch and offsets are padded to a multiple.
inline constexpr int64_t kCodeLanes = 16;

struct RowToCode {
  const float* row;     // d values
  const float* offset;  // d values, padded with zeros
  float factor;
  int64_t d;  // at most 16,384, so that sums of lanes are exact
  int limit;  // 1 .. 127
};

// y = row * factor - offset, rounded once a component, is near scale * codes.
struct CodedRow {
  float scale;     // 0 for y = 0
  float residual;  // sum of (y - scale code)^2
  float square;    // sum of y^2
  int32_t code_square;
  int32_t code_sum;
};

// Writes d codes of magnitude at most `limit`; `y` is scratch of d values,
// padded. Sums are float32, with errors of less than 2^-12 of them. Rows for
// which the scale would be 2^60 or more, or row * factor overflows, get that
// scale and nothing else.
using CodeRowKernel = CodedRow (*)(const RowToCode& from, float* y,
                                   int8_t* codes);

CodedRow CodeRowSse(const RowToCode& from, float* y, int8_t* codes);
CodedRow CodeRowAvx2(const RowToCode& from, float* y, int8_t* codes);
CodedRow CodeRowAvx512(const RowToCode& from, float* y, int8_t* codes);

}  // namespace coterie::internal_nearest

#endif  // COTERIE_TRAINING_ROW_CODE_KERNELS_H_
