// What a coordinator has learnt of the links to its shards: latency and
// bandwidth of each, fitted to its own calls (training/link_fit.h).
//
// Thread-safe. Calls within the process use no link and teach nothing.

#ifndef COTERIE_COORDINATOR_LINK_MODELS_H_
#define COTERIE_COORDINATOR_LINK_MODELS_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "api/link_use.h"
#include "sync/mutex.h"
#include "training/cost_model.h"
#include "training/link_fit.h"

namespace coterie {

class LinkModels {
 public:
  // Takes in a call: a request and its reply, which took `round_trip_seconds`
  // together with the shard's work. O(1).
  void Observe(int32_t shard, const LinkUse& use, double round_trip_seconds);

  // Seconds on the link for a request and its reply of `use.bytes()` together,
  // as the calls observed so far tell; 0 if there were none, or no bytes. Fits
  // anew once the calls seen have doubled or 32 are new: up to about 0.1 ms
  // for each size class seen.
  double Predict(int32_t shard, const LinkUse& use);

 private:
  struct Link {
    LinkFit fit;
    int64_t seen = 0;
    int64_t fitted = 0;  // of those, in `model`
    LinkModel model;
  };

  Mutex mu_;
  std::map<int32_t, Link> links_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_LINK_MODELS_H_
