// One column of shard/attribute_columns.h, and what it is made of. Internal to
// that target. Immutable once sealed; any thread.

#ifndef COTERIE_SHARD_ATTRIBUTE_COLUMN_H_
#define COTERIE_SHARD_ATTRIBUTE_COLUMN_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <roaring/roaring.hh>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "api/filter.h"
#include "api/point.h"
#include "index/row_set.h"
#include "shard/attribute_columns.h"

namespace coterie {
namespace internal_attributes {

// A value that more rows have gets a bitmap: below, its headers outweigh it.
inline constexpr size_t kFewRows = 32;

// What a column takes before it has a row, about.
inline constexpr int64_t kColumnBytes = 512;

// How bits of a word are added to a set, or put in where they are not and taken
// out where they are.
struct Add {
  void operator()(uint64_t* word, uint64_t bits) const { *word |= bits; }
};
struct Flip {
  void operator()(uint64_t* word, uint64_t bits) const { *word ^= bits; }
};

// Changes the rows of a bitmap. Dense pieces are taken a word at a time.
template <typename Change>
void ChangeRows(const Roaring& bitmap, Change change, RowSet* rows) {
  const roaring_array_t& pieces = bitmap.roaring.high_low_container;
  for (int32_t i = 0; i < pieces.size; ++i) {
    uint8_t type = pieces.typecodes[i];
    const void* const piece =
        container_unwrap_shared(pieces.containers[i], &type);
    const int64_t first = int64_t{pieces.keys[i]} << 16;
    uint64_t* const out = rows->mutable_words() + first / 64;
    if (type == BITSET_CONTAINER_TYPE_CODE) {
      const uint64_t* const words =
          static_cast<const bitset_container_t*>(piece)->array;
      const int64_t count = std::min<int64_t>(BITSET_CONTAINER_SIZE_IN_WORDS,
                                              rows->word_count() - first / 64);
      for (int64_t w = 0; w < count; ++w) change(&out[w], words[w]);
    } else if (type == RUN_CONTAINER_TYPE_CODE) {
      const auto* const runs = static_cast<const run_container_t*>(piece);
      for (int32_t r = 0; r < runs->n_runs; ++r) {
        const int64_t begin = runs->runs[r].value;
        ForWordsOf(
            begin, begin + runs->runs[r].length + 1,
            [&](int64_t word, uint64_t bits) { change(&out[word], bits); });
      }
    } else {
      const auto* const array = static_cast<const array_container_t*>(piece);
      for (int32_t r = 0; r < array->cardinality; ++r) {
        const uint16_t row = array->array[r];
        change(&out[row / 64], uint64_t{1} << (row % 64));
      }
    }
  }
}

inline void AddRows(const Roaring& bitmap, RowSet* rows) {
  ChangeRows(bitmap, Add(), rows);
}

inline Roaring BitmapOf(absl::Span<const uint32_t> rows) {
  Roaring bitmap;
  bitmap.addMany(rows.size(), rows.data());
  bitmap.runOptimize();
  bitmap.shrinkToFit();
  return bitmap;
}

inline int64_t BytesOf(const Roaring& bitmap) {
  return static_cast<int64_t>(sizeof(Roaring) + bitmap.getSizeInBytes(false));
}

template <typename T>
int64_t BytesOf(const std::vector<T>& v) {
  return static_cast<int64_t>(v.size() * sizeof(T));
}

// The rows of each value of a column; values are numbered in their order.
class Postings {
 public:
  // Of the next value: ascending.
  void Append(absl::Span<const uint32_t> rows) {
    if (rows.size() > kFewRows) {
      many_.emplace_back(static_cast<uint32_t>(ends_.size()), BitmapOf(rows));
    } else {
      few_.insert(few_.end(), rows.begin(), rows.end());
    }
    ends_.push_back(static_cast<uint32_t>(few_.size()));
  }

  void Seal() {
    few_.shrink_to_fit();
    ends_.shrink_to_fit();
    many_.shrink_to_fit();
  }

  // Changes the rows of values [begin, end).
  template <typename Change>
  void ChangeIn(int64_t begin, int64_t end, Change change, RowSet* rows) const {
    if (begin >= end) return;
    uint64_t* const out = rows->mutable_words();
    for (size_t i = Start(begin); i < Start(end); ++i) {
      change(&out[few_[i] / 64], uint64_t{1} << (few_[i] % 64));
    }
    for (auto many = FirstMany(begin); many != many_.end() && many->first < end;
         ++many) {
      ChangeRows(many->second, change, rows);
    }
  }
  void AddTo(int64_t begin, int64_t end, RowSet* rows) const {
    ChangeIn(begin, end, Add(), rows);
  }

  // Calls take(row) for the rows of one value.
  template <typename Take>
  void ForEach(int64_t value, Take take) const {
    for (size_t i = Start(value); i < Start(value + 1); ++i) take(few_[i]);
    const auto many = FirstMany(value);
    if (many == many_.end() || many->first != value) return;
    for (const uint32_t row : many->second) take(row);
  }

  int64_t MemoryBytes() const {
    int64_t bytes = BytesOf(few_) + BytesOf(ends_);
    for (const auto& [value, bitmap] : many_) bytes += 8 + BytesOf(bitmap);
    return bytes;
  }

 private:
  using Many = std::vector<std::pair<uint32_t, Roaring>>;

  size_t Start(int64_t value) const {
    return value == 0 ? 0 : ends_[static_cast<size_t>(value - 1)];
  }
  Many::const_iterator FirstMany(int64_t value) const {
    return std::lower_bound(
        many_.begin(), many_.end(), value,
        [](const auto& many, int64_t v) { return many.first < v; });
  }

  std::vector<uint32_t> few_;   // value after value
  std::vector<uint32_t> ends_;  // by value, in few_
  Many many_;                   // by value, where it has a bitmap
};

// Distinct strings in order, one behind the other: below 4 GiB, as a segment
// has at most some 2^24 rows.
class Dictionary {
 public:
  void Append(absl::string_view text) {
    text_.append(text.data(), text.size());
    ends_.push_back(static_cast<uint32_t>(text_.size()));
  }
  void Seal() {
    text_.shrink_to_fit();
    ends_.shrink_to_fit();
  }

  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  absl::string_view at(int64_t value) const {
    const auto v = static_cast<size_t>(value);
    const size_t begin = v == 0 ? 0 : ends_[v - 1];
    return {text_.data() + begin, ends_[v] - begin};
  }
  // -1 if it is not there.
  int64_t Find(absl::string_view text) const {
    int64_t begin = 0;
    int64_t end = size();
    while (begin < end) {
      const int64_t middle = begin + (end - begin) / 2;
      if (at(middle) < text) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin < size() && at(begin) == text ? begin : -1;
  }
  int64_t MemoryBytes() const {
    return static_cast<int64_t>(text_.size()) + BytesOf(ends_);
  }

 private:
  std::string text_;
  std::vector<uint32_t> ends_;
};

// Numbers; a row has one at most.
template <typename Number>
struct NumberColumn {
  // The rows of all values before one of them. With some of these a range
  // costs what it differs from the nearest, not what it admits.
  struct Prefix {
    int64_t end = 0;
    Roaring rows;
  };

  std::vector<Number> values;  // distinct, ascending
  Postings rows;
  std::vector<Prefix> prefixes;  // ascending, none or from 0 to all

  void AddMatching(Number value, RowSet* out) const {
    const auto at = std::lower_bound(values.begin(), values.end(), value);
    if (at == values.end() || *at != value) return;
    const int64_t i = at - values.begin();
    rows.AddTo(i, i + 1, out);
  }

  void AddWithin(const RangeCondition& range, RowSet* out) const {
    const auto first = std::partition_point(
        values.begin(), values.end(),
        [&](Number value) { return !range.ReachesLower(value); });
    const auto last = std::partition_point(
        first, values.end(),
        [&](Number value) { return range.WithinUpper(value); });
    const int64_t begin = first - values.begin();
    const int64_t end = last - values.begin();
    const Prefix* const low = NearestPrefix(begin);
    const Prefix* const high = NearestPrefix(end);
    if (low == high) return rows.AddTo(begin, end, out);
    RowSet within(out->size());
    ChangeRows(high->rows, Flip(), &within);
    ChangeRows(low->rows, Flip(), &within);
    for (const auto& [at, prefix] : {std::pair(begin, low), {end, high}}) {
      rows.ChangeIn(std::min(at, prefix->end), std::max(at, prefix->end),
                    Flip(), &within);
    }
    out->UnionWith(within);
  }

  int64_t MemoryBytes() const {
    int64_t bytes = BytesOf(values) + rows.MemoryBytes();
    for (const Prefix& prefix : prefixes) bytes += 8 + BytesOf(prefix.rows);
    return bytes;
  }

 private:
  // By the number of values between; null if there is none.
  const Prefix* NearestPrefix(int64_t value) const {
    const auto above = std::partition_point(
        prefixes.begin(), prefixes.end(),
        [value](const Prefix& prefix) { return prefix.end < value; });
    if (above == prefixes.end()) return nullptr;
    if (above == prefixes.begin()) return &*above;
    const Prefix& below = *std::prev(above);
    return value - below.end < above->end - value ? &below : &*above;
  }
};

struct Column {
  Roaring present;
  // Whether there are values; else only rows that have the attribute.
  bool has_values = true;
  Dictionary texts;
  Postings text_rows;
  NumberColumn<int64_t> ints;
  NumberColumn<double> doubles;
  Roaring truths[2];

  void AddMatching(const AttributeValue& value, RowSet* out) const {
    if (const auto* text = std::get_if<std::string>(&value)) {
      const int64_t i = texts.Find(*text);
      if (i >= 0) text_rows.AddTo(i, i + 1, out);
    } else if (const auto* whole = std::get_if<int64_t>(&value)) {
      ints.AddMatching(*whole, out);
    } else if (const auto* truth = std::get_if<bool>(&value)) {
      AddRows(truths[*truth ? 1 : 0], out);
    }
  }

  int64_t MemoryBytes() const {
    return kColumnBytes + BytesOf(present) + texts.MemoryBytes() +
           text_rows.MemoryBytes() + ints.MemoryBytes() +
           doubles.MemoryBytes() + BytesOf(truths[0]) + BytesOf(truths[1]);
  }
};

}  // namespace internal_attributes

struct AttributeColumns::Impl {
  Roaring covered;
  // With more attributes than there is memory for, nothing is known but which
  // rows there are.
  bool opaque = false;
  absl::flat_hash_map<std::string, internal_attributes::Column> columns;
  int64_t memory_bytes = 0;

  RowSet Covered(int64_t size) const {
    RowSet rows(size);
    internal_attributes::AddRows(covered, &rows);
    return rows;
  }
};

}  // namespace coterie

#endif  // COTERIE_SHARD_ATTRIBUTE_COLUMN_H_
