#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "shard/attribute_column.h"
#include "shard/attribute_columns.h"

namespace coterie {

using internal_attributes::BitmapOf;
using internal_attributes::BytesOf;
using internal_attributes::Column;
using internal_attributes::kColumnBytes;
using internal_attributes::NumberColumn;

namespace {

// Of a number of a row: as it grows, or with its share of prefixes.
constexpr int64_t kNumberBytes = 32;

// Prefixes of a column of numbers, from so many rows on.
constexpr size_t kPrefixes = 16;
constexpr size_t kPrefixedRows = 4096;

// A column while it grows; rows in any order.
struct GrowingColumn {
  std::vector<uint32_t> present;
  bool has_values = true;
  absl::flat_hash_map<std::string, uint32_t> texts;      // to their numbers
  std::vector<std::pair<uint32_t, uint32_t>> text_rows;  // number, row
  std::vector<std::pair<int64_t, uint32_t>> ints;
  std::vector<std::pair<double, uint32_t>> doubles;
  std::vector<uint32_t> truths[2];
  int64_t value_bytes = 0;

  uint32_t NumberOf(absl::string_view text) {
    const auto found = texts.find(text);
    if (found != texts.end()) return found->second;
    const auto number = static_cast<uint32_t>(texts.size());
    texts.emplace(std::string(text), number);
    value_bytes += static_cast<int64_t>(text.size()) + 64;
    return number;
  }
  void AddText(uint32_t number, uint32_t row) {
    text_rows.emplace_back(number, row);
    value_bytes += 8;
  }
  void AddValue(int64_t value, uint32_t row) {
    ints.emplace_back(value, row);
    value_bytes += kNumberBytes;
  }
  void AddValue(double value, uint32_t row) {
    doubles.emplace_back(value, row);
    value_bytes += kNumberBytes;
  }
  void AddValue(bool value, uint32_t row) {
    truths[value ? 1 : 0].push_back(row);
    value_bytes += 4;
  }
  void AddValue(const std::string& value, uint32_t row) {
    AddText(NumberOf(value), row);
  }
  void AddValue(const std::vector<std::string>& list, uint32_t row) {
    for (const std::string& text : list) AddText(NumberOf(text), row);
  }

  void GiveUpValues() {
    GrowingColumn bare;
    bare.present = std::move(present);
    bare.has_values = false;
    *this = std::move(bare);
  }
};

void SortUnique(std::vector<uint32_t>* rows) {
  if (!std::is_sorted(rows->begin(), rows->end())) {
    std::sort(rows->begin(), rows->end());
  }
  rows->erase(std::unique(rows->begin(), rows->end()), rows->end());
}

Roaring BitmapOfAny(std::vector<uint32_t>* rows) {
  SortUnique(rows);
  return BitmapOf(*rows);
}

// After about as many of the `count` rows each.
template <typename Number>
void AddPrefixes(size_t count, NumberColumn<Number>* column) {
  if (count < kPrefixedRows) return;
  const auto values = static_cast<int64_t>(column->values.size());
  std::vector<uint32_t> rows;
  column->prefixes.emplace_back();
  for (int64_t i = 0; i < values; ++i) {
    column->rows.ForEach(i, [&rows](uint32_t row) { rows.push_back(row); });
    if (rows.size() < count / kPrefixes && i + 1 < values) continue;
    Roaring all = BitmapOfAny(&rows);
    all |= column->prefixes.back().rows;
    all.runOptimize();
    all.shrinkToFit();
    column->prefixes.push_back({i + 1, std::move(all)});
    rows.clear();
  }
}

template <typename Number>
NumberColumn<Number> BuildNumbers(
    std::vector<std::pair<Number, uint32_t>>* pairs) {
  NumberColumn<Number> column;
  std::sort(pairs->begin(), pairs->end());
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < pairs->size(); ++i) {
    rows.push_back((*pairs)[i].second);
    if (i + 1 < pairs->size() && (*pairs)[i + 1].first == (*pairs)[i].first) {
      continue;
    }
    SortUnique(&rows);  // -0 and 0 are one value with two runs
    column.values.push_back((*pairs)[i].first);
    column.rows.Append(rows);
    rows.clear();
  }
  column.values.shrink_to_fit();
  column.rows.Seal();
  AddPrefixes(pairs->size(), &column);
  return column;
}

void BuildTexts(const GrowingColumn& from, Column* column) {
  std::vector<std::pair<absl::string_view, uint32_t>> order;
  order.reserve(from.texts.size());
  for (const auto& [text, number] : from.texts)
    order.emplace_back(text, number);
  std::sort(order.begin(), order.end());
  // Rows by number, where each number's start.
  std::vector<size_t> starts(order.size() + 1);
  for (const auto& [number, row] : from.text_rows) ++starts[number + 1];
  for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  std::vector<uint32_t> rows(from.text_rows.size());
  std::vector<size_t> next(starts.begin(), starts.end() - 1);
  for (const auto& [number, row] : from.text_rows) rows[next[number]++] = row;
  std::vector<uint32_t> of_one;
  for (const auto& [text, number] : order) {
    of_one.assign(
        rows.begin() + static_cast<std::ptrdiff_t>(starts[number]),
        rows.begin() + static_cast<std::ptrdiff_t>(starts[number + 1]));
    SortUnique(&of_one);
    column->texts.Append(text);
    column->text_rows.Append(of_one);
  }
  column->texts.Seal();
  column->text_rows.Seal();
}

Column BuildColumn(GrowingColumn from) {
  Column column;
  column.present = BitmapOfAny(&from.present);
  column.has_values = from.has_values;
  BuildTexts(from, &column);
  column.ints = BuildNumbers(&from.ints);
  column.doubles = BuildNumbers(&from.doubles);
  for (int i = 0; i < 2; ++i) column.truths[i] = BitmapOfAny(&from.truths[i]);
  return column;
}

}  // namespace

struct AttributeColumnsBuilder::Impl {
  std::vector<uint32_t> covered;
  bool opaque = false;
  absl::flat_hash_map<std::string, GrowingColumn> columns;
  int64_t bytes = 0;  // of the columns

  GrowingColumn& ColumnOf(absl::string_view name) {
    const auto found = columns.find(name);
    if (found != columns.end()) return found->second;
    bytes += kColumnBytes;
    return columns[std::string(name)];
  }

  // Adds to a column and to the count.
  template <typename Change>
  void Grow(GrowingColumn* column, Change change) {
    const int64_t before = column->value_bytes;
    change(column);
    bytes += column->value_bytes - before;
  }

  // Gives up what does not fit, the largest first.
  void Fit() {
    const int64_t budget =
        AttributeColumns::kFloorBytes +
        AttributeColumns::kRowBytes * static_cast<int64_t>(covered.size());
    while (bytes > budget && !opaque) {
      const auto largest = std::max_element(
          columns.begin(), columns.end(), [](const auto& a, const auto& b) {
            return a.second.value_bytes < b.second.value_bytes;
          });
      if (largest->second.value_bytes == 0) {
        opaque = true;
        columns.clear();
        bytes = 0;
      } else {
        bytes -= largest->second.value_bytes;
        largest->second.GiveUpValues();
      }
    }
  }

  void AddColumn(const std::string& name, const Column& from,
                 absl::FunctionRef<int64_t(int64_t)> place);
};

AttributeColumnsBuilder::AttributeColumnsBuilder()
    : impl_(std::make_unique<Impl>()) {}

AttributeColumnsBuilder::~AttributeColumnsBuilder() = default;

void AttributeColumnsBuilder::Add(int64_t row, const Attributes& attributes) {
  const auto at = static_cast<uint32_t>(row);
  impl_->covered.push_back(at);
  if (impl_->opaque) return;
  for (const auto& [name, value] : attributes) {
    GrowingColumn& column = impl_->ColumnOf(name);
    column.present.push_back(at);
    impl_->bytes += 4;
    if (!column.has_values) continue;
    impl_->Grow(&column, [&](GrowingColumn* c) {
      std::visit([&](const auto& v) { c->AddValue(v, at); }, value);
    });
  }
  impl_->Fit();
}

void AttributeColumnsBuilder::Impl::AddColumn(
    const std::string& name, const Column& from,
    absl::FunctionRef<int64_t(int64_t)> place) {
  GrowingColumn& to = ColumnOf(name);
  const auto placed = [&](auto take) {
    return [&, take](uint32_t row) {
      const int64_t at = place(row);
      if (at >= 0) take(static_cast<uint32_t>(at));
    };
  };
  const auto present = placed([&](uint32_t row) { to.present.push_back(row); });
  const size_t before = to.present.size();
  for (const uint32_t row : from.present) present(row);
  bytes += 4 * static_cast<int64_t>(to.present.size() - before);
  if (!from.has_values || !to.has_values) {
    bytes -= to.value_bytes;
    to.GiveUpValues();
    return;
  }
  Grow(&to, [&](GrowingColumn*) {
    for (int64_t i = 0; i < from.texts.size(); ++i) {
      std::optional<uint32_t> number;
      from.text_rows.ForEach(i, placed([&](uint32_t row) {
                               if (!number.has_value())
                                 number = to.NumberOf(from.texts.at(i));
                               to.AddText(*number, row);
                             }));
    }
    const auto add_numbers = [&](const auto& numbers) {
      for (size_t i = 0; i < numbers.values.size(); ++i) {
        numbers.rows.ForEach(static_cast<int64_t>(i), placed([&](uint32_t row) {
                               to.AddValue(numbers.values[i], row);
                             }));
      }
    };
    add_numbers(from.ints);
    add_numbers(from.doubles);
    for (const bool truth : {false, true}) {
      const auto add = placed([&](uint32_t row) { to.AddValue(truth, row); });
      for (const uint32_t row : from.truths[truth ? 1 : 0]) add(row);
    }
  });
}

void AttributeColumnsBuilder::AddAll(
    const AttributeColumns& columns,
    absl::FunctionRef<int64_t(int64_t row)> place) {
  for (const uint32_t row : columns.impl_->covered) {
    const int64_t at = place(row);
    if (at >= 0) impl_->covered.push_back(static_cast<uint32_t>(at));
  }
  if (columns.impl_->opaque) {
    impl_->opaque = true;
    impl_->columns.clear();
    impl_->bytes = 0;
  }
  for (const auto& [name, column] : columns.impl_->columns) {
    if (impl_->opaque) return;
    impl_->AddColumn(name, column, place);
    impl_->Fit();
  }
}

std::shared_ptr<const AttributeColumns> AttributeColumnsBuilder::Build() {
  auto built = std::make_unique<AttributeColumns::Impl>();
  built->covered = BitmapOfAny(&impl_->covered);
  built->opaque = impl_->opaque;
  built->memory_bytes = BytesOf(built->covered);
  for (auto& [name, column] : impl_->columns) {
    const auto at =
        built->columns.emplace(name, BuildColumn(std::move(column))).first;
    built->memory_bytes +=
        static_cast<int64_t>(name.size()) + at->second.MemoryBytes();
  }
  impl_->columns.clear();
  return std::shared_ptr<const AttributeColumns>(
      new AttributeColumns(std::move(built)));
}

}  // namespace coterie
