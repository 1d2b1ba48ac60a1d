#include "api/byte_budget.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "api/status_details.h"

namespace coterie {
namespace {

// Long enough for what is being handled to end, short enough for a person.
constexpr absl::Duration kRetryAfter = absl::Milliseconds(100);

}  // namespace

void ByteBudget::Lease::Release() {
  if (budget_ != nullptr) {
    budget_->used_.fetch_sub(bytes_, std::memory_order_relaxed);
    budget_ = nullptr;
  }
}

absl::Status ByteBudget::Take(int64_t bytes, Lease* lease) {
  int64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used > 0 && bytes > limit_ - used) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      return Overloaded(
          absl::StrCat("requests of ", used,
                       " bytes are being handled; with this one of ", bytes,
                       " they would be over the limit inflight_bytes of ",
                       limit_),
          kRetryAfter);
    }
  } while (!used_.compare_exchange_weak(used, used + bytes,
                                        std::memory_order_relaxed));
  *lease = Lease();
  lease->budget_ = this;
  lease->bytes_ = bytes;
  return absl::OkStatus();
}

}  // namespace coterie
