// The bytes of the log on disk: what each write did to a slot, and which
// requests of which clients a slot has applied.
//
// Stateless; any thread. As shard/record_codec.h: frozen by golden bytes, and
// decoders take any bytes, accepting only what encodes to the same bytes;
// anything else is DATA_LOSS saying what is wrong.

#ifndef COTERIE_SHARD_LOG_CODEC_H_
#define COTERIE_SHARD_LOG_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/shard_messages.h"
#include "index/vectors.h"

namespace coterie {

// What one write did to one slot: its place in the order, whose request it was,
// and the ids; the payloads are in the rows.
//
// Format byte 1 | sequence | counts | ids without request and updates, as
// before there were any; else 2 | sequence | client id (empty: no request) |
// its sequence, if there is a client | counts | ids.
struct LogRecord {
  int64_t sequence = 0;
  std::vector<PointId> upserted;
  std::vector<PointId> deleted;
  std::vector<PointId> updated = {};
  std::optional<RequestId> request = {};

  friend bool operator==(const LogRecord&, const LogRecord&) = default;
};
std::string EncodeLogRecord(const LogRecord& record);
absl::StatusOr<LogRecord> DecodeLogRecord(absl::string_view bytes);

// Key of the last request that a slot applied of a client. Those of a
// collection lie in [SlotRequestsStart(c, 0), SlotRequestsStart(c, kMaxSlots)).
struct RequestKey {
  uint32_t collection = 0;
  int32_t slot = 0;       // [0, kMaxSlots)
  std::string client_id;  // 1..kMostClientIdBytes bytes

  friend bool operator==(const RequestKey&, const RequestKey&) = default;
};
std::string EncodeRequestKey(const RequestKey& key);
absl::StatusOr<RequestKey> DecodeRequestKey(absl::string_view bytes);
std::string SlotRequestsStart(uint32_t collection, int32_t slot);

// Its value. Format byte | sequence | offset.
struct AppliedRequest {
  int64_t sequence = 0;  // the client's
  int64_t offset = 0;    // of the slot's write

  friend bool operator==(const AppliedRequest&,
                         const AppliedRequest&) = default;
};
std::string EncodeAppliedRequest(const AppliedRequest& request);
absl::StatusOr<AppliedRequest> DecodeAppliedRequest(absl::string_view bytes);

}  // namespace coterie

#endif  // COTERIE_SHARD_LOG_CODEC_H_
