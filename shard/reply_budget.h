// How large a reply may still grow. Not thread-safe.
//
// Neighbours and ids are bounded by their own limits; vectors and attributes
// that come with them multiply, so they are counted against the message limit
// before they are copied.

#ifndef COTERIE_SHARD_REPLY_BUDGET_H_
#define COTERIE_SHARD_REPLY_BUDGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace coterie {

class ReplyBudget {
 public:
  explicit ReplyBudget(int64_t bytes) : limit_(bytes), left_(bytes) {}

  // RESOURCE_EXHAUSTED naming the limit once it is used up.
  absl::Status Take(int64_t bytes) {
    left_ -= bytes;
    if (left_ >= 0) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "the reply's vectors and attributes exceed ", limit_,
        " bytes (limit message_bytes): ask for fewer points at a time"));
  }

 private:
  const int64_t limit_;
  int64_t left_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_REPLY_BUDGET_H_
