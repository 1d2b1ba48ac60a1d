// A shard's filtered search behind C functions, for bench/filtered/filtered.py:
// rows with attributes are sealed, filtered and searched as a shard does it,
// without disk and gRPC.
//
// An object belongs to one caller at a time.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/filter.h"
#include "api/limits.h"
#include "api/search.h"
#include "shard/collection_state.h"
#include "shard/filtered_rows.h"
#include "shard/reply_budget.h"
#include "shard/snapshot_search.h"
#include "shard/work_queue.h"

namespace coterie {
namespace {

// As matches name them: one list of texts a row, and a number.
Attributes AttributesOf(int32_t thousandth) {
  std::vector<std::string> tags;
  for (const int32_t below : {1, 10, 100, 500}) {
    if (thousandth < below) tags.push_back(absl::StrCat("below", below));
  }
  return {{"thousandth", int64_t{thousandth}}, {"tags", std::move(tags)}};
}

class Collection {
 public:
  Collection(RowsView rows, const int32_t* thousandths) {
    CollectionSpec spec;
    spec.name = "bench";
    spec.number = 1;
    spec.dimension = static_cast<int32_t>(rows.d);
    spec.metric = Metric::kSquaredL2;
    spec.slots = 1;
    spec.owner = {0};
    CollectionState state(spec, 0, SegmentTuning());
    state.StartLoad(rows.n);
    for (int64_t i = 0; i < rows.n; ++i) {
      state.Load(static_cast<PointId>(i), rows.row(i));
    }
    state.FinishLoad();
    for (int64_t i = 0; i < rows.n; ++i) {
      state.LoadAttributes(static_cast<PointId>(i),
                           AttributesOf(thousandths[i]));
    }
    state.FinishLoadAttributes();
    snapshot_ = state.Publish(1);
  }

  const CollectionSnapshot& snapshot() const { return *snapshot_; }

  absl::StatusOr<ShardSearchReply> Search(const SearchRequest& request) {
    std::optional<FilteredRows> filtered;
    if (!request.filter.empty()) {
      auto rows =
          FilterRows(*snapshot_, request.filter, CallContext(),
                     [](absl::Span<const PointId>)
                         -> absl::StatusOr<std::vector<Attributes>> {
                       return absl::InternalError("there are no records here");
                     });
      if (!rows.ok()) return rows.status();
      filtered = *std::move(rows);
    }
    ReplyBudget budget(int64_t{1} << 40);
    Limits limits;
    return SearchSnapshot(*snapshot_, request, limits, CallContext(), &budget,
                          &queue_, filtered.has_value() ? &*filtered : nullptr);
  }

 private:
  std::shared_ptr<const CollectionSnapshot> snapshot_;
  WorkQueue queue_{1, 16};
};

}  // namespace
}  // namespace coterie

extern "C" {

// rows: n x d, copied; row i gets id i and thousandths[i], in 0..999.
void* filtered_open(int64_t n, int64_t d, const float* rows,
                    const int32_t* thousandths) {
  return new coterie::Collection({rows, n, d, d}, thousandths);
}

void filtered_close(void* collection) {
  delete static_cast<coterie::Collection*>(collection);
}

int64_t filtered_attribute_bytes(void* collection) {
  int64_t bytes = 0;
  for (const auto& view :
       static_cast<coterie::Collection*>(collection)->snapshot().segments()) {
    bytes += view->attributes()->MemoryBytes();
  }
  return bytes;
}

// One thread. Rows with thousandth < below, by a range (kind 1) or by a tag (2;
// below is 1, 10, 100 or 500); kind 0: all rows. Fills ids, n x k, short lists
// with ~0. False after printing what is wrong.
bool filtered_search(void* collection, int64_t n, int64_t d,
                     const float* queries, int64_t k, int32_t kind,
                     int32_t below, uint64_t* ids) {
  using namespace coterie;
  SearchRequest request;
  request.collection = "bench";
  request.k = k;
  for (int64_t i = 0; i < n; ++i) {
    request.queries.emplace_back(
        std::vector<float>(queries + i * d, queries + (i + 1) * d));
  }
  if (kind == 1) {
    request.filter.must.push_back(RangeCondition{
        "thousandth", {}, {{static_cast<double>(below), false}}});
  } else if (kind == 2) {
    request.filter.must.push_back(
        MatchCondition{"tags", {absl::StrCat("below", below)}});
  }
  const auto reply = static_cast<Collection*>(collection)->Search(request);
  if (!reply.ok()) {
    std::fprintf(stderr, "%s\n", reply.status().ToString().c_str());
    return false;
  }
  std::fill_n(ids, n * k, std::numeric_limits<uint64_t>::max());
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<Hit>& hits = reply->results[static_cast<size_t>(i)];
    for (size_t j = 0; j < hits.size(); ++j) {
      ids[i * k + static_cast<int64_t>(j)] = hits[j].neighbor.id;
    }
  }
  return true;
}

}  // extern "C"
