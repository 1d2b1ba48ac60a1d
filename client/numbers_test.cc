#include "client/numbers.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "client/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WithCommas, GroupsByThousands) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(-123456), "-123,456");
  EXPECT_EQ(WithCommas(-1234), "-1,234");
  EXPECT_EQ(WithCommas(std::numeric_limits<int64_t>::min()),
            "-9,223,372,036,854,775,808");
}

TEST(Plural, HasASingular) {
  EXPECT_EQ(Plural(0, "row"), "0 rows");
  EXPECT_EQ(Plural(1, "row"), "1 row");
  EXPECT_EQ(Plural(12345, "row"), "12,345 rows");
}

TEST(HumanBytes, KeepsThreeFigures) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.00 kB");
  EXPECT_EQ(HumanBytes(4000128), "4.00 MB");
  EXPECT_EQ(HumanBytes(999'999), "1.00 MB");
  EXPECT_EQ(HumanBytes(15'030'000'000), "15.0 GB");
  EXPECT_EQ(HumanBytes(150'300'000'000'000), "150 TB");
}

TEST(ClockTime, ShowsHoursOnlyWhenThereAreAny) {
  EXPECT_EQ(ClockTime(absl::Seconds(-3)), "0:00");
  EXPECT_EQ(ClockTime(absl::Seconds(7)), "0:07");
  EXPECT_EQ(ClockTime(absl::Seconds(75)), "1:15");
  EXPECT_EQ(ClockTime(absl::Seconds(4000)), "1:06:40");
  // No overflow.
  EXPECT_EQ(ClockTime(absl::InfiniteDuration()), "100000:00:00");
}

TEST(DistanceText, HidesNoDistance) {
  EXPECT_EQ(DistanceText(0), "0.000000");
  EXPECT_EQ(DistanceText(0.123456789), "0.123457");
  EXPECT_EQ(DistanceText(-8), "-8.000000");
  EXPECT_EQ(DistanceText(1.5e-9), "1.500000e-09");
  EXPECT_EQ(DistanceText(3.2e38), "3.200000e+38");
}

TEST(ParsePointId, TakesAll64Bits) {
  EXPECT_EQ(*ParsePointId("0"), 0U);
  // Above 2^53, where doubles have gaps.
  EXPECT_EQ(*ParsePointId("9007199254740993"), 9007199254740993U);
  EXPECT_EQ(*ParsePointId("18446744073709551615"),
            std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(*ParsePointId("007"), 7U);
}

TEST(ParsePointId, RefusesAllElse) {
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1f",
                           "18446744073709551616", "١", "one"}) {
    const absl::StatusOr<uint64_t> id = ParsePointId(text);
    ASSERT_FALSE(id.ok()) << text;
    EXPECT_THAT(std::string(id.status().message()),
                HasSubstr(std::string("'") + text + "'"));
  }
}

TEST(ParseVector, ReadsCommasSpacesAndBrackets) {
  EXPECT_THAT(*ParseVector("-0.5,2"), ElementsAre(-0.5F, 2));
  EXPECT_THAT(*ParseVector(" [1, 2 ,\t3e-4] "), ElementsAre(1, 2, 3e-4F));
  EXPECT_THAT(*ParseVector("1 2 3"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*ParseVector("-.5"), ElementsAre(-0.5F));
}

TEST(ParseVector, RefusesNamingTheComponent) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"", "component 0 is ''"},         {"[]", "component 0 is ''"},
      {"1,,2", "component 1 is ''"},     {"1,2,", "component 2 is ''"},
      {"1,x", "component 1 is 'x'"},     {"nan", "component 0 is 'nan'"},
      {"1,inf", "component 1 is 'inf'"}, {"1e39", "component 0 is '1e39'"},
      {"1;2", "component 0 is '1;2'"},   {"[1", "component 0 is '[1'"},
      {"0x10,q", "component"},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<std::vector<float>> vector = ParseVector(c.text);
    ASSERT_FALSE(vector.ok()) << c.text;
    EXPECT_THAT(std::string(vector.status().message()), HasSubstr(c.message));
  }
}

TEST(VectorText, IsReadBackBitForBit) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  std::vector<float> vector;
  while (vector.size() < 5000) {
    const auto bits = static_cast<uint32_t>(random());
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isfinite(value)) vector.push_back(value);
  }
  const absl::StatusOr<std::vector<float>> back =
      ParseVector(VectorText(vector));
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->size(), vector.size());
  EXPECT_EQ(std::memcmp(back->data(), vector.data(), vector.size() * 4), 0);
}

TEST(ParseTimeout, NeedsAUnitAndABound) {
  EXPECT_EQ(*ParseTimeout("30s"), absl::Seconds(30));
  EXPECT_EQ(*ParseTimeout("1m30s"), absl::Seconds(90));
  for (const char* text : {"", "30", "0s", "-1s", "inf", "25h", "soon"}) {
    EXPECT_FALSE(ParseTimeout(text).ok()) << text;
  }
}

}  // namespace
}  // namespace coterie
