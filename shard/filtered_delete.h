// Deletion of what a filter admits, as entries of the log.
//
// Stateless; any thread.

#ifndef COTERIE_SHARD_FILTERED_DELETE_H_
#define COTERIE_SHARD_FILTERED_DELETE_H_

#include <cstdint>
#include <vector>

#include "api/call.h"
#include "api/shard_messages.h"
#include "shard/collection_state.h"
#include "shard/filtered_rows.h"
#include "shard/write_log.h"

namespace coterie {

// Deletes of the rows, whole slots to an entry and about kEntryPoints points;
// each entry says of which state of its slots it speaks, so that the log spares
// points that have changed and are not admitted any more. With a request id
// slots without such rows are named, too: a late repeat must find it there.
// REQUIRES: `filtered` is what batch.delete_where admits of the snapshot.
// O(rows admitted + slots).
inline constexpr int64_t kEntryPoints = 65536;
std::vector<LogEntry> DeletesOf(const CollectionSnapshot& snapshot,
                                const FilteredRows& filtered,
                                const WriteBatch& batch);

// Appends the entries, each when the one before it is durable. `done` gets the
// sum of what they did, `sequence` if there are none; or the first failure,
// after which the entries before it stand.
void AppendAll(WriteLog* log, std::vector<LogEntry> entries, CallContext call,
               int64_t sequence, Done<WriteReply> done);

}  // namespace coterie

#endif  // COTERIE_SHARD_FILTERED_DELETE_H_
