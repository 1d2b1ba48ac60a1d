#include "index/row_set.h"

#include <cstdint>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"

namespace coterie {
namespace {

using Model = std::set<int64_t>;

RowSet SetOf(int64_t size, const Model& rows) {
  RowSet set(size);
  for (const int64_t row : rows) set.Add(row);
  return set;
}

Model RowsOf(const RowSet& set) {
  Model rows;
  set.ForEach([&](int64_t row) { rows.insert(row); });
  return rows;
}

TEST(RowSet, AllRowsAreThoseBelowTheSize) {
  for (const int64_t size : {0, 1, 63, 64, 65, 128, 1000}) {
    RowSet set(size);
    EXPECT_EQ(set.Count(), 0);
    EXPECT_TRUE(set.empty());
    set.AddAll();
    EXPECT_EQ(set.empty(), size == 0);
    EXPECT_EQ(set.Count(), size);
    EXPECT_EQ(static_cast<int64_t>(RowsOf(set).size()), size);
  }
}

TEST(RowSet, AgreesWithASetOfNumbers) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 50; ++round) {
    const auto size = static_cast<int64_t>(random() % 300 + 1);
    Model a;
    Model b;
    for (int i = 0; i < 100; ++i) {
      a.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(size)));
      b.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(size)));
    }
    Model both;
    Model either = a;
    Model only;
    for (const int64_t row : a) (b.count(row) > 0 ? both : only).insert(row);
    either.insert(b.begin(), b.end());

    RowSet set = SetOf(size, a);
    EXPECT_EQ(set.Count(), static_cast<int64_t>(a.size()));
    set.IntersectWith(SetOf(size, b));
    EXPECT_EQ(RowsOf(set), both);
    set = SetOf(size, a);
    set.UnionWith(SetOf(size, b));
    EXPECT_EQ(RowsOf(set), either);
    set = SetOf(size, a);
    set.Subtract(SetOf(size, b));
    EXPECT_EQ(RowsOf(set), only);
    set = SetOf(size, a);
    for (const int64_t row : b) set.Remove(row);
    EXPECT_EQ(RowsOf(set), only);
    for (const int64_t row : a) {
      EXPECT_EQ(set.Contains(row), only.count(row) > 0);
    }
  }
}

TEST(RowSet, RangesAreTheirRows) {
  for (const int64_t begin : {0, 1, 63, 64, 100}) {
    for (const int64_t end : {100, 127, 128, 129, 200}) {
      RowSet set(200);
      set.AddRange(begin, end);
      EXPECT_EQ(set.Count(), end - begin);
      for (int64_t row = 0; row < 200; ++row) {
        ASSERT_EQ(set.Contains(row), begin <= row && row < end) << row;
      }
    }
  }
  RowSet set(200);
  set.AddRange(5, 7);
  set.AddRange(64, 200);
  EXPECT_EQ(set.CountIn(0, 64), 2);
  EXPECT_EQ(set.CountIn(64, 200), 136);
  EXPECT_EQ(set.CountIn(128, 128), 0);
}

TEST(RowSet, NoBitmapAdmitsAll) {
  RowSet set(70);
  set.AddAll();
  set.IntersectWith(nullptr);
  EXPECT_EQ(set.Count(), 70);
}

}  // namespace
}  // namespace coterie
