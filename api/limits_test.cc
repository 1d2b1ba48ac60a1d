#include "api/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

TEST(Limits, DefaultsAreValid) { EXPECT_TRUE(Limits().Validate().ok()); }

TEST(Limits, TableHoldsEveryFieldOnce) {
  const auto table = Limits().Table();
  // All fields are int64_t: one that is missing here shows in the size.
  EXPECT_EQ(table.size() * sizeof(int64_t), sizeof(Limits));
  std::set<std::string> names;
  for (const auto& [name, value] : table) names.insert(name);
  EXPECT_EQ(names.size(), table.size());
  EXPECT_TRUE(names.count("queries_times_k"));
}

TEST(Limits, TableReadsTheValues) {
  Limits limits;
  limits.k = 17;
  limits.message_bytes = 12345;
  const auto table = limits.Table();
  const std::map<std::string, int64_t> by_name(table.begin(), table.end());
  EXPECT_EQ(by_name.at("k"), 17);
  EXPECT_EQ(by_name.at("message_bytes"), 12345);
  EXPECT_EQ(by_name.at("dimension"), 16384);
}

TEST(Limits, RefuseMessageSizesThatWrapIn32Bits) {
  for (const int64_t bad : {int64_t{6442450944}, int64_t{2147483648},
                            int64_t{4294967296}, int64_t{0}, int64_t{-1}}) {
    Limits limits;
    limits.message_bytes = bad;
    const absl::Status status = limits.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("message_bytes"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(bad)));
  }
  Limits limits;
  limits.message_bytes = 2147483647;
  EXPECT_TRUE(limits.Validate().ok());
}

TEST(Limits, RefuseEveryEntryThatIsNotPositiveOrTooLarge) {
  int64_t Limits::*const fields[] = {
      &Limits::dimension,
      &Limits::k,
      &Limits::queries,
      &Limits::queries_times_k,
      &Limits::points_per_upsert,
      &Limits::ids_per_request,
      &Limits::attributes_per_point,
      &Limits::attribute_key_bytes,
      &Limits::attribute_set_bytes,
      &Limits::filter_conditions,
      &Limits::filter_values,
      &Limits::collection_name_bytes,
      &Limits::collections,
      &Limits::slots,
      &Limits::message_bytes,
      &Limits::scan_page_bytes,
  };
  ASSERT_EQ(std::size(fields), Limits().Table().size());
  for (size_t i = 0; i < std::size(fields); ++i) {
    const std::string name = Limits().Table()[i].first;
    for (const int64_t bad :
         {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min(),
          std::numeric_limits<int64_t>::max()}) {
      Limits limits;
      limits.*fields[i] = bad;
      const absl::Status status = limits.Validate();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
      EXPECT_THAT(std::string(status.message()), HasSubstr(name + ": "));
    }
    Limits limits;
    limits.*fields[i] = 1;
    EXPECT_TRUE(limits.Validate().ok()) << name;
  }
}

TEST(Limits, BoundWhatTheProofsAllow) {
  Limits limits;
  limits.dimension = 16385;
  EXPECT_FALSE(limits.Validate().ok());
  limits = Limits();
  limits.slots = 1025;
  EXPECT_FALSE(limits.Validate().ok());
}

}  // namespace
}  // namespace coterie
