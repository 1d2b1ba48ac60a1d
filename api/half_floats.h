// 16-bit floating point, read exactly. Stateless; any thread.
//
// Both conversions are exact for every one of the 65,536 patterns: float32
// holds all values of either format. Signed zero, subnormals and infinities
// keep their meaning; a NaN stays a NaN. O(1).

#ifndef COTERIE_API_HALF_FLOATS_H_
#define COTERIE_API_HALF_FLOATS_H_

#include <cstdint>

namespace coterie {

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15) and 10 fraction bits.
float Binary16ToFloat(uint16_t bits);

// bfloat16: the upper half of a binary32.
float Bfloat16ToFloat(uint16_t bits);

}  // namespace coterie

#endif  // COTERIE_API_HALF_FLOATS_H_
