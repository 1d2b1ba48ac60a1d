#include "coordinator/point_vectors.h"

#include <cstddef>
#include <utility>

#include "api/await.h"
#include "coordinator/point_calls.h"

namespace coterie {

absl::StatusOr<std::vector<std::vector<float>>> PointVectors(
    const ShardSet& shards, const CollectionSpec& spec,
    const std::vector<PointId>& ids,
    const std::vector<std::vector<float>>& given, const CallContext& call) {
  if (ids.empty()) return given;
  GetRequest get;
  get.collection = spec.name;
  get.number = spec.number;
  get.ids = ids;
  get.with_vectors = true;
  const auto found = Await<OwnersGetReply>([&](Done<OwnersGetReply> done) {
    GetFromOwners(shards, spec, get, call, std::move(done));
  });
  if (!found.ok()) return found.status();
  // Found points are in the order asked.
  std::vector<std::vector<float>> vectors(ids.size());
  size_t next = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (next < found->reply.points.size() &&
        found->reply.points[next].id == ids[i]) {
      vectors[i] = found->reply.points[next++].vector;
    }
  }
  return vectors;
}

}  // namespace coterie
