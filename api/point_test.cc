#include "api/point.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace coterie {
namespace {

Attributes Sample() {
  return {{"a", std::string("text")},
          {"b", int64_t{-1}},
          {"c", 2.5},
          {"d", true},
          {"e", std::vector<std::string>{"x", "yz"}}};
}

TEST(AttributeSelector, SelectsNoneByDefault) {
  const AttributeSelector selector;
  EXPECT_TRUE(selector.none());
  EXPECT_TRUE(selector.Select(Sample()).empty());
}

TEST(AttributeSelector, SelectsAll) {
  const AttributeSelector selector{.all = true, .names = {}};
  EXPECT_FALSE(selector.none());
  EXPECT_EQ(selector.Select(Sample()), Sample());
}

TEST(AttributeSelector, SelectsTheNamedWherePresent) {
  const AttributeSelector selector{.all = false,
                                   .names = {"e", "missing", "b", "b", ""}};
  EXPECT_FALSE(selector.none());
  const Attributes expected = {{"b", int64_t{-1}},
                               {"e", std::vector<std::string>{"x", "yz"}}};
  EXPECT_EQ(selector.Select(Sample()), expected);
  EXPECT_TRUE(selector.Select({}).empty());
}

TEST(AttributeBytes, CountsKeysAndValues) {
  EXPECT_EQ(AttributeBytes({}), 0);
  EXPECT_EQ(AttributeBytes({{"key", std::string("text")}}), 3 + 4);
  EXPECT_EQ(AttributeBytes({{"key", int64_t{0}}}), 3 + 8);
  EXPECT_EQ(AttributeBytes({{"key", 0.0}}), 3 + 8);
  EXPECT_EQ(AttributeBytes({{"key", false}}), 3 + 1);
  EXPECT_EQ(AttributeBytes(Sample()), 5 + 4 + 8 + 8 + 1 + (1 + 2) + (2 + 2));
}

TEST(AttributeBytes, EmptyStringsInAListAreNotFree) {
  EXPECT_EQ(AttributeBytes({{"k", std::vector<std::string>(1000)}}), 2001);
}

}  // namespace
}  // namespace coterie
