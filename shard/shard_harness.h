// A shard with its folder, called as if it were synchronous. For tests only;
// thread-safe, except for Open, Close and Reopen.

#ifndef COTERIE_SHARD_SHARD_HARNESS_H_
#define COTERIE_SHARD_SHARD_HARNESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/point.h"
#include "api/search.h"
#include "api/shard_messages.h"
#include "shard/shard.h"
#include "shard/shard_testing.h"

namespace coterie {

class ShardHarness {
 public:
  // Shard 0 of 1 with one thread; change `options` before Open.
  ShardHarness();

  void Open();
  void Close() { shard_.reset(); }
  void Reopen();

  Shard* operator->() { return shard_.get(); }
  ShardOptions* options() { return &options_; }
  const std::string& path() const { return folder_.path(); }

  absl::StatusOr<int64_t> PutCatalogue(int64_t expected, Catalogue catalogue);
  absl::StatusOr<WriteReply> Write(std::vector<Point> upserts,
                                   std::vector<PointId> deletes = {},
                                   const std::string& collection = "c");
  absl::StatusOr<WriteReply> Apply(WriteBatch batch);
  absl::StatusOr<ShardSearchReply> Search(SearchRequest request,
                                          CallContext call = {});
  // With vectors and all attributes.
  absl::StatusOr<GetReply> Get(std::vector<PointId> ids);
  absl::StatusOr<int64_t> Count(Filter filter = {});
  // Every point of a scan, by following its pages.
  absl::StatusOr<std::vector<Point>> ScanAll(ScanRequest request);
  ShardDescription Describe();
  absl::StatusOr<ShardCollectionStats> Stats();

 private:
  TempFolder folder_;
  ShardOptions options_;
  std::unique_ptr<Shard> shard_;
};

// Of collection "c": everything of every point.
ScanRequest WholeScan();

// Of collection "c".
SearchRequest SearchFor(std::vector<float> query, int64_t k);

std::vector<PointId> IdsOf(const std::vector<Hit>& hits);

// A harness that is open and has collection "c", number 1, with 8 slots.
std::unique_ptr<ShardHarness> OpenWithCollection(int32_t dimension,
                                                 Metric metric);

}  // namespace coterie

#endif  // COTERIE_SHARD_SHARD_HARNESS_H_
