// The attributes of a segment's rows as they change: what filters ask.
//
// An AttributeIndex belongs to one writer, an AttributeView to any number of
// readers; views must be handed to them with synchronisation, as segments are
// (shard/segment.h). Nobody waits for anybody.
//
// The newest attributes lie row by row; a few hundred of them become columns
// (shard/attribute_columns.h), and columns of like size become one, so that
// each change takes part O(log changes) times (Bentley and Saxe 1980). What was
// set later counts. When changes outnumber the rows twice, all becomes one.

#ifndef COTERIE_SHARD_ATTRIBUTE_INDEX_H_
#define COTERIE_SHARD_ATTRIBUTE_INDEX_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "api/filter.h"
#include "api/point.h"
#include "index/row_set.h"
#include "shard/attribute_columns.h"

namespace coterie {

// The attributes at one moment.
class AttributeView {
 public:
  AttributeView() = default;

  // Which rows below `size` the filter admits, of those whose attributes were
  // set. REQUIRES: no row that was set is `size` or above. As
  // AttributeColumns::Evaluate, for each of O(log rows) parts.
  Admission Evaluate(const Filter& filter, int64_t size, const PointId* ids,
                     RowsOfIds rows_of_ids) const;

  // Rows whose attributes were set. REQUIRES: as Evaluate.
  RowSet Covered(int64_t size) const;

  // Adds what is known of row r as of row places[r], unless that is negative.
  // O(rows x attributes).
  void AddTo(std::vector<int32_t> places,
             AttributeColumnsBuilder* builder) const;

  int64_t MemoryBytes() const;

 private:
  friend class AttributeIndex;

  // Rows set lately: the first `count` are there for good.
  struct Recent {
    struct Entry {
      int64_t row = 0;
      Attributes attributes;
    };
    std::unique_ptr<Entry[]> entries;
  };

  // Later ones count.
  std::vector<std::shared_ptr<const AttributeColumns>> parts_;
  std::shared_ptr<const Recent> recent_;  // they count most
  int64_t recent_count_ = 0;
  int64_t recent_bytes_ = 0;
};

class AttributeIndex {
 public:
  AttributeIndex() = default;
  AttributeIndex(const AttributeIndex&) = delete;
  AttributeIndex& operator=(const AttributeIndex&) = delete;

  // All that is known from now on, of rows below `rows`.
  void Adopt(std::shared_ptr<const AttributeColumns> columns, int64_t rows);

  // The row has these attributes from now on, and no others. REQUIRES: 0 <= row
  // < 2^31. O(bytes x log changes) over many.
  void Set(int64_t row, const Attributes& attributes);

  // As of now; the same object until something changes. Never null.
  std::shared_ptr<const AttributeView> View();

 private:
  // Makes columns of what lies row by row.
  void Fold();
  // Makes one of the parts from the first-th on.
  void Join(size_t first);

  AttributeView now_;
  std::shared_ptr<AttributeView::Recent> recent_;  // now_'s, to write to
  int64_t rows_ = 0;                               // all set are below
  std::shared_ptr<const AttributeView> view_;      // null if now_ has changed
};

}  // namespace coterie

#endif  // COTERIE_SHARD_ATTRIBUTE_INDEX_H_
