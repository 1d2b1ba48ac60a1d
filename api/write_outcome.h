// What a write that failed in part did, shard by shard, as a detail of its
// absl::Status. api/grpc_status turns it into coterie.v1.WriteOutcome and back.
//
// Stateless; any thread.

#ifndef COTERIE_API_WRITE_OUTCOME_H_
#define COTERIE_API_WRITE_OUTCOME_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"

namespace coterie {

struct WriteOutcome {
  // The part of one shard, which it applies whole or not at all.
  struct Part {
    int32_t shard = 0;
    int64_t items = 0;           // of the request
    std::vector<int32_t> slots;  // theirs, ascending
    // kOk: durable and visible. Otherwise it is unknown whether it was applied.
    absl::StatusCode code = absl::StatusCode::kOk;

    friend bool operator==(const Part&, const Part&) = default;
  };
  std::vector<Part> parts;  // by shard

  friend bool operator==(const WriteOutcome&, const WriteOutcome&) = default;
};

// OK stays OK. O(parts + slots).
void AttachOutcome(absl::Status* status, const WriteOutcome& outcome);
std::optional<WriteOutcome> OutcomeOf(const absl::Status& status);

}  // namespace coterie

#endif  // COTERIE_API_WRITE_OUTCOME_H_
