#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/points_convert.h"
#include "api/test_seed.h"
#include "api/text_proto_for_test.h"

namespace coterie {
namespace {

absl::StatusOr<std::vector<float>> Decode(const v1::Vector& vector,
                                          const Limits& limits = Limits()) {
  return DecodeVector(vector, "v", limits);
}

v1::Vector Packed(v1::DType dtype, std::string data) {
  v1::Vector vector;
  vector.mutable_packed()->set_dtype(dtype);
  vector.mutable_packed()->set_data(std::move(data));
  return vector;
}

v1::Vector Values(const std::vector<float>& values) {
  v1::Vector vector;
  vector.mutable_values()->mutable_values()->Add(values.begin(), values.end());
  return vector;
}

std::string Bytes16(uint32_t bits) {
  return {static_cast<char>(bits & 0xFF), static_cast<char>(bits >> 8)};
}

// Value of a 16-bit pattern by its definition; NaN or Inf where it has none.
double Meaning(uint32_t bits, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int all_ones = (1 << exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & all_ones;
  const int bias = all_ones / 2;
  const double fraction = bits & ((1U << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == all_ones) {
    return fraction != 0 ? std::nan("")
                         : sign * std::numeric_limits<double>::infinity();
  }
  const double significand =
      exponent == 0 ? fraction : fraction + (1U << fraction_bits);
  return sign * std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias -
                                            fraction_bits);
}

void ExpectEveryPatternDecodes(v1::DType dtype, int fraction_bits) {
  int refused = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto decoded = Decode(Packed(dtype, Bytes16(bits)));
    const double meaning = Meaning(bits, fraction_bits);
    if (!std::isfinite(meaning)) {
      ++refused;
      ASSERT_FALSE(decoded.ok()) << bits;
      continue;
    }
    ASSERT_TRUE(decoded.ok()) << bits << decoded.status();
    ASSERT_EQ(decoded->size(), 1U);
    ASSERT_EQ(static_cast<double>((*decoded)[0]), meaning) << bits;
    ASSERT_TRUE(meaning != 0 || !std::signbit((*decoded)[0])) << bits;
  }
  EXPECT_EQ(refused, 2 << fraction_bits);
}

TEST(DecodeVector, ReadsEveryF16Pattern) {
  ExpectEveryPatternDecodes(v1::F16, 10);
}

TEST(DecodeVector, ReadsEveryBf16Pattern) {
  ExpectEveryPatternDecodes(v1::BF16, 7);
}

TEST(DecodeVector, ReadsEveryI8Pattern) {
  for (int value = -128; value <= 127; ++value) {
    const auto decoded =
        Decode(Packed(v1::I8, std::string(1, static_cast<char>(value))));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, std::vector<float>{static_cast<float>(value)});
  }
}

TEST(DecodeVector, ReadsLittleEndian) {
  EXPECT_EQ(*Decode(Packed(v1::F32, std::string("\0\0\x80\x3F\0\0\0\xC0", 8))),
            (std::vector<float>{1, -2}));
  EXPECT_EQ(*Decode(Packed(v1::F16, std::string("\0\x3C\0\xC0", 4))),
            (std::vector<float>{1, -2}));
  EXPECT_EQ(*Decode(Packed(v1::BF16, std::string("\x80\x3F\0\xC0", 4))),
            (std::vector<float>{1, -2}));
  EXPECT_EQ(*Decode(Packed(v1::I8, "\x01\xFE")), (std::vector<float>{1, -2}));
}

TEST(DecodeVector, ReadableAndPackedMeanTheSame) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> values(1 + random() % 20);
    for (float& x : values) {
      do {
        x = std::bit_cast<float>(static_cast<uint32_t>(random()));
      } while (!std::isfinite(x));
    }
    const auto readable = Decode(Values(values));
    v1::Vector packed;
    EncodeVector(values, &packed);
    EXPECT_EQ(packed.packed().dtype(), v1::F32);
    ASSERT_EQ(packed.packed().data().size(), 4 * values.size());
    const auto compact = Decode(packed);
    ASSERT_TRUE(readable.ok() && compact.ok());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto bits = std::bit_cast<uint32_t>(values[i]);
      ASSERT_EQ(std::bit_cast<uint32_t>((*readable)[i]), bits);
      ASSERT_EQ(std::bit_cast<uint32_t>((*compact)[i]), bits);
    }
  }
}

TEST(DecodeVector, MakesEveryZeroPositive) {
  v1::Vector f32;
  EncodeVector(std::vector<float>{-0.0F, 0.0F, -1.0F}, &f32);
  for (const v1::Vector& vector :
       {Values({-0.0F, 0.0F, -1.0F}), f32,
        Packed(v1::F16, std::string("\0\x80\0\0\0\xBC", 6)),
        Packed(v1::BF16, std::string("\0\x80\0\0\x80\xBF", 6))}) {
    const auto decoded = Decode(vector);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, (std::vector<float>{0, 0, -1}));
    EXPECT_FALSE(std::signbit((*decoded)[0]));
    EXPECT_FALSE(std::signbit((*decoded)[1]));
  }
}

TEST(DecodeVector, KeepsTheExtremes) {
  const std::vector<float> values = {std::numeric_limits<float>::max(),
                                     std::numeric_limits<float>::lowest(),
                                     std::numeric_limits<float>::denorm_min(),
                                     -std::numeric_limits<float>::denorm_min()};
  EXPECT_EQ(*Decode(Values(values)), values);
}

TEST(DecodeVector, NamesTheComponentThatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  ExpectRefused(Decode(Values({1, 2, nan, inf})).status(), "v.values[2]",
                {"nan"});
  ExpectRefused(Decode(Values({inf})).status(), "v.values[0]", {"inf"});
  ExpectRefused(Decode(Values({0, -inf})).status(), "v.values[1]", {"-inf"});
  v1::Vector packed;
  EncodeVector(std::vector<float>{0, nan}, &packed);
  ExpectRefused(Decode(packed).status(), "v.packed[1]", {"nan"});
  ExpectRefused(Decode(Packed(v1::F16, std::string("\0\x7C", 2))).status(),
                "v.packed[0]", {"inf"});
  ExpectRefused(Decode(Packed(v1::BF16, "\x81\xFF")).status(), "v.packed[0]",
                {"nan"});
}

TEST(DecodeVector, RefusesWhatIsNoVector) {
  ExpectRefused(Decode(v1::Vector()).status(), "v", {"not set"});
  ExpectRefused(Decode(FromText<v1::Vector>("values {}")).status(), "v.values",
                {"empty"});
  for (const v1::DType dtype : {v1::F32, v1::F16, v1::BF16, v1::I8}) {
    ExpectRefused(Decode(Packed(dtype, "")).status(), "v.packed", {"empty"});
  }
}

TEST(DecodeVector, RefusesUnknownElementTypes) {
  ExpectRefused(Decode(Packed(v1::DTYPE_UNSPECIFIED, "abcd")).status(),
                "v.packed.dtype", {"0 "});
  ExpectRefused(Decode(Packed(static_cast<v1::DType>(99), "abcd")).status(),
                "v.packed.dtype", {"99"});
  ExpectRefused(Decode(Packed(static_cast<v1::DType>(-1), "abcd")).status(),
                "v.packed.dtype", {"-1"});
}

TEST(DecodeVector, RefusesPartsOfElements) {
  for (const size_t bytes : {1, 2, 3, 5, 7}) {
    ExpectRefused(Decode(Packed(v1::F32, std::string(bytes, 'x'))).status(),
                  "v.packed.data", {absl::StrCat(bytes), "multiple of 4"});
  }
  for (const v1::DType dtype : {v1::F16, v1::BF16}) {
    ExpectRefused(Decode(Packed(dtype, "abc")).status(), "v.packed.data",
                  {"3 bytes", "multiple of 2"});
  }
}

TEST(DecodeVector, BoundsTheDimension) {
  const std::vector<float> most(16384, 1.0F);
  EXPECT_TRUE(Decode(Values(most)).ok());
  const std::vector<float> over(16385, 1.0F);
  ExpectRefused(Decode(Values(over)).status(), "v.values",
                {"16385", "limit dimension of 16384"});
  v1::Vector packed;
  EncodeVector(over, &packed);
  ExpectRefused(Decode(packed).status(), "v.packed",
                {"16385", "limit dimension of 16384"});
  EXPECT_TRUE(Decode(Packed(v1::I8, std::string(16384, 'x'))).ok());
  ExpectRefused(Decode(Packed(v1::I8, std::string(16385, 'x'))).status(),
                "v.packed", {"16385"});
}

}  // namespace
}  // namespace coterie
