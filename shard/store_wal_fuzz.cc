// Fuzz target: the check of a store's write-ahead log. The input is a log.
//
// Whatever it is, the check accepts it or says DATA_LOSS, and what it calls cut
// is at the end. A whole log is accepted wherever it is cut: a crash must never
// look like damage.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shard/store_wal.h"

namespace coterie {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

// How many bytes at the end were cut short.
absl::StatusOr<int64_t> CheckLog(absl::string_view log) {
  constexpr auto kBlock = static_cast<size_t>(WalCheck::kBlockBytes);
  WalCheck check;
  for (size_t at = 0;; at += kBlock) {
    const absl::string_view block = log.substr(at, kBlock);
    const absl::Status status = check.Add(block);
    if (!status.ok()) {
      Check(absl::IsDataLoss(status));
      return status;
    }
    if (block.size() < kBlock) break;
  }
  Check(check.torn_bytes() >= 0);
  Check(check.torn_bytes() <= static_cast<int64_t>(log.size()));
  return check.torn_bytes();
}

}  // namespace
}  // namespace coterie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view log(reinterpret_cast<const char*>(data), size);
  const auto torn = coterie::CheckLog(log);
  if (!torn.ok() || *torn > 0) return 0;
  // At most about a hundred cuts.
  const size_t step = std::max<size_t>(1, size / 100);
  for (size_t keep = 0; keep < size; keep += step) {
    coterie::Check(coterie::CheckLog(log.substr(0, keep)).ok());
  }
  return 0;
}
