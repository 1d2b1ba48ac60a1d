#include "client/rows/side_files.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "client/npy_bytes.h"
#include "client/rows/json_attributes.h"
#include "client/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
absl::StatusOr<std::vector<T>> All(
    absl::StatusOr<std::unique_ptr<SideFile<T>>> file) {
  if (!file.ok()) return file.status();
  std::vector<T> all;
  std::vector<T> some;
  do {
    absl::Status status = (*file)->Read(2, &some);
    if (!status.ok()) return status;
    all.insert(all.end(), some.begin(), some.end());
  } while (!some.empty());
  EXPECT_EQ((*file)->rows(), static_cast<int64_t>(all.size()));
  return all;
}

absl::StatusOr<std::vector<uint64_t>> Ids(const std::string& bytes) {
  return All<uint64_t>(OpenIds(InputFromBytes(bytes, "f")));
}

absl::StatusOr<std::vector<Attributes>> Rows(const std::string& bytes,
                                             bool csv = false) {
  return All<Attributes>(OpenAttributes(InputFromBytes(bytes, "f"), csv, ','));
}

template <typename T>
std::string Refusal(const absl::StatusOr<T>& result) {
  return std::string(result.status().message());
}

TEST(IdFile, ReadsTextAndNpy) {
  EXPECT_THAT(*Ids("5\r\n 0 \n18446744073709551615"),
              ElementsAre(5, 0, 18446744073709551615U));
  EXPECT_THAT(*Ids(NpyWithShape("<u8", "(3,)",
                                BytesOf(std::vector<uint64_t>{7, ~0U, 1}))),
              ElementsAre(7, 4294967295, 1));
  EXPECT_THAT(
      *Ids(NpyWithShape("<i8", "(2, 1)", BytesOf(std::vector<int64_t>{7, 6}))),
      ElementsAre(7, 6));
  EXPECT_TRUE(Ids("")->empty());
}

TEST(IdFile, NamesLineOrRowOfEachFault) {
  EXPECT_THAT(Refusal(Ids("5\n\n6\n")), HasSubstr("f: line 2: "));
  EXPECT_THAT(Refusal(Ids("5\n1e3\n")), HasSubstr("is not a point id"));
  EXPECT_EQ(Refusal(Ids("5\n6\n7\n5\n")),
            "f: line 4: id 5 is that of line 1 already");
  EXPECT_EQ(Refusal(Ids(NpyWithShape("<i8", "(2,)",
                                     BytesOf(std::vector<int64_t>{1, -2})))),
            "f: row 1 is -2; expected an id, 0 or more");
  EXPECT_EQ(Refusal(Ids(NpyWithShape("<u8", "(2,)",
                                     BytesOf(std::vector<uint64_t>{9, 9})))),
            "f: row 1: id 9 is that of row 0 already");
  EXPECT_THAT(Refusal(Ids(NpyWithShape("<f8", "(1,)",
                                       BytesOf(std::vector<double>{1})))),
              HasSubstr("expected '<u8' or '<i8'"));
  EXPECT_THAT(Refusal(Ids(NpyWithShape("<u8", "(1, 2)",
                                       BytesOf(std::vector<uint64_t>{1, 2})))),
              HasSubstr("expected (rows,) or (rows, 1)"));
  EXPECT_THAT(Refusal(Ids(NpyWithShape("<u8", "(1000000000000,)", ""))),
              HasSubstr("0 bytes of data; expected 8000000000000"));
}

TEST(AttributeFile, ReadsJsonLinesOfEveryType) {
  EXPECT_THAT(
      *Rows("{\"s\": \"k\\u00f6nig \\ud83d\\ude00\\n\", \"i\": -17, "
            "\"d\": 0.5, \"e\": 1e3, \"big\": 9223372036854775808, "
            "\"t\": true, \"n\": null, \"l\": [\"a\", \"b\"]}\r\n{ }\n"),
      ElementsAre(Attributes{{"s", std::string("könig 😀\n")},
                             {"i", int64_t{-17}},
                             {"d", 0.5},
                             {"e", 1000.0},
                             {"big", 9223372036854775808.0},
                             {"t", true},
                             {"l", std::vector<std::string>{"a", "b"}}},
                  Attributes{}));
}

TEST(AttributeFile, NamesLineAndByteOfEachFault) {
  EXPECT_EQ(Refusal(Rows("{}\n\n")),
            "f: line 2, byte 1: expected an object: {\"name\": value}");
  for (const auto& [json, why] :
       std::vector<std::pair<std::string, std::string>>{
           {"[]", "byte 1: expected an object"},
           {"{\"a\": {}}", "byte 7: an object; expected a string"},
           {"{\"a\": [1]}", "byte 8: a list may hold only strings"},
           {"{\"a\": 1, \"a\": 2}", "attribute \"a\" twice"},
           {"{\"a\" 1}", "expected : and a value"},
           {"{\"a\": 1 \"b\": 2}", "expected , or }"},
           {"{\"a\": 01}", "expected a value"},
           {"{\"a\": 1.}", "expected a digit behind the point"},
           {"{\"a\": 1e}", "expected a digit of the exponent"},
           {"{\"a\": NaN}", "expected a value"},
           {"{\"a\": nul}", "expected a value"},
           {"{\"a\": 'x'}", "expected a value"},
           {"{\"a\": \"x", "a string does not end"},
           {"{\"a\": \"\\x\"}", "an escape that JSON does not have"},
           {"{\"a\": \"\\ud800\"}", "half of a surrogate pair"},
           {"{\"a\": \"\\udc00\"}", "half of a surrogate pair"},
           {"{\"a\": \"\\u12g4\"}", "expected four hex digits"},
           {"{\"a\": \"caf\xe9\"}", "a string is not UTF-8"},
           {"{\"a\": \"\t\"}", "a control character in a string"},
           {"{\"a\": 1,}", "expected a string"},
           {"{} x", "text behind the object"},
           {"{\"a\": ", "expected a value"}}) {
    EXPECT_THAT(Refusal(Rows(json)), HasSubstr(why)) << json;
  }
  EXPECT_THAT(Refusal(Rows("{}\n{\"a\": \"" + std::string(200'000, 'x'))),
              HasSubstr("f: line 2 is longer than 131072 bytes"));
}

TEST(AttributeFile, ReadsCsvWithTypesOfItsColumns) {
  EXPECT_THAT(
      *Rows("word,rank\nking,1\n\"\",2\n,3\n", true),
      ElementsAre(
          Attributes{{"word", std::string("king")}, {"rank", int64_t{1}}},
          Attributes{{"word", std::string()}, {"rank", int64_t{2}}},
          Attributes{{"rank", int64_t{3}}}));
  EXPECT_EQ(Refusal(Rows("a,b\n1\n", true)),
            "f: line 2: 1 field; the header has 2");
  EXPECT_THAT(Refusal(Rows("a,a\n1,2\n", true)),
              HasSubstr("f: line 1, column 2 is named \"a\"; expected names"));
  EXPECT_THAT(Refusal(Rows("", true)), HasSubstr("expected a header"));
}

// Text of every kind of character that UTF-8 has.
std::string RandomText(std::mt19937_64* random) {
  const std::vector<std::string> alphabet = {
      "a",    "Z",   "\"", "\\", "\n", "\r", std::string(1, '\0'),
      "\x7f", ",",   "é",  "東", "😀",  "{",  "]",
      ":",    "\x01"};
  std::string text;
  for (uint64_t left = (*random)() % 8; left > 0; --left) {
    text += alphabet[(*random)() % alphabet.size()];
  }
  return text;
}

AttributeValue RandomValue(std::mt19937_64* random) {
  switch ((*random)() % 6) {
    case 0:
      return RandomText(random);
    case 1:
      return static_cast<int64_t>((*random)() >> (*random)() % 64);
    case 2: {
      double value = 0;
      const uint64_t bits = (*random)();
      std::memcpy(&value, &bits, sizeof(value));
      return std::isnan(value) ? 3.0 : value;
    }
    case 3:
      return (*random)() % 2 == 0 ? std::numeric_limits<double>::infinity()
                                  : -0.0;
    case 4:
      return (*random)() % 2 == 0;
    default:
      std::vector<std::string> strings((*random)() % 3);
      for (std::string& text : strings) text = RandomText(random);
      return strings;
  }
}

TEST(JsonAttributes, ComeBackAsTheyWere) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    Attributes attributes;
    for (uint64_t left = random() % 5; left > 0; --left) {
      attributes[RandomText(&random)] = RandomValue(&random);
    }
    const std::string json = FormatAttributes(attributes);
    EXPECT_EQ(json.find('\n'), std::string::npos);
    const absl::StatusOr<Attributes> back = ParseAttributes(json);
    ASSERT_TRUE(back.ok()) << back.status() << "\n" << json;
    ASSERT_EQ(*back, attributes) << json;
    // -0 equals 0: compare what is written as well.
    ASSERT_EQ(FormatAttributes(*back), json);
  }
}

}  // namespace
}  // namespace coterie
