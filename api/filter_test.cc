#include "api/filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/test_seed.h"

namespace coterie {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

bool Passes(const Condition& condition, const Attributes& attributes,
            PointId id = 0) {
  Filter filter;
  filter.must.push_back(condition);
  return Admits(filter, id, attributes);
}

Condition Match(std::vector<AttributeValue> any_of) {
  std::sort(any_of.begin(), any_of.end());
  return MatchCondition{"a", std::move(any_of)};
}

TEST(Filter, EmptyAdmitsEverything) {
  EXPECT_TRUE(Filter().empty());
  EXPECT_TRUE(Admits(Filter(), 0, {}));
  EXPECT_TRUE(Admits(Filter(), 7, {{"a", true}}));
}

// As by looking at each wanted value and each member of a list.
TEST(Match, FindsAmongManyValuesWhatIsThere) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto text = [&] { return absl::StrCat("t", random() % 40); };
  const auto value = [&]() -> AttributeValue {
    switch (random() % 3) {
      case 0:
        return text();
      case 1:
        return static_cast<int64_t>(random() % 40) - 20;
      default:
        return random() % 2 == 0;
    }
  };
  int matched = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<AttributeValue> wanted(1 + random() % 12);
    for (AttributeValue& one : wanted) one = value();
    std::vector<std::string> list(random() % 4);
    for (std::string& one : list) one = text();
    const AttributeValue stored =
        random() % 2 == 0 ? value() : AttributeValue(list);
    bool expected = false;
    for (const AttributeValue& one : wanted) {
      expected |= one == stored;
      if (!std::holds_alternative<std::vector<std::string>>(stored)) continue;
      for (const std::string& member : list) {
        expected |= one == AttributeValue(member);
      }
    }
    ASSERT_EQ(Passes(Match(wanted), {{"a", stored}}), expected) << round;
    matched += expected;
  }
  EXPECT_GT(matched, 500);
  EXPECT_LT(matched, 4500);
}

TEST(Match, WantsTheSameValueOfTheSameType) {
  EXPECT_TRUE(Passes(Match({std::string("x")}), {{"a", std::string("x")}}));
  EXPECT_FALSE(Passes(Match({std::string("x")}), {{"a", std::string("y")}}));
  EXPECT_TRUE(Passes(Match({int64_t{1}}), {{"a", int64_t{1}}}));
  EXPECT_TRUE(Passes(Match({false}), {{"a", false}}));
  EXPECT_FALSE(Passes(Match({false}), {{"a", true}}));
  EXPECT_FALSE(Passes(Match({int64_t{1}}), {{"a", 1.0}}));
  EXPECT_FALSE(Passes(Match({int64_t{1}}), {{"a", true}}));
  EXPECT_FALSE(Passes(Match({int64_t{1}}), {{"a", std::string("1")}}));
  EXPECT_FALSE(Passes(Match({true}), {{"a", int64_t{1}}}));
}

TEST(Match, TakesAnyOfItsValues) {
  const Condition condition =
      Match({int64_t{1}, std::string("x"), true, int64_t{kMax}});
  EXPECT_TRUE(Passes(condition, {{"a", int64_t{kMax}}}));
  EXPECT_TRUE(Passes(condition, {{"a", std::string("x")}}));
  EXPECT_FALSE(Passes(condition, {{"a", int64_t{kMax - 1}}}));
  EXPECT_FALSE(Passes(Match({}), {{"a", int64_t{1}}}));
}

TEST(Match, FindsAStringInAList) {
  const Attributes tags = {{"a", std::vector<std::string>{"red", "", "blue"}}};
  EXPECT_TRUE(Passes(Match({std::string("blue")}), tags));
  EXPECT_TRUE(Passes(Match({std::string()}), tags));
  EXPECT_FALSE(Passes(Match({std::string("re")}), tags));
  EXPECT_FALSE(Passes(Match({int64_t{0}, true}), tags));
  EXPECT_FALSE(
      Passes(Match({std::string("red")}), {{"a", std::vector<std::string>()}}));
}

// long double holds every int64 and every double on x86-64: the model compares
// there, the code never does.
TEST(Range, ComparesIntegersExactly) {
  static_assert(std::numeric_limits<long double>::digits >= 64);
  const int64_t two53 = int64_t{1} << 53;
  std::vector<int64_t> whole = {0,    1,        -1,   2,       -2,
                                kMin, kMin + 1, kMax, kMax - 1};
  std::vector<double> bounds = {0.0,     -0.0,
                                0.5,     -0.5,
                                1,       1.5,
                                -1.5,    kInf,
                                -kInf,   0x1p63,
                                -0x1p63, 1e300,
                                -1e300,  std::numeric_limits<double>::min()};
  for (int64_t i = -3; i <= 3; ++i) {
    whole.push_back(two53 + i);
    whole.push_back(-two53 + i);
    bounds.push_back(static_cast<double>(two53 + i));
    bounds.push_back(static_cast<double>(-two53 + i));
  }
  bounds.push_back(std::nextafter(0x1p63, 0));
  bounds.push_back(std::nextafter(-0x1p63, -kInf));
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) {
    const auto x = static_cast<int64_t>(random()) >> (random() % 64);
    whole.push_back(x);
    bounds.push_back(static_cast<double>(x) +
                     static_cast<double>(random() % 5) / 4 - 0.5);
  }
  for (const int64_t x : whole) {
    for (const double b : bounds) {
      const auto model_x = static_cast<long double>(x);
      const auto model_b = static_cast<long double>(b);
      const Attributes point = {{"a", x}};
      const std::string what = absl::StrCat(x, " and ", b);
      using Bound = RangeCondition::Bound;
      ASSERT_EQ(Passes(RangeCondition{"a", Bound{b, true}, {}}, point),
                model_x >= model_b)
          << what;
      ASSERT_EQ(Passes(RangeCondition{"a", Bound{b, false}, {}}, point),
                model_x > model_b)
          << what;
      ASSERT_EQ(Passes(RangeCondition{"a", {}, Bound{b, true}}, point),
                model_x <= model_b)
          << what;
      ASSERT_EQ(Passes(RangeCondition{"a", {}, Bound{b, false}}, point),
                model_x < model_b)
          << what;
    }
  }
}

TEST(Range, TellsApartNeighboursOf2To53) {
  // As doubles both integers are 2^53.
  const double bound = 9007199254740992.0;
  const RangeCondition above{"a", RangeCondition::Bound{bound, false}, {}};
  EXPECT_FALSE(Passes(above, {{"a", int64_t{9007199254740992}}}));
  EXPECT_TRUE(Passes(above, {{"a", int64_t{9007199254740993}}}));
}

TEST(Range, ComparesDoubles) {
  using Bound = RangeCondition::Bound;
  const RangeCondition range{"a", Bound{-0.5, true}, Bound{2, false}};
  EXPECT_TRUE(Passes(range, {{"a", -0.5}}));
  EXPECT_TRUE(Passes(range, {{"a", 1.999}}));
  EXPECT_FALSE(Passes(range, {{"a", 2.0}}));
  EXPECT_FALSE(Passes(range, {{"a", std::nextafter(-0.5, -1)}}));
  EXPECT_FALSE(Passes(range, {{"a", kInf}}));
  EXPECT_TRUE(
      Passes(RangeCondition{"a", Bound{kInf, true}, {}}, {{"a", kInf}}));
  EXPECT_FALSE(
      Passes(RangeCondition{"a", Bound{kInf, false}, {}}, {{"a", kInf}}));
  EXPECT_TRUE(Passes(RangeCondition{"a", Bound{0.0, true}, {}}, {{"a", -0.0}}));
}

TEST(Range, PassesNumbersOnly) {
  const RangeCondition all{"a", RangeCondition::Bound{-kInf, true}, {}};
  EXPECT_TRUE(Passes(all, {{"a", int64_t{kMin}}}));
  EXPECT_TRUE(Passes(all, {{"a", -1e308}}));
  EXPECT_FALSE(Passes(all, {{"a", std::string("5")}}));
  EXPECT_FALSE(Passes(all, {{"a", true}}));
  EXPECT_FALSE(Passes(all, {{"a", std::vector<std::string>{"5"}}}));
}

TEST(Range, NanAdmitsNothing) {
  const double nan = std::nan("");
  for (const Attributes& point :
       {Attributes{{"a", int64_t{0}}}, Attributes{{"a", 0.0}}}) {
    for (const bool inclusive : {false, true}) {
      const RangeCondition::Bound bound{nan, inclusive};
      EXPECT_FALSE(Passes(RangeCondition{"a", bound, {}}, point));
      EXPECT_FALSE(Passes(RangeCondition{"a", {}, bound}, point));
    }
  }
}

TEST(HasAttribute, TakesAnyTypeAndValue) {
  EXPECT_TRUE(Passes(HasAttributeCondition{"a"}, {{"a", std::string()}}));
  EXPECT_TRUE(Passes(HasAttributeCondition{"a"}, {{"a", false}}));
  EXPECT_TRUE(
      Passes(HasAttributeCondition{"a"}, {{"a", std::vector<std::string>()}}));
  EXPECT_FALSE(Passes(HasAttributeCondition{"a"}, {{"b", true}}));
}

TEST(Ids, AreLookedUp) {
  const IdCondition ids{{0, 5, std::numeric_limits<PointId>::max()}};
  for (const PointId id : ids.ids) EXPECT_TRUE(Passes(ids, {}, id));
  for (const PointId id : {PointId{1}, PointId{4}, PointId{6}}) {
    EXPECT_FALSE(Passes(ids, {}, id));
  }
  EXPECT_FALSE(Passes(IdCondition{}, {}, 0));
}

TEST(Filter, AbsentAttributePassesNoCondition) {
  const std::vector<Condition> conditions = {
      Match({std::string()}), Match({false}),
      RangeCondition{"a", RangeCondition::Bound{-kInf, true}, {}},
      HasAttributeCondition{"a"}};
  for (const Condition& condition : conditions) {
    EXPECT_FALSE(Passes(condition, {{"b", true}}));
    Filter filter;
    filter.must_not.push_back(condition);
    EXPECT_TRUE(Admits(filter, 0, {{"b", true}}));
  }
}

// Conditions are "has k<i>", points are subsets of the keys: the model is the
// sentence in the header.
TEST(Filter, CombinesMustShouldAndMustNot) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  int admitted = 0;
  for (int round = 0; round < 5000; ++round) {
    const auto keys = static_cast<uint32_t>(random() % 64);
    Attributes point;
    for (uint32_t i = 0; i < 6; ++i) {
      if (keys >> i & 1) point[absl::StrCat("k", i)] = true;
    }
    Filter filter;
    bool must = true;
    bool should = false;
    bool must_not = false;
    const auto draw = [&](std::vector<Condition>* list) {
      const auto i = static_cast<uint32_t>(random() % 6);
      list->push_back(HasAttributeCondition{absl::StrCat("k", i)});
      return (keys >> i & 1) != 0;
    };
    for (uint64_t n = random() % 3; n > 0; --n) must &= draw(&filter.must);
    for (uint64_t n = random() % 3; n > 0; --n) should |= draw(&filter.should);
    for (uint64_t n = random() % 3; n > 0; --n) {
      must_not |= draw(&filter.must_not);
    }
    const bool expected =
        must && !must_not && (should || filter.should.empty());
    ASSERT_EQ(Admits(filter, 0, point), expected) << "round " << round;
    admitted += expected;
  }
  EXPECT_GT(admitted, 500);
  EXPECT_LT(admitted, 4500);
}

}  // namespace
}  // namespace coterie
