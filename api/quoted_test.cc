#include "api/quoted.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "api/test_seed.h"

namespace coterie {
namespace {

// The slow model: decode by arithmetic, then ask whether the code point may be
// written so.
bool ModelIsValidUtf8(const std::string& text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto first = static_cast<uint8_t>(text[i]);
    size_t length = 0;
    uint32_t point = 0;
    if (first < 0x80) {
      length = 1;
      point = first;
    } else if ((first & 0xE0) == 0xC0) {
      length = 2;
      point = first & 0x1F;
    } else if ((first & 0xF0) == 0xE0) {
      length = 3;
      point = first & 0x0F;
    } else if ((first & 0xF8) == 0xF0) {
      length = 4;
      point = first & 0x07;
    } else {
      return false;
    }
    if (i + length > text.size()) return false;
    for (size_t j = 1; j < length; ++j) {
      const auto next = static_cast<uint8_t>(text[i + j]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < kLeast[length]) return false;
    if (point > 0x10FFFF) return false;
    if (point >= 0xD800 && point <= 0xDFFF) return false;
    i += length;
  }
  return true;
}

TEST(IsValidUtf8, AgreesWithArithmeticOnEveryShortString) {
  for (uint32_t a = 0; a < 256; ++a) {
    for (uint32_t b = 0; b < 256; ++b) {
      const std::string text = {static_cast<char>(a), static_cast<char>(b)};
      ASSERT_EQ(IsValidUtf8(text), ModelIsValidUtf8(text)) << a << " " << b;
    }
  }
}

TEST(IsValidUtf8, AgreesWithArithmeticOnRandomStrings) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  // Bytes at which some rule turns, so that valid sequences do occur.
  constexpr uint8_t kBytes[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0,
                                0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED,
                                0xEE, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xF8, 0xFF};
  int valid = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string text;
    const size_t length = random() % 7;
    for (size_t i = 0; i < length; ++i) {
      text.push_back(static_cast<char>(kBytes[random() % std::size(kBytes)]));
    }
    ASSERT_EQ(IsValidUtf8(text), ModelIsValidUtf8(text)) << Quoted(text);
    ASSERT_TRUE(ModelIsValidUtf8(ToValidUtf8(text))) << Quoted(text);
    if (IsValidUtf8(text)) {
      ++valid;
      ASSERT_EQ(ToValidUtf8(text), text);
    }
  }
  EXPECT_GT(valid, 1000);
}

TEST(ToValidUtf8, ReplacesOnlyWhatIsBroken) {
  EXPECT_EQ(ToValidUtf8("a\xFFz"), "a?z");
  EXPECT_EQ(ToValidUtf8("\xC3\xA9\xC3"), "\xC3\xA9?");
}

TEST(Quoted, EscapesAndKeepsShortText) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("a\"b\n"), "\"a\\\"b\\n\"");
  EXPECT_EQ(Quoted(std::string("\0", 1)), "\"\\000\"");
  EXPECT_EQ(Quoted("\xC3\xA9"), "\"\\303\\251\"");
}

TEST(Quoted, CutsLongText) {
  const std::string quoted = Quoted(std::string(1 << 20, 'x'));
  EXPECT_EQ(quoted, "\"" + std::string(80, 'x') + "\"... (1048576 bytes)");
  EXPECT_LT(Quoted(std::string(1 << 20, '\xFF')).size(), 400U);
}

}  // namespace
}  // namespace coterie
