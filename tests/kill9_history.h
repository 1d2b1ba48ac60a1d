// What one writer did to its points, as far as it can know: after a kill, an
// unanswered write may have happened or not.
//
// Thread-safe only as a map is; each writer has its own, over ids of its own.

#ifndef COTERIE_TESTS_KILL9_HISTORY_H_
#define COTERIE_TESTS_KILL9_HISTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "api/point.h"
#include "api/v1/points.pb.h"

namespace coterie {

// The version of a stored point; nullopt: not stored.
using StoredVersion = std::optional<int64_t>;

class Kill9History {
 public:
  static constexpr int64_t kIdsPerWriter = 300;
  static constexpr int kDimension = 4;

  // One write: upserts of its version, or deletes.
  struct Write {
    int64_t version = 0;
    bool is_delete = false;
    std::vector<PointId> ids;  // distinct
  };

  // Writers are numbered from 0.
  explicit Kill9History(int writer) : writer_(writer) {}

  std::string client_id() const;
  // All that it may ever write.
  std::vector<PointId> ids() const;
  // A random next write, which is then pending: it may come to be stored.
  const Write& Next(std::mt19937_64* random);
  // The pending write, if its answer is still awaited.
  const std::optional<Write>& pending() const { return pending_; }
  void Acknowledge();

  // What is wrong with what is stored, of the writer's ids; empty if nothing.
  // Then that is what the history goes on from.
  std::string Adopt(const std::map<PointId, int64_t>& stored);

  // The vector of a point at a version.
  static std::vector<float> VectorOf(PointId id, int64_t version);
  v1::UpsertRequest UpsertOf(const Write& write) const;
  v1::DeleteRequest DeleteOf(const Write& write) const;

 private:
  PointId IdOf(uint64_t index) const;
  v1::RequestId RequestOf(const Write& write) const;

  const int writer_;
  int64_t version_ = 0;
  std::map<PointId, int64_t> stored_;  // as acknowledged
  std::optional<Write> pending_;
};

}  // namespace coterie

#endif  // COTERIE_TESTS_KILL9_HISTORY_H_
