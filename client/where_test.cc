#include "client/where.h"

#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Parsed(const std::vector<std::string>& conditions) {
  const auto filter = ParseWhere(conditions);
  EXPECT_TRUE(filter.ok()) << filter.status();
  std::string text;
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  if (filter.ok()) printer.PrintToString(*filter, &text);
  return text;
}

TEST(ParseWhere, TakesValuesForWhatTheyMayMean) {
  EXPECT_EQ(Parsed({"lang=en"}),
            "must { match { attribute: \"lang\" any_of { string_value: \"en\" "
            "} } } ");
  EXPECT_EQ(Parsed({"year=-7,x"}),
            "must { match { attribute: \"year\" any_of { string_value: \"-7\" "
            "} any_of { int_value: -7 } any_of { string_value: \"x\" } } } ");
  EXPECT_THAT(Parsed({"ok=true"}), HasSubstr("bool_value: true"));
  EXPECT_EQ(Parsed({"code=\"7,true\",\"\""}),
            "must { match { attribute: \"code\" any_of { string_value: "
            "\"7,true\" } any_of { string_value: \"\" } } } ");
}

TEST(ParseWhere, TakesRangesAbsenceAndSeveralConditions) {
  EXPECT_EQ(Parsed({"a>=1", "a<2.5"}),
            "must { range { attribute: \"a\" gte: 1 } } must { range { "
            "attribute: \"a\" lt: 2.5 } } ");
  EXPECT_THAT(Parsed({"a>-inf", "a<=9007199254740993"}),
              AllOf(HasSubstr("gt: -inf"), HasSubstr("lte: 9007199254740992")));
  EXPECT_EQ(Parsed({"a!=x", "!b", "c"}),
            "must { has_attribute { attribute: \"c\" } } must_not { match { "
            "attribute: \"a\" any_of { string_value: \"x\" } } } must_not { "
            "has_attribute { attribute: \"b\" } } ");
}

TEST(ParseWhere, SaysWhatIsWrongWithACondition) {
  const auto fault = [](const std::string& condition) {
    return std::string(ParseWhere({condition}).status().message());
  };
  EXPECT_THAT(fault(""), HasSubstr("names no attribute"));
  EXPECT_THAT(fault("=x"), HasSubstr("names no attribute"));
  EXPECT_THAT(fault("a="), HasSubstr("value is missing"));
  EXPECT_THAT(fault("a=b,"), HasSubstr("value is missing"));
  EXPECT_THAT(fault("a=\"b"), HasSubstr("not closed"));
  EXPECT_THAT(fault("a=\"b\"c"), HasSubstr("comma is missing"));
  EXPECT_THAT(fault("a>x"), HasSubstr("\"x\" is not a number"));
  EXPECT_THAT(fault("a<nan"), HasSubstr("is not a number"));
  EXPECT_THAT(fault("!a=b"), HasSubstr("name!=value"));
  EXPECT_THAT(fault("a!b"), AllOf(HasSubstr("'a!b'"), HasSubstr("comes =")));
}

}  // namespace
}  // namespace coterie
