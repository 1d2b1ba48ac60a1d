#include "server/cluster_uuid.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace coterie {
namespace {

TEST(ClusterUuid, OfANameIsTheSameForever) {
  // Stored in data directories: a change here would orphan them.
  EXPECT_EQ(ClusterUuidOf("words"), "65885add-b5b6-8a9d-b10b-0affacac81a4");
}

TEST(ClusterUuid, DifferentNamesAndRandomOnesDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string named = ClusterUuidOf("cluster-" + std::to_string(i));
    const std::string random = NewClusterUuid();
    EXPECT_TRUE(IsClusterUuid(named)) << named;
    EXPECT_TRUE(IsClusterUuid(random)) << random;
    EXPECT_EQ(named[14], '8');
    EXPECT_EQ(random[14], '4');
    seen.insert(named);
    seen.insert(random);
  }
  EXPECT_EQ(seen.size(), 2000u);
}

TEST(ClusterUuid, OtherTextsAreNone) {
  for (const char* text : {"", "words", "01234567-89AB-4def-8123-456789abcdef",
                           "01234567-89ab-4def-8123-456789abcde",
                           "01234567x89ab-4def-8123-456789abcdef",
                           "0123456--89ab-4def-8123-456789abcdef"}) {
    EXPECT_FALSE(IsClusterUuid(text)) << text;
  }
}

}  // namespace
}  // namespace coterie
