// The collections of a partition, as LoadPartition reads them: rows, deaths and
// offsets, from segment files and the log, or from the store alone.
//
// Called by one thread, once.

#ifndef COTERIE_SHARD_COLLECTION_LOAD_H_
#define COTERIE_SHARD_COLLECTION_LOAD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shard/collection_state.h"
#include "shard/partition_load.h"
#include "shard/record_store.h"
#include "shard/segment_folder.h"

namespace coterie {

// Beyond every key of every family.
std::string AfterAll();

// DATA_LOSS of `what`, for the reason that `why` gives.
absl::Status Damaged(absl::string_view what, const absl::Status& why);

// The value of one describing record, if it is there.
absl::StatusOr<std::optional<std::string>> ReadMeta(RecordStore* store,
                                                    std::string key);

// Fills states, manifest and warnings. Errors as LoadPartition. REQUIRES:
// `loaded` has catalogue and sequence.
absl::Status LoadCollections(int32_t shard_id, const SegmentTuning& tuning,
                             RecordStore* store, SegmentFolder* folder,
                             LoadedPartition* loaded);

}  // namespace coterie

#endif  // COTERIE_SHARD_COLLECTION_LOAD_H_
