#include "shard/request_table.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

TEST(RequestTable, ARepeatAndAnythingBeforeItIsApplied) {
  RequestTable table;
  EXPECT_FALSE(table.Applied(0, {"a", 0}));
  table.Note(0, {"a", 5}, 1);
  EXPECT_TRUE(table.Applied(0, {"a", 5}));
  EXPECT_TRUE(table.Applied(0, {"a", 4}));
  EXPECT_FALSE(table.Applied(0, {"a", 6}));
  EXPECT_FALSE(table.Applied(0, {"b", 5})) << "another client";
  EXPECT_FALSE(table.Applied(1, {"a", 5})) << "another slot";
}

TEST(RequestTable, TheClientThatWroteLongestAgoMakesRoom) {
  RequestTable table;
  int64_t offset = 0;
  for (size_t i = 0; i < RequestTable::kClientsPerSlot; ++i) {
    EXPECT_EQ(table.Note(3, {absl::StrCat("c", i), 1}, ++offset), std::nullopt);
  }
  EXPECT_EQ(table.Note(3, {"c0", 2}, ++offset), std::nullopt);
  EXPECT_EQ(table.Note(3, {"new", 1}, ++offset), "c1");
  EXPECT_FALSE(table.Applied(3, {"c1", 1}));
  EXPECT_TRUE(table.Applied(3, {"c0", 2}));
}

// Against a list of all that was noted.
TEST(RequestTable, RemembersTheLastClientsOfEachSlot) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  RequestTable table;
  std::map<std::string, AppliedRequest> model;
  for (int64_t offset = 1; offset < 3000; ++offset) {
    const RequestId request{absl::StrCat("client", random() % 90),
                            static_cast<int64_t>(random() % 50)};
    const auto known = model.find(request.client_id);
    const bool applied =
        known != model.end() && known->second.sequence >= request.sequence;
    ASSERT_EQ(table.Applied(7, request), applied);
    if (applied) continue;
    const std::optional<std::string> gone = table.Note(7, request, offset);
    model[request.client_id] = {request.sequence, offset};
    ASSERT_EQ(gone.has_value(), model.size() > RequestTable::kClientsPerSlot);
    if (gone.has_value()) {
      for (const auto& [client, last] : model) {
        ASSERT_GE(last.offset, model.at(*gone).offset);
      }
      model.erase(*gone);
    }
  }
}

}  // namespace
}  // namespace coterie
