#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "api/filter.h"
#include "api/points_convert.h"
#include "api/text_proto_for_test.h"

namespace coterie {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

absl::StatusOr<Filter> Decode(const std::string& text,
                              const Limits& limits = Limits()) {
  return DecodeFilter(FromText<v1::Filter>(text), "filter", limits);
}

TEST(DecodeFilter, EmptyIsEmpty) { EXPECT_TRUE(Decode("")->empty()); }

TEST(DecodeFilter, TakesEveryKindInItsList) {
  const auto filter = Decode(R"(
    must { match { attribute: "m" any_of { bool_value: false }
                   any_of { string_value: "x" } any_of { int_value: 0 }
                   any_of { string_value: "x" } } }
    must { has_attribute { attribute: "h" } }
    should { range { attribute: "r" gt: -inf lte: 0 } }
    must_not { ids { ids: [9, 0, 5, 9] } })");
  ASSERT_TRUE(filter.ok()) << filter.status();
  ASSERT_EQ(filter->must.size(), 2U);
  const auto& match = std::get<MatchCondition>(filter->must[0]);
  EXPECT_EQ(match.attribute, "m");
  EXPECT_EQ(match.any_of,
            (std::vector<AttributeValue>{std::string("x"), int64_t{0}, false}));
  EXPECT_EQ(std::get<HasAttributeCondition>(filter->must[1]).attribute, "h");
  ASSERT_EQ(filter->should.size(), 1U);
  const auto& range = std::get<RangeCondition>(filter->should[0]);
  EXPECT_EQ(range.attribute, "r");
  EXPECT_EQ(range.lower->value, -kInf);
  EXPECT_FALSE(range.lower->inclusive);
  EXPECT_EQ(range.upper->value, 0);
  EXPECT_TRUE(range.upper->inclusive);
  ASSERT_EQ(filter->must_not.size(), 1U);
  EXPECT_EQ(std::get<IdCondition>(filter->must_not[0]).ids,
            (std::vector<PointId>{0, 5, 9}));
}

TEST(DecodeFilter, BoundsOfZeroAreBounds) {
  const auto filter = Decode("must { range { attribute: 'r' gte: 0 lt: 0 } }");
  ASSERT_TRUE(filter.ok());
  const auto& range = std::get<RangeCondition>(filter->must[0]);
  ASSERT_TRUE(range.lower.has_value() && range.upper.has_value());
  EXPECT_TRUE(range.lower->inclusive);
  EXPECT_FALSE(range.upper->inclusive);
  EXPECT_FALSE(Decode("must { range { attribute: 'r' gt: 1 } }")->must.empty());
}

TEST(DecodeFilter, RefusesRangesThatAreNone) {
  ExpectRefused(Decode("must { range { attribute: 'r' } }").status(),
                "filter.must[0].range", {"gte, gt, lte or lt"});
  for (const std::string bound : {"gte", "gt", "lte", "lt"}) {
    ExpectRefused(
        Decode("should { range { attribute: 'r' " + bound + ": nan } }")
            .status(),
        "filter.should[0].range." + bound, {"nan"});
  }
  ExpectRefused(Decode("must { range { gte: 1 } }").status(),
                "filter.must[0].range.attribute", {"empty"});
}

TEST(DecodeFilter, RefusesMatchesThatAreNone) {
  ExpectRefused(Decode("must { match { attribute: 'm' } }").status(),
                "filter.must[0].match.any_of", {"at least one"});
  ExpectRefused(Decode("must { match { any_of { int_value: 1 } } }").status(),
                "filter.must[0].match.attribute", {"empty"});
  const std::string head =
      "must { ids {} } must { match { attribute: 'm' any_of { int_value: 1 } ";
  ExpectRefused(Decode(head + "any_of { double_value: 1 } } }").status(),
                "filter.must[1].match.any_of[1]", {"double"});
  ExpectRefused(Decode(head + "any_of { strings_value {} } } }").status(),
                "filter.must[1].match.any_of[1]", {"list"});
  ExpectRefused(Decode(head + "any_of {} } }").status(),
                "filter.must[1].match.any_of[1]", {"no value"});
}

TEST(DecodeFilter, RefusesConditionsWithoutKind) {
  ExpectRefused(Decode("must {}").status(), "filter.must[0]");
  ExpectRefused(Decode("should {}").status(), "filter.should[0]");
  ExpectRefused(Decode("must_not { ids {} } must_not {}").status(),
                "filter.must_not[1]");
}

TEST(DecodeFilter, RefusesAttributesNoPointCanHave) {
  ExpectRefused(Decode("must { has_attribute {} }").status(),
                "filter.must[0].has_attribute.attribute", {"empty"});
  ExpectRefused(Decode("must { has_attribute { attribute: '" +
                       std::string(129, 'x') + "' } }")
                    .status(),
                "filter.must[0].has_attribute.attribute",
                {"129", "attribute_key_bytes of 128"});
}

TEST(DecodeFilter, EmptyIdListIsAConditionNoPointPasses) {
  const auto filter = Decode("must { ids {} }");
  ASSERT_TRUE(filter.ok());
  EXPECT_FALSE(filter->empty());
  EXPECT_FALSE(Admits(*filter, 0, {}));
}

TEST(DecodeFilter, BoundsAreOfAllListsTogether) {
  Limits limits;
  limits.filter_conditions = 3;
  const std::string three =
      "must { ids {} } should { ids {} } must_not { ids {} } ";
  EXPECT_TRUE(Decode(three, limits).ok());
  for (const std::string list : {"must", "should", "must_not"}) {
    ExpectRefused(Decode(three + list + " { ids {} }", limits).status(),
                  "filter", {"4", "filter_conditions of 3"});
  }
}

TEST(DecodeFilter, BoundsValuesAndIds) {
  Limits limits;
  limits.filter_values = 1;
  limits.ids_per_request = 2;
  ExpectRefused(Decode("must { match { attribute: 'm' any_of { int_value: 1 } "
                       "any_of { int_value: 2 } } }",
                       limits)
                    .status(),
                "filter.must[0].match.any_of", {"2", "filter_values of 1"});
  EXPECT_TRUE(Decode("must { ids { ids: [1, 2] } }", limits).ok());
  ExpectRefused(Decode("must { ids { ids: [1, 1, 1] } }", limits).status(),
                "filter.must[0].ids.ids", {"3", "ids_per_request of 2"});
}

}  // namespace
}  // namespace coterie
