#include "api/half_floats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace coterie {
namespace {

// The obvious model: sign x significand x 2^exponent, from the field widths.
double Model(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int all_ones = (1 << exponent_bits) - 1;
  const int sign = (bits >> (exponent_bits + fraction_bits)) & 1 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & all_ones;
  const double fraction = std::ldexp(
      static_cast<double>(bits & ((1U << fraction_bits) - 1)), -fraction_bits);
  if (exponent == all_ones) {
    return fraction != 0 ? std::nan("")
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

void ExpectSame(float converted, double model, uint32_t bits) {
  if (std::isnan(model)) {
    ASSERT_TRUE(std::isnan(converted)) << bits;
    return;
  }
  ASSERT_EQ(static_cast<double>(converted), model) << bits;
  ASSERT_EQ(std::signbit(converted), std::signbit(model)) << bits;
}

TEST(Binary16, EveryPatternAgreesWithTheModel) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    ExpectSame(Binary16ToFloat(static_cast<uint16_t>(bits)), Model(bits, 5, 10),
               bits);
  }
}

TEST(Bfloat16, EveryPatternAgreesWithTheModel) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    ExpectSame(Bfloat16ToFloat(static_cast<uint16_t>(bits)), Model(bits, 8, 7),
               bits);
  }
}

TEST(Binary16, ReadsKnownValues) {
  EXPECT_EQ(Binary16ToFloat(0x3C00), 1.0F);
  EXPECT_EQ(Binary16ToFloat(0xC000), -2.0F);
  EXPECT_EQ(Binary16ToFloat(0x7BFF), 65504.0F);
  EXPECT_EQ(Binary16ToFloat(0x0001), 0x1p-24F);
  EXPECT_EQ(Binary16ToFloat(0x03FF), 1023 * 0x1p-24F);
  EXPECT_EQ(Binary16ToFloat(0x0400), 0x1p-14F);
  EXPECT_EQ(Binary16ToFloat(0x3555), 0.333251953125F);
}

TEST(Bfloat16, ReadsKnownValues) {
  EXPECT_EQ(Bfloat16ToFloat(0x3F80), 1.0F);
  EXPECT_EQ(Bfloat16ToFloat(0xC040), -3.0F);
  EXPECT_EQ(Bfloat16ToFloat(0x0001), std::bit_cast<float>(0x00010000U));
}

}  // namespace
}  // namespace coterie
