#include "api/collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/status_details.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string NameError(absl::string_view name) {
  const absl::Status status = ValidateCollectionName(name, Limits());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "name");
  return std::string(status.message());
}

TEST(CollectionName, TakesLettersDigitsAndInnerPunctuation) {
  for (const std::string& name :
       {std::string("a"), std::string("7"), std::string("Glove-100.v2_final"),
        std::string("a..b"), std::string("x-"), std::string(128, 'n')}) {
    EXPECT_TRUE(ValidateCollectionName(name, Limits()).ok()) << name;
  }
}

TEST(CollectionName, RefusesOddNames) {
  const std::vector<std::string> odd = {"",
                                        ".",
                                        "..",
                                        "a/b",
                                        "/",
                                        "-x",
                                        "_x",
                                        ".x",
                                        " ",
                                        "a b",
                                        "a ",
                                        " a",
                                        "caf\xC3\xA9",
                                        "\xE4\xB8\xAD",
                                        "a\n",
                                        "a\tb",
                                        "a:b",
                                        "a\\b",
                                        "a%2fb",
                                        "\xFF",
                                        "a\x7F",
                                        "a\"b",
                                        std::string("a\0b", 3),
                                        std::string("\0", 1),
                                        std::string(129, 'n')};
  for (const std::string& name : odd) NameError(name);
}

TEST(CollectionName, IsQuotedAndEscapedInTheError) {
  EXPECT_THAT(NameError("a/b"), HasSubstr("\"a/b\""));
  EXPECT_THAT(NameError(std::string("a\0b", 3)), HasSubstr("\"a\\000b\""));
  EXPECT_THAT(NameError("a\nb"), Not(HasSubstr("\n")));
  EXPECT_THAT(NameError("caf\xC3\xA9"), HasSubstr("\"caf\\303\\251\""));
}

TEST(CollectionName, OverTheLimitIsNotRepeatedInFull) {
  const std::string error = NameError(std::string(1 << 20, 'x'));
  EXPECT_THAT(error, HasSubstr("collection_name_bytes of 128"));
  EXPECT_THAT(error, HasSubstr("1048576"));
  EXPECT_LT(error.size(), 300U);
}

TEST(CollectionName, LimitIsTheOneGiven) {
  Limits limits;
  limits.collection_name_bytes = 3;
  EXPECT_TRUE(ValidateCollectionName("abc", limits).ok());
  EXPECT_FALSE(ValidateCollectionName("abcd", limits).ok());
}

TEST(CollectionReference, TakesAnythingOfSaneLength) {
  EXPECT_TRUE(ValidateCollectionReference("no such/name", Limits()).ok());
  const absl::Status empty = ValidateCollectionReference("", Limits());
  EXPECT_EQ(FieldOf(empty), "collection");
  EXPECT_FALSE(
      ValidateCollectionReference(std::string(129, 'x'), Limits()).ok());
}

CollectionSpec Valid() {
  CollectionSpec spec;
  spec.name = "words";
  spec.dimension = 100;
  spec.metric = Metric::kCosine;
  return spec;
}

std::string SpecError(const CollectionSpec& spec, absl::string_view field) {
  const absl::Status status = ValidateCollection(spec, Limits());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), field);
  return std::string(status.message());
}

TEST(Collection, TakesTheBoundsOfEachField) {
  EXPECT_TRUE(ValidateCollection(Valid(), Limits()).ok());
  for (const int32_t dimension : {1, 2, 16384}) {
    CollectionSpec spec = Valid();
    spec.dimension = dimension;
    EXPECT_TRUE(ValidateCollection(spec, Limits()).ok()) << dimension;
  }
  for (const int32_t slots : {1, 1024}) {
    CollectionSpec spec = Valid();
    spec.slots = slots;
    EXPECT_TRUE(ValidateCollection(spec, Limits()).ok()) << slots;
  }
}

TEST(Collection, NamesFieldValueAndLimit) {
  CollectionSpec spec = Valid();
  spec.name = "-x";
  EXPECT_THAT(SpecError(spec, "collection.name"), HasSubstr("\"-x\""));
  for (const int32_t dimension : {0, -1, -2147483647 - 1}) {
    spec = Valid();
    spec.dimension = dimension;
    EXPECT_THAT(SpecError(spec, "collection.dimension"),
                HasSubstr(std::to_string(dimension)));
  }
  spec = Valid();
  spec.dimension = 16385;
  EXPECT_THAT(SpecError(spec, "collection.dimension"),
              HasSubstr("16385 is over the limit dimension of 16384"));
  spec = Valid();
  spec.slots = 0;
  SpecError(spec, "collection.slots");
  spec.slots = 1025;
  EXPECT_THAT(SpecError(spec, "collection.slots"), HasSubstr("slots of 1024"));
  spec = Valid();
  spec.metric = static_cast<Metric>(0);
  SpecError(spec, "collection.metric");
  spec.metric = static_cast<Metric>(4);
  SpecError(spec, "collection.metric");
}

TEST(Catalogue, FindsByWholeName) {
  Catalogue catalogue;
  EXPECT_EQ(catalogue.Find("a"), nullptr);
  for (const char* name : {"a", "ab", "b", "c.d"}) {
    CollectionSpec spec = Valid();
    spec.name = name;
    catalogue.collections.push_back(spec);
  }
  for (const CollectionSpec& spec : catalogue.collections) {
    EXPECT_EQ(catalogue.Find(spec.name), &spec);
  }
  for (const char* name : {"", "A", "aa", "abc", "c", "d", "zz"}) {
    EXPECT_EQ(catalogue.Find(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace coterie
