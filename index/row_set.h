// A set of rows as a bitmap, the form in which scans, trees and LSH take it
// (ScanRows::live): which rows are live, and which a filter admits.
//
// Plain data: any number of threads may read it, one may change it. Sets that
// meet in an operation have equal sizes. O(size / 64) unless said otherwise.

#ifndef COTERIE_INDEX_ROW_SET_H_
#define COTERIE_INDEX_ROW_SET_H_

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/numeric/bits.h"

namespace coterie {

// Calls take(word, bits) for each word of 64 rows that has some of rows
// [begin, end), with these as bits of it. REQUIRES: 0 <= begin <= end.
template <typename Take>
void ForWordsOf(int64_t begin, int64_t end, Take take) {
  while (begin < end) {
    const int64_t shift = begin % 64;
    const int64_t count = std::min<int64_t>(64 - shift, end - begin);
    take(begin / 64, (~uint64_t{0} >> (64 - count)) << shift);
    begin += count;
  }
}

class RowSet {
 public:
  // No row of `size`. REQUIRES: size >= 0.
  explicit RowSet(int64_t size = 0)
      : size_(size), words_(static_cast<size_t>((size + 63) / 64)) {}

  int64_t size() const { return size_; }
  // Bit i of word i / 64: row i is in the set. Bits from size on are 0.
  const uint64_t* words() const { return words_.data(); }
  uint64_t* mutable_words() { return words_.data(); }
  int64_t word_count() const { return static_cast<int64_t>(words_.size()); }

  // REQUIRES of these three: 0 <= row < size. O(1).
  bool Contains(int64_t row) const {
    return (words_[Word(row)] >> (row % 64) & 1) != 0;
  }
  void Add(int64_t row) { words_[Word(row)] |= Bit(row); }
  void Remove(int64_t row) { words_[Word(row)] &= ~Bit(row); }

  // Rows [begin, end). REQUIRES: 0 <= begin <= end <= size.
  // O((end - begin) / 64).
  void AddRange(int64_t begin, int64_t end) {
    ForWordsOf(begin, end, [this](int64_t word, uint64_t bits) {
      words_[static_cast<size_t>(word)] |= bits;
    });
  }
  void AddAll() { AddRange(0, size_); }

  void UnionWith(const RowSet& other) {
    assert(size_ == other.size_);
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  void IntersectWith(const RowSet& other) { IntersectWith(other.words()); }
  // The same with a bitmap of as many rows; null stands for all rows.
  void IntersectWith(const uint64_t* words) {
    if (words == nullptr) return;
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= words[i];
  }
  void Subtract(const RowSet& other) {
    assert(size_ == other.size_);
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
  }

  bool empty() const {
    for (const uint64_t word : words_) {
      if (word != 0) return false;
    }
    return true;
  }

  int64_t Count() const {
    int64_t count = 0;
    for (const uint64_t word : words_) count += absl::popcount(word);
    return count;
  }

  // Of rows [begin, end). REQUIRES: 0 <= begin <= end <= size; each is a
  // multiple of 64 or the size. O((end - begin) / 64).
  int64_t CountIn(int64_t begin, int64_t end) const {
    int64_t count = 0;
    for (size_t i = Word(begin); i < Word(end + 63); ++i) {
      count += absl::popcount(words_[i]);
    }
    return count;
  }

  // Calls take(row) for each row, ascending. O(size / 64 + rows).
  template <typename Take>
  void ForEach(Take take) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      for (uint64_t rest = words_[i]; rest != 0; rest &= rest - 1) {
        take(static_cast<int64_t>(i) * 64 + absl::countr_zero(rest));
      }
    }
  }

  friend bool operator==(const RowSet&, const RowSet&) = default;

 private:
  static size_t Word(int64_t row) { return static_cast<size_t>(row / 64); }
  static uint64_t Bit(int64_t row) { return uint64_t{1} << (row % 64); }

  int64_t size_;
  std::vector<uint64_t> words_;
};

}  // namespace coterie

#endif  // COTERIE_INDEX_ROW_SET_H_
