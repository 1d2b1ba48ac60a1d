#include "shard/log_codec.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shard/record_bytes.h"
#include "shard/record_codec.h"

namespace coterie {
namespace {

constexpr char kPlainFormat = 1;
constexpr char kFullFormat = 2;

constexpr char kRequestPrefix = 'R';
constexpr size_t kRequestKeyHead = 1 + 4 + 2;

void PutIds(std::string* out, const std::vector<PointId>& ids) {
  for (const PointId id : ids) PutLittleEndian(out, id);
}

void ReadIds(ByteReader* reader, size_t count, std::vector<PointId>* ids) {
  ids->resize(count);
  for (PointId& id : *ids) id = reader->LittleEndian<uint64_t>();
}

bool IsClientId(absl::string_view client_id) {
  return !client_id.empty() &&
         static_cast<int64_t>(client_id.size()) <= kMostClientIdBytes;
}

void ReadRequest(ByteReader* reader, LogRecord* record) {
  std::string client_id = reader->String();
  if (client_id.empty()) return;
  if (!IsClientId(client_id)) reader->Fail("its client id is too long");
  record->request = RequestId{std::move(client_id), reader->Counter()};
}

}  // namespace

std::string EncodeLogRecord(const LogRecord& record) {
  const bool plain = !record.request.has_value() && record.updated.empty();
  std::string out(1, plain ? kPlainFormat : kFullFormat);
  PutLittleEndian(&out, static_cast<uint64_t>(record.sequence));
  if (!plain) {
    PutString(&out, record.request.has_value() ? record.request->client_id
                                               : std::string());
    if (record.request.has_value()) {
      PutLittleEndian(&out, static_cast<uint64_t>(record.request->sequence));
    }
  }
  PutVarint(&out, record.upserted.size());
  PutVarint(&out, record.deleted.size());
  if (!plain) PutVarint(&out, record.updated.size());
  PutIds(&out, record.upserted);
  PutIds(&out, record.deleted);
  PutIds(&out, record.updated);
  return out;
}

absl::StatusOr<LogRecord> DecodeLogRecord(absl::string_view bytes) {
  ByteReader reader("log", bytes, kFullFormat);
  const bool plain = reader.format() == kPlainFormat;
  LogRecord record;
  record.sequence = reader.Counter();
  if (!plain) ReadRequest(&reader, &record);
  const size_t upserted = reader.Count(sizeof(PointId));
  const size_t deleted = reader.Count(sizeof(PointId));
  const size_t updated = plain ? 0 : reader.Count(sizeof(PointId));
  if (reader.ok() &&
      (upserted + deleted + updated) * sizeof(PointId) != reader.remaining()) {
    reader.Fail("its ids do not fit its counts");
  }
  if (reader.ok()) {
    ReadIds(&reader, upserted, &record.upserted);
    ReadIds(&reader, deleted, &record.deleted);
    ReadIds(&reader, updated, &record.updated);
  }
  if (!plain && !record.request.has_value() && record.updated.empty()) {
    reader.Fail("it has nothing that format 2 is for");
  }
  const absl::Status status = reader.Finish();
  if (!status.ok()) return status;
  return record;
}

std::string SlotRequestsStart(uint32_t collection, int32_t slot) {
  return absl::StrCat(std::string(1, kRequestPrefix),
                      SlotStart(collection, slot));
}

std::string EncodeRequestKey(const RequestKey& key) {
  return absl::StrCat(SlotRequestsStart(key.collection, key.slot),
                      key.client_id);
}

absl::StatusOr<RequestKey> DecodeRequestKey(absl::string_view bytes) {
  if (bytes.size() <= kRequestKeyHead || bytes[0] != kRequestPrefix) {
    return absl::DataLossError(absl::StrCat("request key of ", bytes.size(),
                                            " bytes has no client or prefix"));
  }
  RequestKey key;
  key.collection = ReadBigEndian<uint32_t>(bytes, 1);
  key.slot = ReadBigEndian<uint16_t>(bytes, 5);
  bytes.remove_prefix(kRequestKeyHead);
  if (key.slot >= kMaxSlots || !IsClientId(bytes)) {
    return absl::DataLossError(absl::StrCat("request key with slot ", key.slot,
                                            " and ", bytes.size(),
                                            " bytes of client id"));
  }
  key.client_id = std::string(bytes);
  return key;
}

std::string EncodeAppliedRequest(const AppliedRequest& request) {
  std::string out(1, kPlainFormat);
  PutLittleEndian(&out, static_cast<uint64_t>(request.sequence));
  PutLittleEndian(&out, static_cast<uint64_t>(request.offset));
  return out;
}

absl::StatusOr<AppliedRequest> DecodeAppliedRequest(absl::string_view bytes) {
  ByteReader reader("request", bytes);
  AppliedRequest request;
  request.sequence = reader.Counter();
  request.offset = reader.Counter();
  const absl::Status status = reader.Finish();
  if (!status.ok()) return status;
  return request;
}

}  // namespace coterie
