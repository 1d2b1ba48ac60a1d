#include "coordinator/fake_shard_client.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/fake_shard_answer.h"
#include "coordinator/model_distance.h"

namespace coterie {

FakeShardClient::FakeShardClient(int32_t shard_id, int32_t shards_total,
                                 Options options)
    : shard_id_(shard_id),
      shards_total_(shards_total),
      options_(std::move(options)) {
  if (options_.own_thread) {
    thread_ = std::thread([this] { Work(); });
  }
}

FakeShardClient::~FakeShardClient() { Stop(); }

void FakeShardClient::Stop() {
  std::vector<absl::AnyInvocable<void()>> dropped;
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    dropped.swap(held_);
  }
  work_ready_.NotifyAll();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void FakeShardClient::Work() {
  for (;;) {
    absl::AnyInvocable<void()> next;
    {
      MutexLock lock(&mu_);
      while (work_.empty()) {
        if (stopping_) {
          return;
        }
        work_ready_.Wait(&mu_);
      }
      next = std::move(work_.front());
      work_.pop_front();
    }
    next();
  }
}

void FakeShardClient::Fail(const std::string& method, absl::Status status) {
  MutexLock lock(&mu_);
  failures_[method] = std::move(status);
}

void FakeShardClient::FailOnce(const std::string& method, absl::Status status) {
  MutexLock lock(&mu_);
  failures_once_[method] = std::move(status);
}

void FakeShardClient::LoseReplyOnce(const std::string& method,
                                    absl::Status status) {
  MutexLock lock(&mu_);
  lost_replies_[method] = std::move(status);
}

void FakeShardClient::Hold(const std::string& method) {
  MutexLock lock(&mu_);
  holding_[method] = true;
}

void FakeShardClient::Release() {
  std::vector<absl::AnyInvocable<void()>> released;
  {
    MutexLock lock(&mu_);
    holding_.clear();
    released.swap(held_);
  }
  for (auto& answer : released) {
    answer();
  }
}

void FakeShardClient::EditSearches(
    std::function<void(ShardSearchReply*)> edit) {
  MutexLock lock(&mu_);
  edit_ = std::move(edit);
}

void FakeShardClient::BeforePut(std::function<void()> hook) {
  MutexLock lock(&mu_);
  before_put_ = std::move(hook);
}

int64_t FakeShardClient::calls(const std::string& method) const {
  MutexLock lock(&mu_);
  auto it = calls_.find(method);
  return it == calls_.end() ? 0 : it->second;
}

CallContext FakeShardClient::last_call(const std::string& method) const {
  MutexLock lock(&mu_);
  return last_calls_.at(method);
}

int64_t FakeShardClient::open_scans() const {
  MutexLock lock(&mu_);
  return open_scans_;
}

void FakeShardClient::SetCatalogue(Catalogue catalogue) {
  MutexLock lock(&mu_);
  catalogue_ = std::move(catalogue);
}

Catalogue FakeShardClient::catalogue() const {
  MutexLock lock(&mu_);
  return catalogue_;
}

void FakeShardClient::Plant(const std::string& collection, Point point) {
  MutexLock lock(&mu_);
  const PointId id = point.id;
  rows_[catalogue_.Find(collection)->number][id] = std::move(point);
}

int64_t FakeShardClient::points(const std::string& collection) const {
  MutexLock lock(&mu_);
  const CollectionSpec* spec = catalogue_.Find(collection);
  if (spec == nullptr) {
    return 0;
  }
  auto it = rows_.find(spec->number);
  return it == rows_.end() ? 0 : static_cast<int64_t>(it->second.size());
}

absl::StatusOr<const CollectionSpec*> FakeShardClient::Find(
    const std::string& name, uint32_t number) const {
  const CollectionSpec* spec = catalogue_.Find(name);
  if (spec == nullptr) {
    return absl::NotFoundError(absl::StrCat("no collection ", name));
  }
  if (number != 0 && spec->number != number) {
    return absl::AbortedError(absl::StrCat("another collection ", name));
  }
  return spec;
}

bool FakeShardClient::Owns(const CollectionSpec& spec, PointId id) const {
  return spec.owner[static_cast<size_t>(SlotOf(id, spec.slots))] == shard_id_;
}

absl::StatusOr<ShardSearchReply> FakeShardClient::RunSearch(
    const SearchRequest& request) {
  MutexLock lock(&mu_);
  absl::StatusOr<const CollectionSpec*> spec = Find(request.collection);
  if (!spec.ok()) {
    return spec.status();
  }
  const Rows& rows = rows_[(*spec)->number];
  ShardSearchReply reply;
  reply.shard_id = shard_id_;
  reply.catalogue_version = catalogue_.version;
  reply.sequence = sequence_;
  reply.rows_live = static_cast<int64_t>(rows.size());
  for (int32_t s = 0; s < (*spec)->slots; ++s) {
    if ((*spec)->owner[static_cast<size_t>(s)] != shard_id_) {
      continue;
    }
    SlotState& state = reply.slots.emplace_back();
    state.slot = s;
    for (const auto& [id, point] : rows) {
      if (SlotOf(id, (*spec)->slots) == s) {
        ++state.rows;
        state.id_checksum += SplitMix64(id);
      }
    }
  }
  for (const SearchRequest::Query& query : request.queries) {
    const auto& q = std::get<std::vector<float>>(query);
    std::vector<Hit>& hits = reply.results.emplace_back();
    QueryAccount& account = reply.accounts.emplace_back();
    for (const auto& [id, point] : rows) {
      if (!Admits(request.filter, id, point.attributes)) {
        ++account.filtered;
        continue;
      }
      ++account.evaluated;
      Hit hit;
      hit.neighbor = {id, ModelDistance((*spec)->metric, q, point.vector)};
      if (request.radius.has_value() &&
          hit.neighbor.distance > *request.radius) {
        continue;
      }
      if (request.with_vectors) {
        hit.vector = point.vector;
      }
      hit.attributes = request.with_attributes.Select(point.attributes);
      hits.push_back(std::move(hit));
    }
    std::sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) {
      return NeighborLess(a.neighbor, b.neighbor);
    });
    if (static_cast<int64_t>(hits.size()) > request.k) {
      if (request.radius.has_value()) {
        return absl::ResourceExhaustedError("more than k within the radius");
      }
      hits.resize(static_cast<size_t>(request.k));
    }
  }
  reply.times.plan = "model";
  reply.times.rows_scanned = reply.rows_live;
  if (edit_) {
    edit_(&reply);
  }
  return reply;
}

void FakeShardClient::Search(std::shared_ptr<const SearchRequest> request,
                             CallContext call, Done<ShardSearchReply> done) {
  Answer<ShardSearchReply>(
      "Search", call,
      [this, request = std::move(request)] { return RunSearch(*request); },
      std::move(done));
}

void FakeShardClient::Write(WriteBatch batch, CallContext call,
                            Done<WriteReply> done) {
  Answer<WriteReply>(
      "Write", call,
      [this, batch = std::move(batch)] { return RunWrite(batch); },
      std::move(done));
}

absl::StatusOr<GetReply> FakeShardClient::RunGet(const GetRequest& request) {
  MutexLock lock(&mu_);
  absl::StatusOr<const CollectionSpec*> spec =
      Find(request.collection, request.number);
  if (!spec.ok()) {
    return spec.status();
  }
  const Rows& rows = rows_[(*spec)->number];
  GetReply reply;
  for (PointId id : request.ids) {
    auto it = rows.find(id);
    if (it == rows.end()) {
      reply.missing.push_back(id);
      continue;
    }
    Point& point = reply.points.emplace_back();
    point.id = id;
    if (request.with_vectors) {
      point.vector = it->second.vector;
    }
    point.attributes = request.with_attributes.Select(it->second.attributes);
  }
  return reply;
}

void FakeShardClient::Get(GetRequest request, CallContext call,
                          Done<GetReply> done) {
  Answer<GetReply>(
      "Get", call,
      [this, request = std::move(request)] { return RunGet(request); },
      std::move(done));
}

void FakeShardClient::Count(CountRequest request, CallContext call,
                            Done<CountReply> done) {
  Answer<CountReply>(
      "Count", call,
      [this, request = std::move(request)]() -> absl::StatusOr<CountReply> {
        MutexLock lock(&mu_);
        absl::StatusOr<const CollectionSpec*> spec =
            Find(request.collection, request.number);
        if (!spec.ok()) {
          return spec.status();
        }
        CountReply reply;
        for (const auto& [id, point] : rows_[(*spec)->number]) {
          reply.count += Admits(request.filter, id, point.attributes) ? 1 : 0;
        }
        return reply;
      },
      std::move(done));
}

absl::StatusOr<ScanPage> FakeShardClient::RunNext(
    const ScanRequest& request,
    std::optional<std::pair<int32_t, PointId>>* after, int64_t* sent) {
  MutexLock lock(&mu_);
  absl::StatusOr<const CollectionSpec*> spec =
      Find(request.collection, request.number);
  if (!spec.ok()) {
    return spec.status();
  }
  std::map<std::pair<int32_t, PointId>, const Point*> ordered;
  for (const auto& [id, point] : rows_[(*spec)->number]) {
    const int32_t slot = SlotOf(id, (*spec)->slots);
    if (slot % request.slices == request.slice &&
        Admits(request.filter, id, point.attributes)) {
      ordered[{slot, id}] = &point;
    }
  }
  ScanPage page;
  auto it = after->has_value() ? ordered.upper_bound(**after) : ordered.begin();
  const auto full = [&] { return request.limit > 0 && *sent == request.limit; };
  for (; it != ordered.end() && !full() &&
         static_cast<int64_t>(page.points.size()) < options_.scan_page_points;
       ++it) {
    page.points.push_back(*it->second);
    if (!request.with_vectors) {
      page.points.back().vector.clear();
    }
    *after = it->first;
    ++*sent;
  }
  page.end = it == ordered.end() || full();
  return page;
}

class FakeShardClient::Stream final : public PointStream {
 public:
  Stream(FakeShardClient* shard, ScanRequest request, CallContext call)
      : shard_(shard), call_(std::move(call)) {
    cursor_->request = std::move(request);
    MutexLock lock(&shard_->mu_);
    ++shard_->open_scans_;
  }
  ~Stream() override {
    MutexLock lock(&shard_->mu_);
    --shard_->open_scans_;
  }

  void Next(Done<ScanPage> done) override {
    shard_->Answer<ScanPage>(
        "Next", call_,
        [shard = shard_, cursor = cursor_] {
          return shard->RunNext(cursor->request, &cursor->after, &cursor->sent);
        },
        std::move(done));
  }

 private:
  struct Cursor {
    ScanRequest request;
    std::optional<std::pair<int32_t, PointId>> after;
    int64_t sent = 0;
  };
  FakeShardClient* const shard_;
  const CallContext call_;
  const std::shared_ptr<Cursor> cursor_ = std::make_shared<Cursor>();
};

std::unique_ptr<PointStream> FakeShardClient::Scan(ScanRequest request,
                                                   CallContext call) {
  {
    MutexLock lock(&mu_);
    ++calls_["Scan"];
    last_calls_["Scan"] = call;
  }
  return std::make_unique<Stream>(this, std::move(request), std::move(call));
}

void FakeShardClient::ReadCatalogue(CallContext call, Done<Catalogue> done) {
  Answer<Catalogue>(
      "ReadCatalogue", call,
      [this]() -> absl::StatusOr<Catalogue> { return catalogue(); },
      std::move(done));
}

absl::StatusOr<int64_t> FakeShardClient::RunPut(int64_t expected,
                                                Catalogue catalogue) {
  std::function<void()> hook;
  {
    MutexLock lock(&mu_);
    hook = before_put_;
  }
  if (hook) {
    hook();
  }
  MutexLock lock(&mu_);
  if (catalogue_.version != expected) {
    return absl::AbortedError(absl::StrCat("version is ", catalogue_.version,
                                           ", expected ", expected));
  }
  catalogue_ = std::move(catalogue);
  std::map<uint32_t, Rows> kept;
  for (const CollectionSpec& spec : catalogue_.collections) {
    kept[spec.number] = std::move(rows_[spec.number]);
  }
  rows_ = std::move(kept);
  return catalogue_.version;
}

void FakeShardClient::PutCatalogue(int64_t expected_version,
                                   Catalogue catalogue, CallContext call,
                                   Done<int64_t> done) {
  Answer<int64_t>(
      "PutCatalogue", call,
      [this, expected_version, catalogue = std::move(catalogue)]() mutable {
        return RunPut(expected_version, std::move(catalogue));
      },
      std::move(done));
}

void FakeShardClient::CollectionStats(std::string collection, CallContext call,
                                      Done<ShardCollectionStats> done) {
  Answer<ShardCollectionStats>(
      "CollectionStats", call,
      [this, collection = std::move(
                 collection)]() -> absl::StatusOr<ShardCollectionStats> {
        MutexLock lock(&mu_);
        absl::StatusOr<const CollectionSpec*> spec = Find(collection);
        if (!spec.ok()) {
          return spec.status();
        }
        ShardCollectionStats stats;
        stats.shard_id = shard_id_;
        stats.points = static_cast<int64_t>(rows_[(*spec)->number].size());
        stats.slots = static_cast<int32_t>(std::count(
            (*spec)->owner.begin(), (*spec)->owner.end(), shard_id_));
        stats.sequence = sequence_;
        return stats;
      },
      std::move(done));
}

void FakeShardClient::Describe(CallContext call, Done<ShardDescription> done) {
  Answer<ShardDescription>(
      "Describe", call,
      [this]() -> absl::StatusOr<ShardDescription> {
        MutexLock lock(&mu_);
        ShardDescription description;
        description.shard_id = shard_id_;
        description.address = "fake";
        description.cluster_uuid = options_.cluster_uuid;
        description.shards_total = shards_total_;
        description.store_id = options_.store_id;
        description.catalogue_version = catalogue_.version;
        description.sequence = sequence_;
        return description;
      },
      std::move(done));
}

}  // namespace coterie
