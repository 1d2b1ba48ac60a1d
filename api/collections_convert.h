// Collections and topology: proto <-> domain. Decoding is validating.

#ifndef COTERIE_API_COLLECTIONS_CONVERT_H_
#define COTERIE_API_COLLECTIONS_CONVERT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "api/collection.h"
#include "api/limits.h"
#include "api/shard_messages.h"
#include "api/v1/cluster.pb.h"
#include "api/v1/collections.pb.h"

namespace coterie {

// slots 0 becomes the default; number and owner are left to the coordinator.
absl::StatusOr<CollectionSpec> DecodeCollection(
    const v1::Collection& collection, const Limits& limits);
void EncodeCollection(const CollectionSpec& spec, v1::Collection* out);
void EncodeShardStats(const ShardCollectionStats& shard,
                      v1::ShardCollectionStats* out);
void EncodeStats(const CollectionSpec& spec,
                 const std::vector<ShardCollectionStats>& shards,
                 v1::CollectionStats* out);
void EncodeShard(const ShardDescription& shard, v1::ShardDescription* out);

}  // namespace coterie

#endif  // COTERIE_API_COLLECTIONS_CONVERT_H_
