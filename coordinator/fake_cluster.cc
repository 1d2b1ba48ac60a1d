#include "coordinator/fake_cluster.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <set>

#include "api/placement.h"
#include "coordinator/model_distance.h"

namespace coterie {
namespace {

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "fake cluster: %s\n", what.c_str());
  std::abort();
}

}  // namespace

uint64_t TestSeed() {
  const char* seed = std::getenv("SEED");
  return seed == nullptr || *seed == '\0' ? 20260101
                                          : std::strtoull(seed, nullptr, 10);
}

std::vector<int32_t> PlacementOf(
    const std::vector<std::pair<PointId, int32_t>>& wishes, int32_t slots) {
  std::vector<int32_t> owner(static_cast<size_t>(slots), -1);
  for (const auto& [id, shard] : wishes) {
    int32_t& at = owner[static_cast<size_t>(SlotOf(id, slots))];
    if (at >= 0 && at != shard) {
      Die("two wishes for one slot; use more slots");
    }
    at = shard;
  }
  std::replace(owner.begin(), owner.end(), -1, 0);
  return owner;
}

FakeCluster::FakeCluster(int32_t shards, FakeShardClient::Options fake_options,
                         CoordinatorOptions options) {
  for (int32_t i = 0; i < shards; ++i) {
    fakes.push_back(std::make_shared<FakeShardClient>(i, shards, fake_options));
  }
  auto created = Coordinator::Create(clients(), std::move(options));
  if (!created.ok()) {
    Die(created.status().ToString());
  }
  coordinator = *std::move(created);
}

FakeCluster::~FakeCluster() {
  coordinator.reset();
  for (const auto& fake : fakes) {
    fake->Stop();
  }
}

std::vector<std::shared_ptr<ShardClient>> FakeCluster::clients() const {
  return {fakes.begin(), fakes.end()};
}

absl::StatusOr<CollectionSpec> FakeCluster::Create(const std::string& name,
                                                   int32_t dimension,
                                                   Metric metric,
                                                   int32_t slots) {
  CollectionSpec spec;
  spec.name = name;
  spec.dimension = dimension;
  spec.metric = metric;
  spec.slots = slots;
  return Wait<CollectionSpec>([&](Done<CollectionSpec> done) {
    coordinator->CreateCollection(spec, {}, std::move(done));
  });
}

absl::StatusOr<WriteReply> FakeCluster::Upsert(const std::string& name,
                                               std::vector<Point> points,
                                               CallContext call) {
  WriteBatch batch;
  batch.collection = name;
  batch.upserts = std::move(points);
  return Wait<WriteReply>([&](Done<WriteReply> done) {
    coordinator->Upsert(std::move(batch), call, std::move(done));
  });
}

absl::StatusOr<SearchReply> FakeCluster::Search(SearchRequest request,
                                                CallContext call) {
  return Wait<SearchReply>([&](Done<SearchReply> done) {
    coordinator->Search(std::move(request), call, std::move(done));
  });
}

absl::StatusOr<GetReply> FakeCluster::Get(const std::string& name,
                                          std::vector<PointId> ids) {
  GetRequest request;
  request.collection = name;
  request.ids = std::move(ids);
  request.with_vectors = true;
  return Wait<GetReply>([&](Done<GetReply> done) {
    coordinator->Get(request, {}, std::move(done));
  });
}

absl::StatusOr<int64_t> FakeCluster::Count(const std::string& name) {
  CountRequest request;
  request.collection = name;
  const auto reply = Wait<CountReply>([&](Done<CountReply> done) {
    coordinator->Count(request, {}, std::move(done));
  });
  if (!reply.ok()) {
    return reply.status();
  }
  return reply->count;
}

absl::StatusOr<WriteReply> FakeCluster::Delete(const std::string& name,
                                               std::vector<PointId> ids) {
  return Wait<WriteReply>([&](Done<WriteReply> done) {
    coordinator->Delete(name, std::move(ids), {}, std::move(done));
  });
}

absl::StatusOr<WriteReply> FakeCluster::Write(WriteBatch batch,
                                              CallContext call) {
  return Wait<WriteReply>([&](Done<WriteReply> done) {
    if (!batch.upserts.empty()) {
      coordinator->Upsert(std::move(batch), call, std::move(done));
    } else if (!batch.updates.empty()) {
      coordinator->SetAttributes(std::move(batch), call, std::move(done));
    } else {
      coordinator->Delete(std::move(batch), call, std::move(done));
    }
  });
}

absl::StatusOr<int64_t> FakeCluster::Drop(const std::string& name) {
  return Wait<int64_t>([&](Done<int64_t> done) {
    coordinator->DeleteCollection(name, {}, std::move(done));
  });
}

Point MakePoint(PointId id, std::vector<float> vector) {
  Point point;
  point.id = id;
  point.vector = std::move(vector);
  return point;
}

SearchRequest Nearest(const std::string& collection, std::vector<float> query,
                      int64_t k) {
  SearchRequest request;
  request.collection = collection;
  request.queries.emplace_back(std::move(query));
  request.k = k;
  return request;
}

std::vector<PointId> IdsOf(const SearchReply& reply, size_t query) {
  std::vector<PointId> ids;
  for (const Hit& hit : reply.results.at(query).hits) {
    ids.push_back(hit.neighbor.id);
  }
  return ids;
}

std::vector<Neighbor> ModelNearest(Metric metric,
                                   const std::vector<Point>& points,
                                   VectorView query, int64_t k,
                                   int64_t offset) {
  std::vector<Neighbor> all;
  for (const Point& point : points) {
    all.push_back({point.id, ModelDistance(metric, query, point.vector)});
  }
  std::sort(all.begin(), all.end(), NeighborLess);
  const int64_t n = static_cast<int64_t>(all.size());
  const int64_t begin = std::min(offset, n);
  const int64_t end = std::min(offset + k, n);
  return {all.begin() + begin, all.begin() + end};
}

std::vector<Point> RandomPoints(int64_t n, int32_t dimension,
                                std::mt19937_64* random) {
  std::set<PointId> ids;
  if (n > 1) {
    ids = {0, std::numeric_limits<PointId>::max()};
  }
  while (static_cast<int64_t>(ids.size()) < n) {
    ids.insert((*random)());
  }
  std::vector<Point> points;
  for (PointId id : ids) {
    Point& point = points.emplace_back();
    point.id = id;
    for (int32_t j = 0; j < dimension; ++j) {
      point.vector.push_back(static_cast<float>((*random)() % 5) - 2.0f);
    }
    point.vector[0] = point.vector[0] == 0 ? 1.0f : point.vector[0];
    point.attributes["parity"] = static_cast<int64_t>(id % 2);
  }
  return points;
}

}  // namespace coterie
