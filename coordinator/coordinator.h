// The coordinator: collections, writes and reads over p shards, in domain
// types. The gRPC services (coordinator/*_service) are thin over it.
//
// Thread-safe. It keeps no state that matters: the catalogue is the shards',
// cached here and refreshed when a shard says that it is old. Any number of
// coordinators may serve the same shards.
//
// Errors carry the shard at fault in message and payload (api/grpc_status).

#ifndef COTERIE_COORDINATOR_COORDINATOR_H_
#define COTERIE_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/limits.h"
#include "api/placement.h"
#include "api/search.h"
#include "api/shard_messages.h"
#include "coordinator/jobs.h"
#include "coordinator/shard_client.h"

namespace coterie {

struct CoordinatorOptions {
  Limits limits;
  // Time kept back from a search's deadline for merging and replying; at most
  // half of what remains.
  absl::Duration merge_reserve = absl::Milliseconds(5);
  // How long a shard may take to describe itself before it counts as
  // unreachable.
  absl::Duration describe_timeout = absl::Seconds(5);
  // How long Create waits for each answer.
  absl::Duration connect_timeout = absl::Seconds(30);
  // The shard given is one of a larger cluster: its rows are served to readers,
  // certified over the slots that it owns. Writes and changes of collections
  // fail with FAILED_PRECONDITION, and so does reading an id that lives
  // elsewhere.
  bool shard_view = false;
  // Create is content with one shard that answers; calls to the others fail
  // until they do. If shard 0 does not, the catalogue is the newest copy.
  bool partial = false;
  // By shard: the name of a store that may take the place of the one that the
  // catalogue knows, whose rows are then given up.
  std::map<int32_t, std::string> accepted_stores;
  // One of so many searches by an index is repeated exactly, after its reply,
  // to know what such searches find; one at a time. 0: none.
  int64_t recall_interval = 1000;
  // owner[s] for (slots, shards) of new collections. Tests put points where
  // they hurt; everyone else keeps the default.
  std::function<std::vector<int32_t>(int32_t slots, int32_t shards)> placement =
      EvenPlacement;
  // How jobs run here; its limits are those above.
  JobsOptions jobs;
};

// Statistics of a collection, shard by shard.
struct CollectionDescription {
  CollectionSpec spec;
  std::vector<ShardCollectionStats> shards;
};

class Coordinator {
 public:
  // Takes the shards in order of shard_id and reads the catalogue.
  // FAILED_PRECONDITION if ids are not 0..p-1, if the shards belong to
  // different clusters, or disagree on p; UNAVAILABLE if one does not answer
  // (unless options.partial).
  // A shard whose catalogue copy is behind shard 0's is brought up to date.
  // FAILED_PRECONDITION, too, if a shard runs on another store than the
  // catalogue knows it by, and there are collections: it would join empty.
  // With shard_view: one shard, of any id, as it is.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(
      std::vector<std::shared_ptr<ShardClient>> shards,
      CoordinatorOptions options);
  ~Coordinator();

  void CreateCollection(CollectionSpec spec, CallContext call,
                        Done<CollectionSpec> done);
  void GetCollection(std::string name, CallContext call,
                     Done<CollectionDescription> done);
  void ListCollections(CallContext call,
                       Done<std::vector<CollectionSpec>> done);
  // Replies with the number of points dropped.
  void DeleteCollection(std::string name, CallContext call, Done<int64_t> done);

  // Validates the whole batch against the collection (dimension, metric,
  // duplicate ids) before any shard hears of it. A write that fails on some
  // shards says what it did (api/write_outcome.h).
  void Upsert(WriteBatch batch, CallContext call, Done<WriteReply> done);
  void Delete(std::string collection, std::vector<PointId> ids,
              CallContext call, Done<WriteReply> done);
  // Of a batch of deletes, by id or by filter.
  void Delete(WriteBatch batch, CallContext call, Done<WriteReply> done);
  // Of a batch of updates.
  void SetAttributes(WriteBatch batch, CallContext call, Done<WriteReply> done);
  void Get(GetRequest request, CallContext call, Done<GetReply> done);
  void Count(CountRequest request, CallContext call, Done<CountReply> done);
  // Shard after shard; errors arrive by Next.
  std::unique_ptr<PointStream> Scan(ScanRequest request, CallContext call);

  // Resolves queries by id, asks every shard, merges (merge_replies.h). With a
  // radius, request.k is one more than the points allowed, as DecodeSearch
  // makes it. With measure_recall an exact search follows; its failure is the
  // search's.
  void Search(SearchRequest request, CallContext call, Done<SearchReply> done);

  // Never fails as a whole: a silent shard is kUnreachable with the reason.
  void Describe(CallContext call, Done<std::vector<ShardDescription>> done);

  // Long-running work over the shards; ends with the coordinator.
  Jobs& jobs() { return *jobs_; }

  // The copy cached here; never null.
  std::shared_ptr<const Catalogue> catalogue() const;
  // Ids that searches met on more than one shard since start. Anything but 0
  // is an alarm: shards hold the same slot, or one lies.
  int64_t duplicate_ids_met() const;
  // What searches by an index find of the exact neighbours, by collection: of
  // those that measured it and of samples.
  std::map<std::string, double> recalls() const;

 private:
  class Impl;
  explicit Coordinator(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
  // Uses what impl_ holds.
  std::unique_ptr<Jobs> jobs_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_COORDINATOR_H_
