#include "shard/attribute_index.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/attribute_columns.h"
#include "shard/filter_testing.h"

namespace coterie {
namespace {

// What rows have, by the definition.
using Model = std::map<int64_t, Attributes>;

std::vector<PointId> SomeIds(int64_t n, std::mt19937_64& random) {
  std::vector<PointId> ids(static_cast<size_t>(n));
  for (PointId& id : ids) id = random() % 2 == 0 ? random() : random() % 100;
  return ids;
}

RowSet Expected(const Model& model, const std::vector<PointId>& ids,
                const Filter& filter) {
  RowSet rows(static_cast<int64_t>(ids.size()));
  for (const auto& [row, attributes] : model) {
    if (Admits(filter, ids[static_cast<size_t>(row)], attributes)) {
      rows.Add(row);
    }
  }
  return rows;
}

Admission Evaluate(const AttributeView& view, const std::vector<PointId>& ids,
                   const Filter& filter) {
  const auto size = static_cast<int64_t>(ids.size());
  return view.Evaluate(filter, size, ids.data(), [&](const IdCondition& c) {
    RowSet rows(size);
    for (int64_t row = 0; row < size; ++row) {
      for (const PointId id : c.ids) {
        if (ids[static_cast<size_t>(row)] == id) rows.Add(row);
      }
    }
    return rows;
  });
}

void ExpectAgrees(const AttributeView& view, const Model& model,
                  const std::vector<PointId>& ids, std::mt19937_64& random) {
  for (int i = 0; i < 40; ++i) {
    const Filter filter = AnyFilter(ids, random);
    const Admission admission = Evaluate(view, ids, filter);
    EXPECT_FALSE(admission.possible.has_value());
    ASSERT_EQ(admission.sure, Expected(model, ids, filter)) << "filter " << i;
  }
}

TEST(AttributeIndex, AgreesWithTheDefinitionWhileRowsChange) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 4; ++round) {
    const auto n = static_cast<int64_t>(random() % 3000 + 1);
    const std::vector<PointId> ids = SomeIds(n, random);
    AttributeIndex index;
    Model model;
    // As a tail: row after row; then changes of any.
    std::vector<std::pair<std::shared_ptr<const AttributeView>, Model>> held;
    for (int64_t i = 0; i < 3 * n; ++i) {
      const auto row =
          i < n ? i : static_cast<int64_t>(random() % static_cast<uint64_t>(n));
      model[row] = AnyAttributes(random);
      index.Set(row, model[row]);
      if (random() % static_cast<uint64_t>(n) == 0) {
        held.emplace_back(index.View(), model);
      }
    }
    held.emplace_back(index.View(), model);
    // Views stay as they were.
    for (const auto& [view, then] : held) {
      ExpectAgrees(*view, then, ids, random);
    }
  }
}

TEST(AttributeIndex, AgreesWithTheDefinitionAfterAMerge) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 6; ++round) {
    const std::vector<PointId> ids = SomeIds(4000, random);
    // Rows of two segments to those of a third, some left out.
    AttributeColumnsBuilder builder;
    Model merged;
    std::vector<int64_t> free(ids.size());
    for (size_t i = 0; i < free.size(); ++i) free[i] = static_cast<int64_t>(i);
    std::shuffle(free.begin(), free.end(), random);
    for (int input = 0; input < 2; ++input) {
      AttributeIndex index;
      std::vector<int32_t> places(1500, -1);
      Model model;
      for (int i = 0; i < 4000; ++i) {
        const auto row = static_cast<int64_t>(random() % 1500);
        model[row] = AnyAttributes(random);
        index.Set(row, model[row]);
      }
      for (const auto& [row, attributes] : model) {
        if (random() % 4 == 0) continue;
        places[static_cast<size_t>(row)] = static_cast<int32_t>(free.back());
        merged[free.back()] = attributes;
        free.pop_back();
      }
      index.View()->AddTo(places, &builder);
    }
    AttributeIndex index;
    index.Adopt(builder.Build(), static_cast<int64_t>(ids.size()));
    ExpectAgrees(*index.View(), merged, ids, random);
    // And changes on top of it.
    for (int i = 0; i < 1000; ++i) {
      const auto row = static_cast<int64_t>(random() % ids.size());
      merged[row] = AnyAttributes(random);
      index.Set(row, merged[row]);
    }
    ExpectAgrees(*index.View(), merged, ids, random);
  }
}

TEST(AttributeIndex, GivesTheSameViewUntilSomethingChanges) {
  AttributeIndex index;
  const auto before = index.View();
  EXPECT_EQ(index.View(), before);
  index.Set(0, {});
  EXPECT_NE(index.View(), before);
}

// 2^53 + 1 is no double: through one, both would be 2^53.
TEST(AttributeIndex, ComparesIntegersExactly) {
  AttributeIndex index;
  const int64_t large = (int64_t{1} << 53) + 1;
  index.Set(0, {{"n", large}});
  index.Set(1, {{"n", large - 1}});
  Filter filter;
  filter.must.push_back(RangeCondition{"n", {{0x1p53, false}}, {}});
  AttributeColumnsBuilder builder;
  index.View()->AddTo({0, 1}, &builder);
  index.Adopt(builder.Build(), 2);
  const Admission admission = Evaluate(*index.View(), {7, 8}, filter);
  EXPECT_TRUE(admission.sure.Contains(0));
  EXPECT_FALSE(admission.sure.Contains(1));
}

// Long ranges are put together of prefixes; rows are sparse, some values have
// many of them and most have few.
TEST(AttributeColumns, AnswersLongRangesAsTheDefinition) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  std::mt19937_64 random(TestSeed());
  for (const int64_t stride : {1, 37}) {
    constexpr int64_t kRows = 12000;
    AttributeColumnsBuilder builder;
    Model model;
    std::vector<PointId> ids(kRows * static_cast<size_t>(stride));
    for (int64_t i = 0; i < kRows; ++i) {
      const auto draw = static_cast<int64_t>(random() % 1000);
      const int64_t whole = draw < 300 ? 7 : draw < 500 ? draw % 3 : draw;
      Attributes& attributes = model[i * stride];
      attributes["n"] = i % 3 == 0 ? AttributeValue(whole)
                                   : AttributeValue(0.5 * (draw - 500));
      builder.Add(i * stride, attributes);
    }
    const auto columns = builder.Build();
    EXPECT_LE(columns->MemoryBytes(), AttributeColumns::kFloorBytes +
                                          kRows * AttributeColumns::kRowBytes);
    for (int i = 0; i < 60; ++i) {
      const auto bound = [&random]() -> std::optional<RangeCondition::Bound> {
        if (random() % 6 == 0) return std::nullopt;
        return RangeCondition::Bound{
            static_cast<double>(random() % 2600) / 2 - 280, random() % 2 == 0};
      };
      Filter filter;
      filter.must.push_back(RangeCondition{"n", bound(), bound()});
      const auto size = static_cast<int64_t>(ids.size());
      const Admission admission = columns->Evaluate(
          filter, size, [&](const IdCondition&) { return RowSet(size); });
      ASSERT_EQ(admission.sure, Expected(model, ids, filter)) << i;
    }
  }
}

TEST(AttributeColumns, GivesUpTheLargestColumnWithinItsBudget) {
  AttributeColumnsBuilder builder;
  constexpr int64_t kRows = 2000;
  for (int64_t row = 0; row < kRows; ++row) {
    builder.Add(row, {{"text", std::string(2000, 'x') + absl::StrCat(row)},
                      {"n", row % 10}});
  }
  const auto columns = builder.Build();
  EXPECT_LE(columns->MemoryBytes(), AttributeColumns::kFloorBytes +
                                        kRows * AttributeColumns::kRowBytes);
  const auto none = [](const IdCondition&) { return RowSet(kRows); };
  Filter by_number;
  by_number.must.push_back(MatchCondition{"n", {int64_t{3}}});
  const Admission numbers = columns->Evaluate(by_number, kRows, none);
  EXPECT_EQ(numbers.sure.Count(), kRows / 10);
  EXPECT_FALSE(numbers.possible.has_value());
  // Rows that the text may still be at; with the number, a tenth of them.
  Filter by_text = by_number;
  by_text.must.push_back(MatchCondition{"text", {std::string("x")}});
  const Admission texts = columns->Evaluate(by_text, kRows, none);
  EXPECT_EQ(texts.sure.Count(), 0);
  ASSERT_TRUE(texts.possible.has_value());
  EXPECT_EQ(texts.possible->Count(), kRows / 10);
  // That it is there at all is known.
  Filter has;
  has.must.push_back(HasAttributeCondition{"text"});
  EXPECT_EQ(columns->Evaluate(has, kRows, none).sure.Count(), kRows);
  Filter has_not;
  has_not.must_not = by_text.must;
  const Admission rest = columns->Evaluate(has_not, kRows, none);
  EXPECT_EQ(rest.sure.Count(), 0);
  EXPECT_EQ(rest.possible->Count(), kRows - kRows / 10);
}

// As many names as points: nothing but the rows is kept.
TEST(AttributeColumns, LeavesAllInDoubtUnderTooManyNames) {
  AttributeColumnsBuilder builder;
  for (int64_t row = 0; row < 4000; ++row) {
    builder.Add(row, {{absl::StrCat("a", row), true},
                      {absl::StrCat("b", row), true},
                      {"n", row}});
  }
  const auto columns = builder.Build();
  EXPECT_LE(columns->MemoryBytes(), AttributeColumns::kFloorBytes);
  Filter filter;
  filter.must.push_back(HasAttributeCondition{"n"});
  const Admission admission = columns->Evaluate(
      filter, 4000, [](const IdCondition&) { return RowSet(4000); });
  EXPECT_EQ(admission.sure.Count(), 0);
  ASSERT_TRUE(admission.possible.has_value());
  EXPECT_EQ(admission.possible->Count(), 4000);
}

}  // namespace
}  // namespace coterie
