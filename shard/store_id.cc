#include "shard/store_id.h"

#include <random>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shard/record_codec.h"

namespace coterie {
namespace {

std::string NewStoreId() {
  std::random_device device;
  std::string bytes;
  while (static_cast<int>(bytes.size()) < kStoreIdBytes) {
    bytes.push_back(static_cast<char>(device()));
  }
  return absl::BytesToHexString(bytes);
}

}  // namespace

absl::StatusOr<std::string> ClaimStoreId(RecordStore* store) {
  auto found = store->Read(Family::kMeta, {StoreIdKey()}, nullptr);
  if (!found.ok()) return found.status();
  if (found->front().has_value()) {
    auto id = DecodeStoreId(*found->front());
    if (id.ok()) return id;
    return absl::DataLossError(
        absl::StrCat("store id: ", id.status().message()));
  }
  std::string id = NewStoreId();
  StoreBatch batch;
  batch.Put(Family::kMeta, StoreIdKey(), EncodeStoreId(id));
  const absl::Status status = store->Write(batch);
  if (!status.ok()) return status;
  return id;
}

}  // namespace coterie
