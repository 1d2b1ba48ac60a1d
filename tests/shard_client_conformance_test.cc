// What a ShardClient promises, held against both of its kinds: within the
// process and over gRPC. Behind each stands a real shard.

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "api/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/local_cluster.h"
#include "tests/served_shard.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kUuid[] = "01234567-89ab-4def-8123-456789abcdef";
constexpr int32_t kShard = 1;
constexpr int32_t kDimension = 3;

enum class Kind { kInProcess, kGrpc };

CollectionSpec TheCollection() {
  CollectionSpec spec;
  spec.name = "c";
  spec.number = 1;
  spec.dimension = kDimension;
  spec.slots = 3;
  spec.owner = {kShard, 0, kShard};
  return spec;
}

// Ids of slots that the shard owns, in order.
std::vector<PointId> OwnIds(int64_t n) {
  std::vector<PointId> ids;
  for (PointId id = 0; static_cast<int64_t>(ids.size()) < n; ++id) {
    if (SlotOf(id, 3) != 1) ids.push_back(id);
  }
  return ids;
}

PointId ForeignId() {
  PointId id = 0;
  while (SlotOf(id, 3) != 1) ++id;
  return id;
}

std::vector<Point> RandomPoints(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Point> points;
  for (const PointId id : OwnIds(n)) {
    Point& point = points.emplace_back();
    point.id = id;
    for (int i = 0; i < kDimension; ++i) {
      // Coarse, so that distances tie.
      point.vector.push_back(static_cast<float>(random() % 5) - 2);
    }
    if (random() % 2 == 0) point.attributes["odd"] = true;
    if (random() % 2 == 0) {
      point.attributes["n"] = static_cast<int64_t>(random() % 10);
    }
  }
  return points;
}

SearchRequest Nearest(std::vector<std::vector<float>> queries, int64_t k) {
  SearchRequest request;
  request.collection = "c";
  request.queries.assign(queries.begin(), queries.end());
  request.k = k;
  return request;
}

// Shard 1 of 2, with a collection "c" of three slots of which it owns two.
class Conformance : public testing::TestWithParam<Kind> {
 protected:
  Conformance() {
    options_.shard_id = kShard;
    options_.shards_total = 2;
    options_.cluster_uuid = kUuid;
    const char* parent = std::getenv("TEST_TMPDIR");
    options_.path = absl::StrCat(parent == nullptr ? "/tmp" : parent,
                                 "/conformance.", std::string(6, 'X'));
    EXPECT_NE(mkdtemp(options_.path.data()), nullptr);
  }

  void Open() {
    served_ = std::make_unique<ServedShard>(options_);
    if (GetParam() == Kind::kInProcess) {
      client_ = served_->InProcess();
    } else {
      client_ = served_->OverGrpc();
    }
  }
  void OpenWithCollection() {
    Open();
    Catalogue catalogue;
    catalogue.version = 1;
    catalogue.next_number = 2;
    catalogue.collections = {TheCollection()};
    const auto put = Put(0, catalogue);
    ASSERT_TRUE(put.ok()) << put.status();
  }
  void OpenWithPoints(int64_t n) {
    OpenWithCollection();
    const auto written = Write({"c", RandomPoints(n, 1), {}});
    ASSERT_TRUE(written.ok()) << written.status();
  }

  absl::StatusOr<int64_t> Put(int64_t expected, Catalogue catalogue) {
    return Await<int64_t>([&](Done<int64_t> done) {
      client_->PutCatalogue(expected, std::move(catalogue), {},
                            std::move(done));
    });
  }
  absl::StatusOr<WriteReply> Write(WriteBatch batch) {
    return Await<WriteReply>([&](Done<WriteReply> done) {
      client_->Write(std::move(batch), {}, std::move(done));
    });
  }
  absl::StatusOr<ShardSearchReply> Search(SearchRequest request,
                                          CallContext call = {}) {
    return Await<ShardSearchReply>([&](Done<ShardSearchReply> done) {
      client_->Search(std::make_shared<SearchRequest>(std::move(request)), call,
                      std::move(done));
    });
  }
  absl::StatusOr<GetReply> Get(GetRequest request) {
    return Await<GetReply>([&](Done<GetReply> done) {
      client_->Get(std::move(request), {}, std::move(done));
    });
  }
  absl::StatusOr<CountReply> Count(CountRequest request) {
    return Await<CountReply>([&](Done<CountReply> done) {
      client_->Count(std::move(request), {}, std::move(done));
    });
  }

  // That a failure names the shard wherever it comes from a wire.
  void ExpectNamed(const absl::Status& status) {
    if (GetParam() == Kind::kGrpc) {
      EXPECT_EQ(ShardOf(status), kShard) << status;
    }
  }

  ShardOptions options_;
  std::unique_ptr<ServedShard> served_;
  std::shared_ptr<ShardClient> client_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, Conformance,
                         testing::Values(Kind::kInProcess, Kind::kGrpc),
                         [](const auto& suite) {
                           return suite.param == Kind::kInProcess ? "InProcess"
                                                                  : "Grpc";
                         });

TEST_P(Conformance, DescribesItself) {
  OpenWithPoints(10);
  EXPECT_EQ(client_->shard_id(), kShard);
  const auto shard = Await<ShardDescription>([&](Done<ShardDescription> done) {
    client_->Describe({}, std::move(done));
  });
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_EQ(shard->shard_id, kShard);
  EXPECT_EQ(shard->shards_total, 2);
  EXPECT_EQ(shard->cluster_uuid, kUuid);
  EXPECT_EQ(shard->catalogue_version, 1);
  EXPECT_EQ(shard->incarnation, served_->shard().incarnation());
  EXPECT_EQ(shard->points, 10);
  EXPECT_EQ(shard->address, client_->address());
  EXPECT_EQ(shard->state, ShardDescription::State::kServing);
}

TEST_P(Conformance, KeepsTheCatalogueByCompareAndSet) {
  OpenWithCollection();
  const auto read = Await<Catalogue>([&](Done<Catalogue> done) {
    client_->ReadCatalogue({}, std::move(done));
  });
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->version, 1);
  EXPECT_EQ(read->next_number, 2U);
  EXPECT_THAT(read->collections, ElementsAre(TheCollection()));

  Catalogue next = *read;
  next.version = 2;
  next.collections.clear();
  const auto stale = Put(0, next);
  EXPECT_EQ(stale.status().code(), absl::StatusCode::kAborted)
      << stale.status();
  EXPECT_THAT(std::string(stale.status().message()), HasSubstr("0"));
  EXPECT_THAT(std::string(stale.status().message()), HasSubstr("1"));
  ExpectNamed(stale.status());
  const auto put = Put(1, next);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(*put, 2);
}

TEST_P(Conformance, WritesAreVisibleAndGetTellsWhatIsMissing) {
  OpenWithCollection();
  const std::vector<PointId> ids = OwnIds(3);
  const std::vector<Point> points = RandomPoints(3, 1);
  auto written = Write({"c", points, {}});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->upserted, 3);
  written = Write({"c", {}, {ids[1], OwnIds(4)[3]}});  // the last is not stored
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->upserted, 0);
  EXPECT_EQ(written->deleted, 1);

  GetRequest get{"c", {ids[2], ids[1], ids[0], ids[2]}, true, {true, {}}};
  const auto got = Get(get);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(got->missing, ElementsAre(ids[1]));
  ASSERT_EQ(got->points.size(), 3U);
  for (const auto& [at, id] : {std::pair{0, 2}, {1, 0}, {2, 2}}) {
    const Point& point = got->points[static_cast<size_t>(at)];
    const Point& stored = points[static_cast<size_t>(id)];
    EXPECT_EQ(point.id, stored.id);
    EXPECT_EQ(point.vector, stored.vector);
    EXPECT_EQ(point.attributes, stored.attributes);
  }
  get.with_vectors = false;
  get.with_attributes = {};
  const auto bare = Get(get);
  ASSERT_TRUE(bare.ok()) << bare.status();
  for (const Point& point : bare->points) {
    EXPECT_TRUE(point.vector.empty());
    EXPECT_TRUE(point.attributes.empty());
  }
}

TEST_P(Conformance, CountsAllOrWhatAFilterAdmits) {
  OpenWithPoints(100);
  EXPECT_EQ(Count({"c", {}})->count, 100);
  int64_t odd = 0;
  for (const Point& p : RandomPoints(100, 1)) odd += p.attributes.count("odd");
  Filter filter;
  filter.must = {HasAttributeCondition{"odd"}};
  const auto count = Count({"c", filter});
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(count->count, odd);
}

TEST_P(Conformance, ScansEveryPointOnceOverManyPages) {
  options_.limits.scan_page_bytes = 256;
  OpenWithPoints(100);
  ScanRequest request;
  request.collection = "c";
  request.with_vectors = true;
  request.with_attributes.all = true;
  std::unique_ptr<PointStream> stream = client_->Scan(request, {});
  std::map<PointId, Point> seen;
  int pages = 0;
  for (bool end = false; !end; ++pages) {
    const auto page = Await<ScanPage>(
        [&](Done<ScanPage> done) { stream->Next(std::move(done)); });
    ASSERT_TRUE(page.ok()) << page.status();
    for (const Point& point : page->points) {
      EXPECT_TRUE(seen.emplace(point.id, point).second) << point.id;
    }
    end = page->end;
  }
  EXPECT_GT(pages, 3);
  const std::vector<Point> points = RandomPoints(100, 1);
  ASSERT_EQ(seen.size(), points.size());
  for (const Point& point : points) {
    EXPECT_EQ(seen[point.id].vector, point.vector);
    EXPECT_EQ(seen[point.id].attributes, point.attributes);
  }
}

TEST_P(Conformance, AScanMayBeLeftAtAnyPage) {
  options_.limits.scan_page_bytes = 256;
  OpenWithPoints(100);
  ScanRequest request;
  request.collection = "c";
  request.with_vectors = true;
  for (int pages = 0; pages < 4; ++pages) {
    std::unique_ptr<PointStream> stream = client_->Scan(request, {});
    for (int i = 0; i < pages; ++i) {
      const auto page = Await<ScanPage>(
          [&](Done<ScanPage> done) { stream->Next(std::move(done)); });
      ASSERT_TRUE(page.ok()) << page.status();
      ASSERT_FALSE(page->end) << i;
    }
  }
  // Even by the callback of a page.
  auto stream = client_->Scan(request, {});
  std::promise<void> left;
  PointStream* raw = stream.get();
  raw->Next([&left, stream = std::move(stream)](
                const absl::StatusOr<ScanPage>& page) mutable {
    EXPECT_TRUE(page.ok());
    stream.reset();
    left.set_value();
  });
  left.get_future().wait();
}

TEST_P(Conformance, ErrorsKeepTheirCodesAndDetails) {
  OpenWithPoints(10);
  const absl::Status unknown = Count({"nobody", {}}).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("nobody"));
  ExpectNamed(unknown);

  const absl::Status dimension =
      Write({"c", {{OwnIds(1)[0], {1, 2}, {}}}, {}}).status();
  EXPECT_EQ(dimension.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(dimension), "points[0].vector") << dimension;
  ExpectNamed(dimension);

  const absl::Status foreign =
      Write({"c", {{ForeignId(), {1, 2, 3}, {}}}, {}}).status();
  EXPECT_EQ(foreign.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(foreign.message()), HasSubstr("slot 1"));
  ExpectNamed(foreign);

  const absl::Status length = Search(Nearest({{1, 2}}, 1)).status();
  EXPECT_EQ(length.code(), absl::StatusCode::kInvalidArgument);
  ExpectNamed(length);
}

TEST_P(Conformance, AFullQueueRefusesAtOnceAndSaysWhenToTryAgain) {
  options_.queue_capacity = 1;
  OpenWithPoints(10);
  auto blocked = std::make_unique<Blocked>(served_->shard());
  std::promise<absl::Status> waiting;
  served_->shard().Search(
      std::make_shared<SearchRequest>(Nearest({{1, 2, 3}}, 1)), {},
      [&](const absl::StatusOr<ShardSearchReply>& found) {
        waiting.set_value(found.status());
      });
  const auto refused = Search(Nearest({{1, 2, 3}}, 1));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterOf(refused.status()).has_value()) << refused.status();
  ExpectNamed(refused.status());
  blocked.reset();
  EXPECT_TRUE(waiting.get_future().get().ok());
}

TEST_P(Conformance, EndedCallsDoNothing) {
  OpenWithPoints(10);
  CallContext late;
  late.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(Search(Nearest({{1, 2, 3}}, 1), late).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  const auto token = std::make_shared<CancelToken>();
  token->Cancel();
  EXPECT_EQ(Search(Nearest({{1, 2, 3}}, 1), {absl::InfiniteFuture(), token})
                .status()
                .code(),
            absl::StatusCode::kCancelled);
}

TEST_P(Conformance, CancellingEndsACallThatWaits) {
  OpenWithPoints(10);
  auto blocked = std::make_unique<Blocked>(served_->shard());
  const auto parent = std::make_shared<CancelToken>();
  const auto token = std::make_shared<CancelToken>(parent);
  std::promise<absl::Status> ended;
  client_->Search(std::make_shared<SearchRequest>(Nearest({{1, 2, 3}}, 1)),
                  {absl::InfiniteFuture(), token},
                  [&](const absl::StatusOr<ShardSearchReply>& reply) {
                    ended.set_value(reply.status());
                  });
  parent->Cancel();
  // Over the wire the answer does not wait for the shard's thread.
  if (GetParam() == Kind::kInProcess) blocked.reset();
  EXPECT_EQ(ended.get_future().get().code(), absl::StatusCode::kCancelled);
}

TEST_P(Conformance, AStoppedShardIsUnavailable) {
  OpenWithPoints(10);
  served_->shard().Stop();
  const absl::Status status = Count({"c", {}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  ExpectNamed(status);
}

TEST_P(Conformance, OnlyTheWireHasLinks) {
  OpenWithPoints(10);
  const auto reply = Search(Nearest({{1, 2, 3}}, 1));
  ASSERT_TRUE(reply.ok()) << reply.status();
  const auto got = Get({"c", OwnIds(2), false, {}});
  ASSERT_TRUE(got.ok()) << got.status();
  for (const LinkUse& use : {reply->link, got->link}) {
    if (GetParam() == Kind::kInProcess) {
      EXPECT_EQ(use.bytes(), 0);
    } else {
      EXPECT_GT(use.bytes_sent, 5);
      EXPECT_GT(use.bytes_received, 5);
      EXPECT_GT(use.shard_seconds, 0);
    }
  }
}

// --- Both kinds at once -----------------------------------------------------

class BothKinds : public Conformance {
 protected:
  void Compare(SearchRequest request) {
    client_ = served_->InProcess();
    const auto near = Search(request);
    client_ = served_->OverGrpc();
    const auto far = Search(request);
    ASSERT_TRUE(near.ok()) << near.status();
    ASSERT_TRUE(far.ok()) << far.status();
    EXPECT_EQ(near->sequence, far->sequence);
    EXPECT_EQ(near->rows_live, far->rows_live);
    EXPECT_EQ(near->times.plan, far->times.plan);
    ASSERT_EQ(near->results.size(), far->results.size());
    for (size_t q = 0; q < near->results.size(); ++q) {
      EXPECT_EQ(near->accounts[q].evaluated, far->accounts[q].evaluated);
      ASSERT_EQ(near->results[q].size(), far->results[q].size());
      for (size_t h = 0; h < near->results[q].size(); ++h) {
        const Hit& a = near->results[q][h];
        const Hit& b = far->results[q][h];
        EXPECT_EQ(a.neighbor.id, b.neighbor.id);
        EXPECT_EQ(std::bit_cast<uint64_t>(a.neighbor.distance),
                  std::bit_cast<uint64_t>(b.neighbor.distance));
        EXPECT_EQ(a.vector, b.vector);
        EXPECT_EQ(a.attributes, b.attributes);
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Once, BothKinds, testing::Values(Kind::kInProcess));

TEST_P(BothKinds, GiveTheSameBytes) {
  OpenWithPoints(300);
  const char* text = std::getenv("SEED");
  const uint64_t seed =
      text == nullptr ? 20240229 : std::strtoull(text, nullptr, 10);
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  for (int round = 0; round < 20; ++round) {
    SearchRequest request =
        Nearest({{uniform(random), uniform(random), uniform(random)},
                 {1, 0, static_cast<float>(random() % 3)}},
                1 + static_cast<int64_t>(random() % 20));
    if (random() % 3 == 0) {
      request.radius = 0.75;
      request.k = 300;
    }
    request.with_vectors = random() % 2 == 0;
    request.with_attributes.all = random() % 2 == 0;
    if (random() % 3 == 0) request.with_attributes.names = {"n"};
    Compare(request);
  }
}

}  // namespace
}  // namespace coterie
