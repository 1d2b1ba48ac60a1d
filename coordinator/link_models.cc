#include "coordinator/link_models.h"

#include <algorithm>

#include "absl/status/statusor.h"

namespace coterie {
namespace {

constexpr int64_t kMessagesPerCall = 2;
constexpr int64_t kRefitAfter = 32;

}  // namespace

void LinkModels::Observe(int32_t shard, const LinkUse& use,
                         double round_trip_seconds) {
  if (use.bytes() == 0) return;
  TransferObservation observation;
  observation.messages = kMessagesPerCall;
  observation.bytes = use.bytes();
  observation.seconds = std::max(0.0, round_trip_seconds - use.shard_seconds);
  MutexLock lock(&mu_);
  Link& link = links_[shard];
  // What is out of the fit's range tells nothing of the link.
  if (link.fit.Add(observation).ok()) ++link.seen;
}

double LinkModels::Predict(int32_t shard, const LinkUse& use) {
  if (use.bytes() == 0) return 0;
  MutexLock lock(&mu_);
  const auto it = links_.find(shard);
  if (it == links_.end() || it->second.seen == 0) return 0;
  Link& link = it->second;
  if (link.seen - link.fitted >=
      std::clamp<int64_t>(link.fitted, 1, kRefitAfter)) {
    const absl::StatusOr<LinkEstimate> estimate = link.fit.Estimate();
    if (estimate.ok()) link.model = estimate->model;
    link.fitted = link.seen;
  }
  const absl::StatusOr<double> seconds =
      TransferSeconds(link.model, kMessagesPerCall, use.bytes());
  return seconds.ok() ? *seconds : 0;
}

}  // namespace coterie
