// Attributes of rows turned on their side: for each attribute which rows have
// which value, so that a filter is answered for all rows at once.
//
// Immutable once built; any thread. A builder belongs to one thread.
//
// A column holds for each distinct value the rows that have it: ascending
// numbers where they are few, a compressed bitmap (Roaring: Lemire et al., SPE
// 2018; the only place that knows CRoaring) where they are many. Strings and
// members of lists share one dictionary, as a match does not tell them apart;
// integers and doubles have a sorted one each, so that a range is a run of
// values and no integer is compared as a double.
//
// Memory is bounded: a part of n rows takes at most kFloorBytes + n *
// kRowBytes, and as much again while it is built. Where that is not enough the
// largest column gives up its values, and keeps which rows have the attribute
// at all; filters that ask for the values then get rows that are possible, to
// be decided by the stored record. So answers stay right, only slower.

#ifndef COTERIE_SHARD_ATTRIBUTE_COLUMNS_H_
#define COTERIE_SHARD_ATTRIBUTE_COLUMNS_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "api/filter.h"
#include "api/point.h"
#include "index/row_set.h"

namespace coterie {

// What a filter makes of some rows.
struct Admission {
  RowSet sure;
  // These, and rows that only their records can decide; none: there are no such
  // rows.
  std::optional<RowSet> possible = {};

  const RowSet& widest() const { return possible ? *possible : sure; }

  // As of sets of rows of which some are in doubt.
  void IntersectWith(const Admission& other);
  void UnionWith(const Admission& other);
  void Subtract(const Admission& other);
  // Without these rows, which are in no doubt.
  void Remove(const RowSet& rows);
  // The row is in no doubt.
  void Set(int64_t row, bool admitted);
};

// The rows, of `size`, that have an id of the condition.
using RowsOfIds = absl::FunctionRef<RowSet(const IdCondition& ids)>;

class AttributeColumns {
 public:
  static constexpr int64_t kFloorBytes = int64_t{1} << 20;
  static constexpr int64_t kRowBytes = 256;

  ~AttributeColumns();
  AttributeColumns(const AttributeColumns&) = delete;
  AttributeColumns& operator=(const AttributeColumns&) = delete;

  // The rows that this tells of, of all below `size`. REQUIRES: these are below
  // `size`, here and in Evaluate.
  RowSet Covered(int64_t size) const;
  int64_t covered() const;

  // Of the rows covered those that the filter admits. O(size x conditions / 64
  // + rows that pass a condition).
  Admission Evaluate(const Filter& filter, int64_t size,
                     RowsOfIds rows_of_ids) const;

  int64_t MemoryBytes() const;

 private:
  friend class AttributeColumnsBuilder;
  struct Impl;
  explicit AttributeColumns(std::unique_ptr<const Impl> impl);
  const std::unique_ptr<const Impl> impl_;
};

class AttributeColumnsBuilder {
 public:
  AttributeColumnsBuilder();
  ~AttributeColumnsBuilder();

  // REQUIRES: 0 <= row < 2^31, each row once; numbers are not NaN. O(bytes of
  // the attributes).
  void Add(int64_t row, const Attributes& attributes);

  // What `columns` say of row r is said of row place(r), and nothing of rows
  // whose place is negative. O(rows x attributes).
  void AddAll(const AttributeColumns& columns,
              absl::FunctionRef<int64_t(int64_t row)> place);

  // To be called once. O(n log n) for n values in all.
  std::shared_ptr<const AttributeColumns> Build();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_ATTRIBUTE_COLUMNS_H_
