// Which of 64 coded centres each of a few coded rows is nearest to, for a first
// idea of where to look. Pure functions of what they read; any thread.
//
// Plain declarations only: files compiled for one instruction set include this.

#ifndef COTERIE_TRAINING_CODE_LOOK_KERNELS_H_
#define COTERIE_TRAINING_CODE_LOOK_KERNELS_H_

#include <stdint.h>

namespace coterie::internal_nearest {

// As a tile of the certified scan's kernels (index/certified_kernels.h): one
// group of 64 centres, 1 to 6 rows.
struct CodeLook {
  const uint8_t* codes;
  int64_t quads;
  const float* doubled_scales;  // per centre: 2 t
  const float* squares;         // per centre: |z^|^2; +infinity: not to be seen
  int64_t rows;
  const int32_t* row_codes;
  int64_t row_stride;
  const int32_t* starts;        // per row
  const float* inverse_scales;  // per row: 1/s
};

struct CodeLooked {
  int32_t centre;
  int32_t ip;
};

// looked[i] of row i: the centre with the least |y^ - z^|^2, to float32.
using CodeLookKernel = void (*)(const CodeLook& look, CodeLooked* looked);

void CodeLookAvx512Vnni(const CodeLook& look, CodeLooked* looked);

}  // namespace coterie::internal_nearest

#endif  // COTERIE_TRAINING_CODE_LOOK_KERNELS_H_
