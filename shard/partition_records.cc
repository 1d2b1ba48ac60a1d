#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "shard/partition.h"
#include "shard/record_codec.h"

namespace coterie {
namespace {

absl::Status Damaged(absl::string_view key, const absl::Status& why) {
  return absl::DataLossError(
      absl::StrCat("record '", NameInKey(key), "': ", why.message()));
}

}  // namespace

absl::StatusOr<ReadView> Partition::View(absl::string_view collection,
                                         uint32_t number) const {
  auto view = View(collection);
  if (!view.ok() || number == 0 || view->rows->spec().number == number) {
    return view;
  }
  return absl::AbortedError(absl::StrCat(
      "collection '", collection, "' has number ", view->rows->spec().number,
      " here, the request is for number ", number, ": it was made anew"));
}

absl::StatusOr<std::vector<StoredRecord>> Partition::ReadRecords(
    uint32_t collection, absl::string_view prefix, bool with_values) const {
  int64_t left = options_.limits.message_bytes;
  const int64_t now = absl::ToUnixMicros(absl::Now());
  std::vector<StoredRecord> records;
  const std::string begin = NamedRecordKey(collection, prefix);
  const auto cursor = store_->Walk(Family::kMeta, begin,
                                   NamedRecordKey(collection + 1, ""), nullptr);
  for (; cursor->Valid() && absl::StartsWith(cursor->key(), begin);
       cursor->Next()) {
    auto record = DecodeNamedRecord(cursor->value());
    if (!record.ok()) return Damaged(cursor->key(), record.status());
    StoredRecord& out = records.emplace_back();
    out.key = std::string(NameInKey(cursor->key()));
    out.version = record->version;
    out.age_seconds =
        static_cast<double>(std::max<int64_t>(0, now - record->version)) * 1e-6;
    if (with_values) out.value = std::move(record->value);
    // With what a message puts around each.
    left -= static_cast<int64_t>(out.key.size() + out.value.size()) + 32;
    if (left < 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "records '", prefix, "...' are more than ",
          options_.limits.message_bytes, " bytes (limit message_bytes)"));
    }
  }
  if (!cursor->status().ok()) return cursor->status();
  return records;
}

absl::Status Partition::PutRecord(const RecordPut& put,
                                  absl::StatusOr<int64_t>* reply) {
  TurnLock lock(&state_mutex_);
  if (states_.find(put.number) == states_.end()) {
    *reply = absl::NotFoundError(
        absl::StrCat("collection '", put.collection, "' is gone"));
    return absl::OkStatus();
  }
  const std::string key = NamedRecordKey(put.number, put.key);
  const auto found = store_->Read(Family::kMeta, {key}, nullptr);
  int64_t version = 0;
  if (found.ok() && found->front().has_value()) {
    const auto record = DecodeNamedRecord(*found->front());
    if (!record.ok()) {
      *reply = Damaged(key, record.status());
      return absl::OkStatus();
    }
    version = record->version;
  } else if (!found.ok()) {
    *reply = found.status();
    return absl::OkStatus();
  }
  if (put.expected_version.value_or(version) != version) {
    *reply = absl::AbortedError(absl::StrCat("record '", put.key,
                                             "' is at version ", version,
                                             ", not ", *put.expected_version));
    return absl::OkStatus();
  }
  StoreBatch batch;
  if (put.value.has_value()) {
    version = std::max(version + 1, absl::ToUnixMicros(absl::Now()));
    batch.Put(Family::kMeta, key, EncodeNamedRecord({version, *put.value}));
  } else {
    version = 0;
    batch.Delete(Family::kMeta, key);
  }
  const absl::Status status = store_->Write(batch);
  if (!status.ok()) {
    store_failed_ = true;
    *reply = status;
    return status;
  }
  *reply = version;
  return absl::OkStatus();
}

}  // namespace coterie
