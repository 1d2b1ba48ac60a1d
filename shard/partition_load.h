// What a shard finds on its disk when it starts.
//
// Called once, by one thread, before anything else uses the store. Everything
// is checked against everything else - keys, lengths, slot states, the log -
// so that a store that lost records is refused instead of served.
//
// Rows come from segment files where these are sound, and of what was written
// since, from the store: the log says which rows those are. A collection whose
// files are not sound is read from the store whole. Either way gives the same
// state.

#ifndef COTERIE_SHARD_PARTITION_LOAD_H_
#define COTERIE_SHARD_PARTITION_LOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "api/collection.h"
#include "shard/collection_state.h"
#include "shard/record_codec.h"
#include "shard/record_store.h"
#include "shard/segment_folder.h"
#include "shard/segment_manifest.h"

namespace coterie {

// By collection number.
using CollectionStates =
    absl::flat_hash_map<uint32_t, std::unique_ptr<CollectionState>>;

struct LoadedPartition {
  Catalogue catalogue;
  int64_t sequence = 0;
  CollectionStates states;
  // What was read of the manifest that counts: its number (0: there is none, or
  // it is damaged) and the collections whose files are in use.
  SegmentManifest manifest;
  // Files that were refused, each with the reason and what follows from it.
  std::vector<std::string> warnings;
};

// Compares the stored identity with `expected` (its incarnation is ignored),
// stores it at the first open, and counts this opening, durably. The identity
// now stored. FAILED_PRECONDITION naming both sides if they differ; DATA_LOSS
// if there are records but no identity.
absl::StatusOr<ShardIdentity> ClaimIdentity(const ShardIdentity& expected,
                                            RecordStore* store);

// Reads catalogue, slot states, rows and log. DATA_LOSS naming the record that
// is damaged, belongs to nothing or is missing; damaged segment files are only
// warned of. O(rows) with sound files, else O(rows x dimension).
absl::StatusOr<LoadedPartition> LoadPartition(int32_t shard_id,
                                              const SegmentTuning& tuning,
                                              RecordStore* store,
                                              SegmentFolder* folder);

}  // namespace coterie

#endif  // COTERIE_SHARD_PARTITION_LOAD_H_
