// What the tests of a shard share: random points, waiting for an answer, a
// folder of one's own, and the slow obvious search. For tests only; each
// function and object belongs to one thread, but Answer's callback may run on
// any.

#ifndef COTERIE_SHARD_SHARD_TESTING_H_
#define COTERIE_SHARD_SHARD_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/point.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/vectors.h"
#include "sync/mutex.h"

namespace coterie {

using Random = std::mt19937_64;

// A new folder, removed with its content at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Waits for the answer of one asynchronous call.
template <typename T>
class Answer {
 public:
  // To be given to the call, once.
  Done<T> done() {
    return [state = state_](absl::StatusOr<T> value) {
      MutexLock lock(&state->mutex);
      state->value.emplace(std::move(value));
      state->changed.NotifyAll();
    };
  }

  bool ready() const {
    MutexLock lock(&state_->mutex);
    return state_->value.has_value();
  }

  absl::StatusOr<T> Wait() {
    MutexLock lock(&state_->mutex);
    while (!state_->value.has_value()) state_->changed.Wait(&state_->mutex);
    return *state_->value;
  }

 private:
  struct State {
    Mutex mutex;
    CondVar changed;
    std::optional<absl::StatusOr<T>> value ABSL_GUARDED_BY(mutex);
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Blocks threads until it is opened. Copies are the same gate; it may go while
// others still leave it.
class Gate {
 public:
  void Open();
  void Wait();

 private:
  struct State {
    Mutex mutex;
    CondVar changed;
    bool open ABSL_GUARDED_BY(mutex) = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A collection whose slots all belong to `owner`.
CollectionSpec TestCollection(absl::string_view name, uint32_t number,
                              int32_t dimension, Metric metric, int32_t slots,
                              int32_t owner = 0);

// A catalogue of these, sorted, with the next free number.
Catalogue TestCatalogue(int64_t version, std::vector<CollectionSpec> specs);

// Small whole numbers, so that distances tie; not all zero.
std::vector<float> RandomVector(int64_t dimension, Random& random);

// Up to three attributes of any type.
Attributes RandomAttributes(Random& random);

// All points within the bound, by canonical distance and id; the first k.
std::vector<Neighbor> CanonicalSearch(
    Metric metric, const std::map<PointId, std::vector<float>>& points,
    VectorView query, int64_t k, std::optional<double> radius = {});

}  // namespace coterie

#endif  // COTERIE_SHARD_SHARD_TESTING_H_
