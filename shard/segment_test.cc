#include "shard/segment.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "index/distance.h"
#include "index/test_vectors.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

constexpr int64_t kNow = std::numeric_limits<int64_t>::max();

std::vector<float> RowOf(const Segment& segment, int64_t row) {
  const VectorView view = segment.rows(row + 1).row(row);
  return {view.begin(), view.end()};
}

TEST(Segment, KeepsRowsAndTheirNorms) {
  const auto tail = Segment::NewTail({3, Metric::kCosine}, 4);
  tail->Append(7, {1, 2, 3});
  tail->Append(~uint64_t{0}, {0, 0, 0.1f});
  EXPECT_EQ(tail->size(), 2);
  EXPECT_EQ(tail->live(), 2);
  EXPECT_EQ(tail->id(1), ~uint64_t{0});
  EXPECT_EQ(RowOf(*tail, 0), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(tail->squared_norms()[0], 14);
  EXPECT_EQ(tail->squared_norms()[1], CanonicalSquaredNorm({0, 0, 0.1f}));
  EXPECT_EQ(Segment::NewTail({3, Metric::kSquaredL2}, 4)->squared_norms(),
            nullptr);
}

TEST(Segment, TailFindsTheVersionOfEachMoment) {
  const auto tail = Segment::NewTail({1, Metric::kSquaredL2}, 8);
  tail->Append(5, {1});     // row 0, sequence 1
  tail->MarkDeleted(0, 2);  // replaced
  tail->Append(5, {2});     // row 1, sequence 2
  tail->MarkDeleted(1, 3);  // deleted
  tail->Append(6, {9});     // row 2, sequence 4
  tail->Append(5, {3});     // row 3, sequence 5: added again
  EXPECT_EQ(tail->Find(5, 0, 0), -1);
  EXPECT_EQ(tail->Find(5, 1, 1), 0);
  EXPECT_EQ(tail->Find(5, 2, 2), 1);
  EXPECT_EQ(tail->Find(5, 2, 3), -1);
  EXPECT_EQ(tail->Find(5, 3, 4), -1);
  EXPECT_EQ(tail->Find(5, 4, 5), 3);
  EXPECT_EQ(tail->Find(6, 2, 3), -1) << "written after the snapshot";
  EXPECT_EQ(tail->Find(6, 3, 4), 2);
  EXPECT_EQ(tail->Find(8, 4, 5), -1);
}

// The blocks of a tail as the rows that each begins at.
std::vector<int64_t> FirstRows(const CodedBlocks* blocks) {
  std::vector<int64_t> rows;
  if (blocks != nullptr) {
    for (const auto& block : *blocks) rows.push_back(block->first);
  }
  return rows;
}

TEST(Segment, ATailIsCodedInBlocksThatBecomeOne) {
  Random random(TestSeed());
  constexpr int64_t kSmall = TailCodes::kSmall;
  constexpr int64_t kLarge = TailCodes::kLarge;
  const std::vector<float> row = RandomVector(16, random);
  const auto tail =
      Segment::NewTail({16, Metric::kSquaredL2}, kLarge + kSmall + 1);
  EXPECT_EQ(tail->tail_blocks(), nullptr);
  // What a reader has seen stays as it was.
  std::map<int64_t, SegmentView> seen;
  for (int64_t i = 1; i <= kLarge + kSmall + 1; ++i) {
    tail->Append(static_cast<PointId>(i), row);
    if (i % kSmall < 2 || i % kSmall == kSmall - 1) {
      seen.try_emplace(i, tail, 1, tail->attributes()->View());
    }
  }
  using Rows = std::vector<int64_t>;
  const auto at = [&seen](int64_t rows) {
    return FirstRows(seen.at(rows).tail_blocks());
  };
  EXPECT_EQ(at(kSmall - 1), Rows());
  EXPECT_EQ(at(kSmall), Rows{0});
  EXPECT_EQ(at(2 * kSmall - 1), Rows{0});
  EXPECT_EQ(at(kLarge - 1), (Rows{0, kSmall, 2 * kSmall}));
  EXPECT_EQ(at(kLarge), Rows{0});
  EXPECT_EQ(at(kLarge + 1), Rows{0});
  EXPECT_EQ(at(kLarge + kSmall + 1), (Rows{0, kLarge}));
  EXPECT_EQ((*seen.at(kLarge).tail_blocks())[0]->codes.size(), kLarge);
  EXPECT_GE(seen.at(kSmall).MemoryBytes(),
            seen.at(kSmall - 1).MemoryBytes() + kSmall * (16 + 8));
}

TEST(Segment, CodesOfATailAreThoseOfItsRows) {
  Random random(TestSeed());
  constexpr int64_t kRows = TailCodes::kLarge + TailCodes::kSmall;
  for (const int64_t d : {16, 32}) {
    const auto tail = Segment::NewTail({d, Metric::kCosine}, kRows);
    for (int64_t i = 0; i < kRows; ++i) {
      tail->Append(static_cast<PointId>(i), RandomVector(d, random));
    }
    EXPECT_EQ(tail->codes(), nullptr) << "of all rows";
    ASSERT_EQ(tail->tail_blocks()->size(), 2u);
    for (const auto& block : *tail->tail_blocks()) {
      const RowsView rows{tail->rows(kRows).row(block->first).data(),
                          block->codes.size(), d, d};
      const CertifiedCodes expected(Metric::kCosine, rows);
      EXPECT_EQ(block->codes.parts().codes, expected.parts().codes);
      EXPECT_EQ(block->codes.parts().a, expected.parts().a);
      ASSERT_EQ(block->plane != nullptr, d >= TailCodes::kPlaneFrom);
      if (block->plane == nullptr) continue;
      const CertifiedPlane plane(expected, rows);
      EXPECT_EQ(block->plane->lines(), plane.lines());
      EXPECT_EQ(*block->plane->a(rows.n - 1), *plane.a(rows.n - 1));
    }
  }
}

TEST(Segment, TailsThatNobodySearchesAreNotCoded) {
  for (const bool indexed : {false, true}) {
    // Codes do not pay below dimension 16.
    const int64_t dimension = indexed ? 15 : 16;
    const auto tail = Segment::NewTail({dimension, Metric::kSquaredL2},
                                       TailCodes::kSmall, indexed);
    const std::vector<float> row(static_cast<size_t>(dimension));
    for (int64_t i = 0; i < TailCodes::kSmall; ++i) {
      tail->Append(static_cast<PointId>(i), row);
    }
    EXPECT_EQ(tail->tail_blocks(), nullptr);
  }
}

TEST(Segment, SealSortsById) {
  const auto tail = Segment::NewTail({1, Metric::kCosine}, 4);
  tail->Append(~uint64_t{0}, {1});
  tail->Append(9007199254740993, {2});
  tail->Append(0, {3});
  tail->Append(9007199254740992, {4});
  const auto sealed = Segment::Seal({1, Metric::kCosine}, {&tail, 1});
  ASSERT_EQ(sealed->size(), 4);
  EXPECT_TRUE(sealed->sealed());
  const std::vector<PointId> ids(sealed->ids(), sealed->ids() + 4);
  EXPECT_EQ(ids, (std::vector<PointId>{0, 9007199254740992, 9007199254740993,
                                       ~uint64_t{0}}));
  EXPECT_EQ(RowOf(*sealed, 2), std::vector<float>{2});
  EXPECT_EQ(sealed->squared_norms()[2], 4);
  EXPECT_EQ(sealed->Find(9007199254740993, 4, 1), 2);
  EXPECT_EQ(sealed->Find(1, 4, 1), -1);
}

// Rows of 64 dimensions that differ in the first three, but for a little.
std::shared_ptr<Segment> SealFlatRows(Metric metric, int64_t n) {
  Random random(TestSeed());
  const RowShape shape{64, metric};
  const auto tail = Segment::NewTail(shape, n, /*indexed=*/false);
  for (int64_t i = 0; i < n; ++i) {
    std::vector<float> row = RandomVector(64, random);
    for (size_t j = 0; j < 3; ++j) row[j] *= 1000;
    tail->Append(static_cast<PointId>(i), row);
  }
  return Segment::Seal(shape, {&tail, 1});
}

TEST(Segment, HasAHeadInPlaceOfAPlaneWhereRowsLieInFewDirections) {
  const auto flat = SealFlatRows(Metric::kSquaredL2, 17000);
  ASSERT_NE(flat->head(), nullptr);
  EXPECT_EQ(flat->plane(), nullptr);
  EXPECT_LT(flat->head()->directions(), 16);
  EXPECT_GT(flat->MemoryBytes(17000),
            flat->codes()->MemoryBytes() + flat->head()->MemoryBytes());
  const auto few = SealFlatRows(Metric::kSquaredL2, 2000);
  EXPECT_EQ(few->head(), nullptr);
  EXPECT_NE(few->plane(), nullptr);
  const auto products = SealFlatRows(Metric::kInnerProduct, 17000);
  EXPECT_EQ(products->head(), nullptr);
  EXPECT_NE(products->plane(), nullptr);
}

TEST(Segment, SealMergesAndDropsTheDead) {
  const RowShape shape{2, Metric::kSquaredL2};
  std::vector<std::shared_ptr<Segment>> inputs;
  for (PointId first : {PointId{20}, PointId{0}, PointId{10}}) {
    const auto tail = Segment::NewTail(shape, 8);
    for (PointId id = first + 5; id-- > first;) {
      tail->Append(id, {static_cast<float>(id), 0});
    }
    tail->MarkDeleted(tail->Find(first + 1, 5, kNow), 9);
    inputs.push_back(first == 10 ? tail : Segment::Seal(shape, {&tail, 1}));
  }
  const auto merged = Segment::Seal(shape, inputs);
  std::vector<PointId> ids(merged->ids(), merged->ids() + merged->size());
  EXPECT_EQ(ids,
            (std::vector<PointId>{0, 2, 3, 4, 10, 12, 13, 14, 20, 22, 23, 24}));
  for (int64_t row = 0; row < merged->size(); ++row) {
    EXPECT_EQ(RowOf(*merged, row)[0], static_cast<float>(merged->id(row)));
  }
}

TEST(Segment, SealOfNothingAliveIsNull) {
  const auto tail = Segment::NewTail({1, Metric::kSquaredL2}, 2);
  EXPECT_EQ(Segment::Seal({1, Metric::kSquaredL2}, {&tail, 1}), nullptr);
  tail->Append(1, {1});
  tail->MarkDeleted(0, 5);
  EXPECT_EQ(Segment::Seal({1, Metric::kSquaredL2}, {&tail, 1}), nullptr);
}

TEST(Segment, FindsEveryIdOfAFullTail) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  const auto tail = Segment::NewTail({1, Metric::kSquaredL2}, 3000);
  std::map<PointId, int64_t> newest;
  for (int64_t row = 0; row < 3000; ++row) {
    // Few distinct ids with equal low bits: long chains and collisions.
    const PointId id = (random() % 700) << 40;
    const auto old = newest.find(id);
    if (old != newest.end()) tail->MarkDeleted(old->second, row + 1);
    tail->Append(id, {0});
    newest[id] = row;
  }
  for (const auto& [id, row] : newest) {
    ASSERT_EQ(tail->Find(id, 3000, kNow), row) << id;
  }
  EXPECT_EQ(tail->Find(1, 3000, kNow), -1);
}

TEST(SegmentView, ShowsOnlyRowsThatLiveAtItsSequence) {
  const auto tail = Segment::NewTail({1, Metric::kSquaredL2}, 200);
  for (PointId id = 0; id < 130; ++id) tail->Append(id, {0});
  const SegmentView before(tail, 1, tail->attributes()->View());
  EXPECT_EQ(before.Scannable().live, nullptr) << "no bitmap without deletions";
  tail->MarkDeleted(0, 2);
  tail->MarkDeleted(64, 2);
  const SegmentView after(tail, 2, tail->attributes()->View());
  tail->MarkDeleted(129, 3);
  const uint64_t* bits = after.Scannable().live;
  ASSERT_NE(bits, nullptr);
  EXPECT_EQ(bits[0], ~uint64_t{1});
  EXPECT_EQ(bits[1], ~uint64_t{1});
  EXPECT_EQ(bits[2], 3u) << "row 129 is deleted later; no bits beyond the end";
  EXPECT_EQ(after.Find(129), 129);
  EXPECT_EQ(after.Find(64), -1);
  EXPECT_EQ(before.Find(64), 64);
}

// For ThreadSanitizer: the writer appends and deletes while readers look up
// what they know of.
TEST(Segment, ReadersOfAPrefixDoNotMeetTheWriter) {
  constexpr int64_t kRows = 4000;
  const auto tail = Segment::NewTail({4, Metric::kCosine}, kRows);
  std::atomic<int64_t> known{0};
  std::vector<std::thread> readers;
  std::atomic<int64_t> wrong{0};
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      for (int64_t rows = 0; rows < kRows;) {
        rows = known.load(std::memory_order_acquire);
        if (rows == 0) continue;
        // Row r holds id r mod 1000 from sequence r + 1 to r + 1001.
        for (int64_t row = std::max<int64_t>(0, rows - 50); row < rows; ++row) {
          const auto id = static_cast<PointId>(row % 1000);
          const int64_t found = tail->Find(id, rows, rows);
          if (found != row || tail->rows(rows).row(row)[0] != row) ++wrong;
        }
      }
    });
  }
  for (int64_t row = 0; row < kRows; ++row) {
    if (row >= 1000) tail->MarkDeleted(row - 1000, row + 1);
    const auto x = static_cast<float>(row);
    tail->Append(static_cast<PointId>(row % 1000), {x, x, x, x});
    known.store(row + 1, std::memory_order_release);
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace coterie
