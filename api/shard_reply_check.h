// Refusals of replies, for api/shard_convert only. Stateless; any thread.

#ifndef COTERIE_API_SHARD_REPLY_CHECK_H_
#define COTERIE_API_SHARD_REPLY_CHECK_H_

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "api/limits.h"

namespace coterie {

// INTERNAL "the shard's reply does not fit: <what>".
inline absl::Status Misfit(absl::string_view what) {
  return absl::InternalError(
      absl::StrCat("the shard's reply does not fit: ", what));
}

struct NamedCount {
  absl::string_view name;
  int64_t value;
};

// Misfit naming the first that is negative.
inline absl::Status CheckCounts(std::initializer_list<NamedCount> counts) {
  for (const NamedCount& count : counts) {
    if (count.value < 0) {
      return Misfit(absl::StrCat(count.name, " is ", count.value));
    }
  }
  return absl::OkStatus();
}

// Misfit unless finite and not negative.
inline absl::Status CheckSeconds(absl::string_view name, double seconds) {
  if (std::isfinite(seconds) && seconds >= 0) return absl::OkStatus();
  return Misfit(absl::StrCat(name, " is ", seconds));
}

// Of what was stored under limits unknown: only those of the format hold.
inline Limits LimitsOfReplies() {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  Limits limits;
  limits.attributes_per_point = kNone;
  limits.attribute_key_bytes = kNone;
  limits.attribute_set_bytes = kNone;
  limits.collection_name_bytes = kNone;
  return limits;
}

}  // namespace coterie

#endif  // COTERIE_API_SHARD_REPLY_CHECK_H_
