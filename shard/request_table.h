// Which requests the slots of a collection have applied: what makes a late
// repeat of a write harmless.
//
// Not thread-safe; belongs to the thread that applies writes. Bounded: a slot
// remembers the last sequence of the kClientsPerSlot clients that wrote to it
// last; the one whose last write is oldest makes room for another. A client
// that was displaced is new again, so a repeat from it is applied.
//
// At most 64 clients x about 150 bytes a slot. Applied is O(1), Note
// O(kClientsPerSlot).

#ifndef COTERIE_SHARD_REQUEST_TABLE_H_
#define COTERIE_SHARD_REQUEST_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "api/shard_messages.h"
#include "shard/log_codec.h"

namespace coterie {

class RequestTable {
 public:
  static constexpr size_t kClientsPerSlot = 64;

  // Whether the slot has applied this request or a later one of its client.
  bool Applied(int32_t slot, const RequestId& request) const;

  // The request is the slot's write number `offset`. Returns the client that
  // made room for it, if one had to. REQUIRES: !Applied(slot, request); offset
  // exceeds the slot's earlier ones.
  std::optional<std::string> Note(int32_t slot, const RequestId& request,
                                  int64_t offset);

  // As found at start, each client of a slot once.
  void Load(int32_t slot, std::string client_id, AppliedRequest last);

 private:
  using Clients = absl::flat_hash_map<std::string, AppliedRequest>;
  absl::flat_hash_map<int32_t, Clients> slots_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_REQUEST_TABLE_H_
