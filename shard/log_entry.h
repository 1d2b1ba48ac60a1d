// A write to a shard as an entry of its log.
//
// Stateless; any thread.

#ifndef COTERIE_SHARD_LOG_ENTRY_H_
#define COTERIE_SHARD_LOG_ENTRY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "api/collection.h"
#include "api/shard_messages.h"
#include "shard/write_log.h"

namespace coterie {

// One part for each slot that the batch touches, in the batch's order.
// INVALID_ARGUMENT naming the field if a vector does not suit the collection,
// the request id is none, or updates come with other changes;
// FAILED_PRECONDITION naming id, slot and owner if a point is not the shard's.
absl::StatusOr<LogEntry> EntryOf(WriteBatch batch, const CollectionSpec& spec,
                                 int32_t shard_id);

}  // namespace coterie

#endif  // COTERIE_SHARD_LOG_ENTRY_H_
