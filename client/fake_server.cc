#include "client/fake_server.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "api/grpc_status.h"
#include "api/status_details.h"

namespace coterie {
namespace {

constexpr int kMaxMessageBytes = 16 << 20;
constexpr int kShards = 2;
// Pretended work: rows 0..2 of each shard are evaluated, others ruled out.
constexpr int64_t kEvaluated = 3;

std::vector<float> Floats(const v1::Vector& vector) {
  if (vector.has_values()) {
    return {vector.values().values().begin(), vector.values().values().end()};
  }
  std::vector<float> floats(vector.packed().data().size() / sizeof(float));
  std::memcpy(floats.data(), vector.packed().data().data(),
              floats.size() * sizeof(float));
  return floats;
}

double SquaredL2(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    sum += difference * difference;
  }
  return sum;
}

bool Equal(const v1::AttributeValue& a, const v1::AttributeValue& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

bool Admits(const v1::Filter& filter, const v1::Point& point) {
  for (const v1::Condition& condition : filter.must()) {
    const auto found = point.attributes().find(condition.match().attribute());
    if (found == point.attributes().end()) return false;
    const auto& wanted = condition.match().any_of();
    if (std::none_of(wanted.begin(), wanted.end(),
                     [&](const v1::AttributeValue& value) {
                       return Equal(value, found->second);
                     })) {
      return false;
    }
  }
  return true;
}

template <typename Map>
void Select(const v1::AttributeSelector& selector, const Map& attributes,
            Map* out) {
  if (selector.all()) *out = attributes;
  for (const std::string& name : selector.names().values()) {
    const auto found = attributes.find(name);
    if (found != attributes.end()) (*out)[name] = found->second;
  }
}

void FillEvidence(const std::map<uint64_t, v1::Point>& points,
                  v1::SearchResponse* reply) {
  v1::Certificate* certificate = reply->mutable_certificate();
  certificate->set_map_version(3);
  for (int shard = 0; shard < kShards; ++shard) {
    const int64_t live =
        std::count_if(points.begin(), points.end(), [&](const auto& entry) {
          return entry.first % kShards == static_cast<uint64_t>(shard);
        });
    v1::ShardCertificate* account = certificate->add_shards();
    account->set_shard_id(shard);
    account->set_sequence(100 + shard);
    account->set_rows_live(live);
    v1::QueryAccount* query = account->add_queries();
    query->set_rows_evaluated(std::min(kEvaluated, live));
    query->set_rows_ruled_out(live - query->rows_evaluated());
    v1::ShardProfile* work = reply->mutable_profile()->add_shards();
    work->set_shard_id(shard);
    work->set_plan("exact float32 scan");
    work->set_rows_scanned(live);
    work->set_bytes_scanned(live * 1'000'000);
    work->set_scan_seconds(0.00125);
    work->set_round_trip_seconds(0.0025);
  }
  reply->mutable_profile()->set_total_seconds(0.003);
  reply->mutable_cost()->set_messages(4);
  reply->mutable_cost()->set_bytes_sent(1500);
}

}  // namespace

FakeServer::FakeServer() {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.RegisterService(static_cast<v1::CollectionService::Service*>(this));
  builder.RegisterService(static_cast<v1::PointService::Service*>(this));
  builder.RegisterService(static_cast<v1::SearchService::Service*>(this));
  builder.RegisterService(static_cast<v1::ClusterService::Service*>(this));
  builder.RegisterService(
      static_cast<grpc::health::v1::Health::Service*>(this));
  server_ = builder.BuildAndStart();
  assert(server_ != nullptr && port != 0);
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeServer::~FakeServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void FakeServer::Fail(const std::string& method, const absl::Status& status,
                      int times, int after) {
  MutexLock lock(&mu_);
  failures_[method] = {status, times, after};
}

void FakeServer::AlterSearchReply(
    std::function<void(v1::SearchResponse*)> alter) {
  MutexLock lock(&mu_);
  alter_ = std::move(alter);
}

int64_t FakeServer::calls(const std::string& method) const {
  MutexLock lock(&mu_);
  const auto found = calls_.find(method);
  return found == calls_.end() ? 0 : found->second;
}

double FakeServer::last_deadline_seconds() const {
  MutexLock lock(&mu_);
  return last_deadline_seconds_;
}

v1::SearchRequest FakeServer::last_search() const {
  MutexLock lock(&mu_);
  return last_search_;
}

std::vector<int> FakeServer::batches() const {
  MutexLock lock(&mu_);
  return batches_;
}

std::vector<v1::UpsertRequest> FakeServer::upserts() const {
  MutexLock lock(&mu_);
  return upserts_;
}

std::map<uint64_t, v1::Point> FakeServer::points(
    const std::string& collection) const {
  MutexLock lock(&mu_);
  const auto found = collections_.find(collection);
  return found == collections_.end() ? std::map<uint64_t, v1::Point>()
                                     : found->second.points;
}

v1::Collection FakeServer::collection(const std::string& name) const {
  MutexLock lock(&mu_);
  const auto found = collections_.find(name);
  return found == collections_.end() ? v1::Collection()
                                     : found->second.collection;
}

absl::Status FakeServer::Begin(const std::string& method,
                               const grpc::ServerContext& context) {
  ++calls_[method];
  last_deadline_seconds_ =
      std::chrono::duration<double>(context.deadline() -
                                    std::chrono::system_clock::now())
          .count();
  const auto failure = failures_.find(method);
  if (failure == failures_.end() || failure->second.times == 0) {
    return absl::OkStatus();
  }
  if (failure->second.after > 0) {
    --failure->second.after;
    return absl::OkStatus();
  }
  --failure->second.times;
  return failure->second.status;
}

absl::StatusOr<FakeServer::Stored*> FakeServer::Find(const std::string& name) {
  const auto found = collections_.find(name);
  if (found != collections_.end()) return &found->second;
  return absl::NotFoundError(
      absl::StrCat("collection \"", name, "\" does not exist"));
}

grpc::Status FakeServer::CreateCollection(
    grpc::ServerContext* context, const v1::CreateCollectionRequest* request,
    v1::CreateCollectionResponse* reply) {
  MutexLock lock(&mu_);
  absl::Status status = Begin("CreateCollection", *context);
  if (!status.ok()) return ToGrpcStatus(status);
  v1::Collection made = request->collection();
  if (made.dimension() < 1) {
    return ToGrpcStatus(
        InvalidField("collection.dimension", "is 0; expected 1..16384"));
  }
  if (made.slots() == 0) made.set_slots(64);
  if (!collections_.emplace(made.name(), Stored{made, {}}).second) {
    return ToGrpcStatus(absl::AlreadyExistsError(
        absl::StrCat("collection \"", made.name(), "\" exists")));
  }
  *reply->mutable_collection() = made;
  return grpc::Status::OK;
}

grpc::Status FakeServer::GetCollection(grpc::ServerContext* context,
                                       const v1::GetCollectionRequest* request,
                                       v1::GetCollectionResponse* reply) {
  MutexLock lock(&mu_);
  absl::Status status = Begin("GetCollection", *context);
  if (!status.ok()) return ToGrpcStatus(status);
  absl::StatusOr<Stored*> stored = Find(request->name());
  if (!stored.ok()) return ToGrpcStatus(stored.status());
  *reply->mutable_collection() = (*stored)->collection;
  const auto points = static_cast<int64_t>((*stored)->points.size());
  v1::CollectionStats* stats = reply->mutable_stats();
  stats->set_points(points);
  stats->set_vector_bytes(points * (*stored)->collection.dimension() * 4);
  stats->set_memory_bytes(5'000'000);
  v1::ShardCollectionStats* shard = stats->add_shards();
  for (int i = 0; i < (*stored)->collection.indexes_size(); ++i) {
    v1::IndexState* index = shard->add_indexes();
    index->set_kind(v1::IndexState::TREE);
    index->set_segments(4);
    index->set_segments_ready(3);
    index->set_rows(40'000);
    index->set_rows_ready(30'000);
    index->set_bytes(2'000'000);
    index->set_bytes_expected(700'000);
    index->set_note("building over 0000000007.seg");
  }
  shard->set_shard_id(0);
  shard->set_points(points);
  shard->set_slots((*stored)->collection.slots());
  shard->set_sequence(7);
  return grpc::Status::OK;
}

grpc::Status FakeServer::ListCollections(grpc::ServerContext* context,
                                         const v1::ListCollectionsRequest*,
                                         v1::ListCollectionsResponse* reply) {
  MutexLock lock(&mu_);
  absl::Status status = Begin("ListCollections", *context);
  if (!status.ok()) return ToGrpcStatus(status);
  for (const auto& [name, stored] : collections_) {
    *reply->add_collections() = stored.collection;
  }
  return grpc::Status::OK;
}

grpc::Status FakeServer::DeleteCollection(
    grpc::ServerContext* context, const v1::DeleteCollectionRequest* request,
    v1::DeleteCollectionResponse* reply) {
  MutexLock lock(&mu_);
  absl::Status status = Begin("DeleteCollection", *context);
  if (!status.ok()) return ToGrpcStatus(status);
  absl::StatusOr<Stored*> stored = Find(request->name());
  if (!stored.ok()) return ToGrpcStatus(stored.status());
  reply->set_points_deleted(static_cast<int64_t>((*stored)->points.size()));
  collections_.erase(request->name());
  return grpc::Status::OK;
}

grpc::Status FakeServer::Upsert(grpc::ServerContext* context,
                                const v1::UpsertRequest* request,
                                v1::UpsertResponse* reply) {
  MutexLock lock(&mu_);
  upserts_.push_back(*request);
  absl::Status status = Begin("Upsert", *context);
  if (!status.ok()) return ToGrpcStatus(status);
  absl::StatusOr<Stored*> stored = Find(request->collection());
  if (!stored.ok()) return ToGrpcStatus(stored.status());
  for (int i = 0; i < request->points_size(); ++i) {
    const std::vector<float> vector = Floats(request->points(i).vector());
    const bool zero = std::all_of(vector.begin(), vector.end(),
                                  [](float value) { return value == 0; });
    if (zero && (*stored)->collection.metric() == v1::COSINE) {
      return ToGrpcStatus(InvalidField(absl::StrCat("points[", i, "].vector"),
                                       "is zero, which COSINE refuses"));
    }
  }
  for (const v1::Point& point : request->points()) {
    (*stored)->points[point.id()] = point;
  }
  batches_.push_back(request->points_size());
  reply->set_upserted(request->points_size());
  return grpc::Status::OK;
}

grpc::Status FakeServer::Delete(grpc::ServerContext* context,
                                const v1::DeleteRequest* request,
                                v1::DeleteResponse* reply) {
  MutexLock lock(&mu_);
  absl::Status status = Begin("Delete", *context);
  if (!status.ok()) return ToGrpcStatus(status);
  absl::StatusOr<Stored*> stored = Find(request->collection());
  if (!stored.ok()) return ToGrpcStatus(stored.status());
  int64_t deleted = 0;
  for (const uint64_t id : request->ids()) {
    deleted += static_cast<int64_t>((*stored)->points.erase(id));
  }
  auto& points = (*stored)->points;
  for (auto at = points.begin(); request->has_filter() && at != points.end();) {
    if (!Admits(request->filter(), at->second)) {
      ++at;
      continue;
    }
    ++deleted;
    at = request->dry_run() ? std::next(at) : points.erase(at);
  }
  reply->set_deleted(deleted);
  return grpc::Status::OK;
}

grpc::Status FakeServer::Get(grpc::ServerContext* context,
                             const v1::GetRequest* request,
                             v1::GetResponse* reply) {
  MutexLock lock(&mu_);
  absl::Status status = Begin("Get", *context);
  if (!status.ok()) return ToGrpcStatus(status);
  absl::StatusOr<Stored*> stored = Find(request->collection());
  if (!stored.ok()) return ToGrpcStatus(stored.status());
  for (const uint64_t id : request->ids()) {
    const auto found = (*stored)->points.find(id);
    if (found == (*stored)->points.end()) {
      reply->add_missing(id);
      continue;
    }
    v1::Point* point = reply->add_points();
    point->set_id(id);
    if (request->with_vectors()) {
      *point->mutable_vector() = found->second.vector();
    }
    Select(request->with_attributes(), found->second.attributes(),
           point->mutable_attributes());
  }
  return grpc::Status::OK;
}

grpc::Status FakeServer::Count(grpc::ServerContext* context,
                               const v1::CountRequest* request,
                               v1::CountResponse* reply) {
  MutexLock lock(&mu_);
  absl::Status status = Begin("Count", *context);
  if (!status.ok()) return ToGrpcStatus(status);
  absl::StatusOr<Stored*> stored = Find(request->collection());
  if (!stored.ok()) return ToGrpcStatus(stored.status());
  const auto& points = (*stored)->points;
  reply->set_count(
      std::count_if(points.begin(), points.end(), [&](const auto& point) {
        return Admits(request->filter(), point.second);
      }));
  return grpc::Status::OK;
}

grpc::Status FakeServer::Scan(grpc::ServerContext* context,
                              const v1::ScanRequest* request,
                              grpc::ServerWriter<v1::ScanResponse>* writer) {
  MutexLock lock(&mu_);
  absl::Status status = Begin("Scan", *context);
  if (!status.ok()) return ToGrpcStatus(status);
  absl::StatusOr<Stored*> stored = Find(request->collection());
  if (!stored.ok()) return ToGrpcStatus(stored.status());
  int64_t sent = 0;
  for (const auto& [id, point] : (*stored)->points) {
    if (request->limit() > 0 && sent == request->limit()) break;
    if (!Admits(request->filter(), point)) continue;
    v1::ScanResponse page;
    v1::Point* found = page.add_points();
    found->set_id(id);
    if (request->with_vectors()) *found->mutable_vector() = point.vector();
    Select(request->with_attributes(), point.attributes(),
           found->mutable_attributes());
    writer->Write(page);
    ++sent;
  }
  return grpc::Status::OK;
}

grpc::Status FakeServer::Search(grpc::ServerContext* context,
                                const v1::SearchRequest* request,
                                v1::SearchResponse* reply) {
  MutexLock lock(&mu_);
  last_search_ = *request;
  absl::Status status = Begin("Search", *context);
  if (!status.ok()) return ToGrpcStatus(status);
  absl::StatusOr<Stored*> stored = Find(request->collection());
  if (!stored.ok()) return ToGrpcStatus(stored.status());
  const std::map<uint64_t, v1::Point>& points = (*stored)->points;
  const v1::Query& query = request->queries(0);
  if (query.has_id() && points.count(query.id()) == 0) {
    return ToGrpcStatus(absl::NotFoundError(
        absl::StrCat("queries[0]: id ", query.id(), " is not stored")));
  }
  const std::vector<float> wanted =
      Floats(query.has_id() ? points.at(query.id()).vector() : query.vector());
  if (static_cast<int>(wanted.size()) != (*stored)->collection.dimension()) {
    return ToGrpcStatus(InvalidField(
        "queries[0].vector",
        absl::StrCat("has ", wanted.size(), " components; dimension is ",
                     (*stored)->collection.dimension())));
  }
  std::vector<std::pair<double, uint64_t>> order;
  for (const auto& [id, point] : points) {
    const double distance = SquaredL2(wanted, Floats(point.vector()));
    if (request->has_radius() && distance > request->radius()) continue;
    if (!Admits(request->filter(), point)) continue;
    order.emplace_back(distance, id);
  }
  std::sort(order.begin(), order.end());
  if (!request->has_radius() &&
      order.size() > static_cast<size_t>(request->k())) {
    order.resize(request->k());
  }
  v1::QueryResult* result = reply->add_results();
  result->set_exact(true);
  for (const auto& [distance, id] : order) {
    v1::Hit* hit = result->add_hits();
    hit->set_id(id);
    hit->set_distance(distance);
    const v1::Point& point = points.at(id);
    if (request->with_vectors()) *hit->mutable_vector() = point.vector();
    Select(request->with_attributes(), point.attributes(),
           hit->mutable_attributes());
  }
  v1::Coverage* coverage = reply->mutable_coverage();
  coverage->set_shards_total(kShards);
  coverage->set_shards_ok(kShards);
  coverage->set_rows_total(static_cast<int64_t>(points.size()));
  coverage->set_rows_covered(coverage->rows_total());
  if (request->profile()) FillEvidence(points, reply);
  if (alter_) alter_(reply);
  return grpc::Status::OK;
}

grpc::Status FakeServer::Check(
    grpc::ServerContext* context,
    const grpc::health::v1::HealthCheckRequest* request,
    grpc::health::v1::HealthCheckResponse* reply) {
  MutexLock lock(&mu_);
  absl::Status status = Begin("Check", *context);
  if (status.ok() && request->service() == "") {
    reply->set_status(grpc::health::v1::HealthCheckResponse::SERVING);
  } else if (status.ok() && request->service() == "shard/1") {
    reply->set_status(grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  } else if (status.ok()) {
    status = absl::NotFoundError("unknown service");
  }
  return ToGrpcStatus(status);
}

grpc::Status FakeServer::Describe(grpc::ServerContext* context,
                                  const v1::DescribeRequest*,
                                  v1::DescribeResponse* reply) {
  MutexLock lock(&mu_);
  absl::Status status = Begin("Describe", *context);
  if (!status.ok()) return ToGrpcStatus(status);
  reply->set_version("9.9.9");
  reply->set_cluster_uuid("0f9e");
  reply->set_simd("scalar");
  reply->set_uptime_seconds(75);
  v1::ShardDescription* shard = reply->add_shards();
  shard->set_address("in-process");
  shard->set_state(v1::ShardDescription::SERVING);
  shard = reply->add_shards();
  shard->set_shard_id(1);
  shard->set_address("10.0.0.1:7600");
  shard->set_state(v1::ShardDescription::UNREACHABLE);
  shard->set_reason("connection refused");
  v1::Limit* limit = reply->add_limits();
  limit->set_name("k");
  limit->set_value(10000);
  return grpc::Status::OK;
}

}  // namespace coterie
