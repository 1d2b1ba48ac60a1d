#include "shard/snapshot_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/filtered_rows.h"
#include "shard/search_pass.h"
#include "shard/shard_testing.h"
#include "shard/written_snapshot.h"

namespace coterie {
namespace {

SearchRequest Request(std::vector<std::vector<float>> queries, int64_t k) {
  SearchRequest request;
  request.collection = "c";
  for (auto& query : queries) request.queries.push_back(std::move(query));
  request.k = k;
  return request;
}

absl::StatusOr<ShardSearchReply> Search(
    const CollectionSnapshot& snapshot, const SearchRequest& request,
    WorkQueue* queue, const CallContext& call = {},
    const FilteredRows* filtered = nullptr) {
  ReplyBudget budget(1 << 20);
  return SearchSnapshot(snapshot, request, Limits(), call, &budget, queue,
                        filtered);
}

std::vector<Neighbor> NeighborsOf(const std::vector<Hit>& hits) {
  std::vector<Neighbor> neighbors;
  for (const Hit& hit : hits) neighbors.push_back(hit.neighbor);
  return neighbors;
}

class SnapshotSearch : public ::testing::TestWithParam<Metric> {
 protected:
  SnapshotSearch() : seed_(TestSeed()), random_(seed_) {}

  std::vector<std::vector<float>> Queries(int64_t dimension) {
    std::vector<std::vector<float>> queries;
    for (int i = 0; i < 5; ++i) {
      queries.push_back(RandomVector(dimension, random_));
    }
    return queries;
  }

  const uint64_t seed_;
  Random random_;
  WorkQueue one_{1, 10};
  WorkQueue three_{3, 10};
};

INSTANTIATE_TEST_SUITE_P(Metrics, SnapshotSearch,
                         ::testing::Values(Metric::kSquaredL2,
                                           Metric::kInnerProduct,
                                           Metric::kCosine));

// From one row in a thousand to half of them: read one by one, or masked.
TEST_P(SnapshotSearch, FiltersBeforeTheCut) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  constexpr int64_t kDimension = 20;
  CollectionState state(TestCollection("c", 1, kDimension, GetParam(), 5), 0,
                        {.tail_rows = 2000});
  std::map<PointId, std::vector<float>> model;
  std::map<PointId, int64_t> numbers;
  for (int64_t sequence = 1; sequence <= 6000; ++sequence) {
    const PointId id = random_() % 4000;
    const auto number = static_cast<int64_t>(random_() % 1000);
    const Attributes attributes = {{"n", number}, {"t", std::string("x")}};
    if (random_() % 9 == 0) {
      state.Delete(id, sequence);
      model.erase(id);
      continue;
    }
    if (random_() % 3 == 0 && model.count(id) > 0) {
      state.SetAttributes(id, attributes);
    } else {
      model[id] = RandomVector(kDimension, random_);
      state.Upsert(id, model[id], sequence, attributes);
    }
    numbers[id] = number;
    if (sequence % 1000 == 0) state.Maintain();
  }
  const auto snapshot = state.Publish(6000);
  for (const double below : {1.0, 10.0, 100.0, 500.0}) {
    SearchRequest request = Request(Queries(kDimension), 7);
    request.filter.must.push_back(RangeCondition{"n", {}, {{below, false}}});
    request.filter.must.push_back(MatchCondition{"t", {std::string("x")}});
    std::map<PointId, std::vector<float>> admitted;
    for (const auto& [id, vector] : model) {
      if (static_cast<double>(numbers[id]) < below) admitted[id] = vector;
    }
    const auto filtered =
        FilterRows(*snapshot, request.filter, CallContext(),
                   [](absl::Span<const PointId>)
                       -> absl::StatusOr<std::vector<Attributes>> {
                     return absl::InternalError("no records are needed");
                   });
    ASSERT_TRUE(filtered.ok()) << filtered.status();
    EXPECT_EQ(filtered->count, static_cast<int64_t>(admitted.size()));
    for (WorkQueue* queue : {&one_, &three_}) {
      const auto reply = Search(*snapshot, request, queue, {}, &*filtered);
      ASSERT_TRUE(reply.ok()) << reply.status();
      for (size_t i = 0; i < request.queries.size(); ++i) {
        const auto& query = std::get<std::vector<float>>(request.queries[i]);
        ASSERT_EQ(NeighborsOf(reply->results[i]),
                  CanonicalSearch(GetParam(), admitted, query, 7))
            << "below " << below;
        const QueryAccount& account = reply->accounts[i];
        EXPECT_EQ(account.filtered,
                  static_cast<int64_t>(model.size() - admitted.size()));
        EXPECT_EQ(account.evaluated + account.ruled_out + account.filtered,
                  reply->rows_live);
      }
    }
  }
}

TEST_P(SnapshotSearch, EqualsACanonicalScanOnAnyNumberOfThreads) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  for (const int64_t dimension : {1, 3, 17}) {
    for (const int64_t tail_rows : {7, 300, 100000}) {
      const Written written =
          Write(GetParam(), dimension, 1200, tail_rows, random_);
      for (const int64_t k : {1, 10, 5000}) {
        SearchRequest request = Request(Queries(dimension), k);
        request.with_vectors = true;
        const auto one = Search(*written.snapshot, request, &one_);
        const auto three = Search(*written.snapshot, request, &three_);
        ASSERT_TRUE(one.ok()) << one.status();
        ASSERT_TRUE(three.ok()) << three.status();
        for (size_t i = 0; i < request.queries.size(); ++i) {
          const auto& query = std::get<std::vector<float>>(request.queries[i]);
          const auto expected =
              CanonicalSearch(GetParam(), written.model, query, k);
          ASSERT_EQ(NeighborsOf(one->results[i]), expected);
          ASSERT_EQ(NeighborsOf(three->results[i]), expected);
          for (const Hit& hit : three->results[i]) {
            ASSERT_EQ(hit.vector, written.model.at(hit.neighbor.id));
          }
          for (const auto* reply : {&*one, &*three}) {
            EXPECT_EQ(reply->accounts[i].evaluated +
                          reply->accounts[i].ruled_out +
                          reply->accounts[i].filtered,
                      reply->rows_live);
          }
        }
        EXPECT_EQ(one->rows_live, static_cast<int64_t>(written.model.size()));
        EXPECT_EQ(one->slots.size(), 5u);
      }
    }
  }
}

// Others find something before (so that all, some or none of the rows here are
// ruled out) and after the scan.
TEST_P(SnapshotSearch, TogetherWithOtherShardsItsListEndsAtTheThreshold) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  constexpr double kNothing = std::numeric_limits<double>::infinity();
  const Written written = Write(GetParam(), 17, 1200, 300, random_);
  const std::vector<float> query = RandomVector(17, random_);
  const ScanQueries queries(GetParam(), {query.data(), 1, 17, 17});
  const auto nearest = CanonicalSearch(GetParam(), written.model, query, 10);
  for (const double before : {kNothing, nearest[5].distance,
                              nearest[0].distance, nearest[0].distance - 1}) {
    for (const double after : {kNothing, nearest[3].distance}) {
      std::vector<SharedThreshold> shared(1);
      shared[0].Lower(before);
      SearchPass pass(SegmentsOf(*written.snapshot, nullptr), queries,
                      {{.count = 1,
                        .keep = 10,
                        .radius = kNothing,
                        .shared = absl::MakeSpan(shared)}});
      pass.Run(&three_);
      shared[0].Lower(after);
      std::vector<Neighbor> expected = nearest;
      std::erase_if(expected, [&](const Neighbor& n) {
        return n.distance > std::min(before, after);
      });
      EXPECT_EQ(*pass.TakeNeighbors(0), expected);
      // What was found here is what the others hear.
      EXPECT_EQ(shared[0].value(),
                std::min({before, after, nearest[9].distance}));
      const QueryAccount account = pass.AccountOf(0);
      EXPECT_EQ(account.evaluated + account.ruled_out,
                written.snapshot->rows_live());
    }
  }
}

TEST_P(SnapshotSearch, OfATailThatIsCodedInPartEqualsACanonicalScan) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  constexpr int64_t kDimension = 32;  // codes have a plane
  const Written written =
      Write(GetParam(), kDimension, 14 * TailCodes::kSmall, 100000, random_);
  // Its last tail has coded blocks, large and small, and a rest.
  const SegmentView& view = *written.snapshot->segments().back();
  ASSERT_FALSE(view.segment()->sealed());
  ASSERT_GE(view.rows(), TailCodes::kLarge + TailCodes::kSmall);
  ASSERT_NE(view.rows() % TailCodes::kSmall, 0);
  for (const int64_t k : {1, 300}) {
    for (const bool alone : {false, true}) {
      SearchRequest request = Request(Queries(kDimension), k);
      if (alone) request.queries.resize(1);
      const auto reply = Search(*written.snapshot, request, &three_);
      ASSERT_TRUE(reply.ok()) << reply.status();
      for (size_t i = 0; i < request.queries.size(); ++i) {
        const auto& query = std::get<std::vector<float>>(request.queries[i]);
        ASSERT_EQ(NeighborsOf(reply->results[i]),
                  CanonicalSearch(GetParam(), written.model, query, k));
        EXPECT_EQ(reply->accounts[i].evaluated + reply->accounts[i].ruled_out,
                  reply->rows_live);
      }
    }
  }
}

TEST_P(SnapshotSearch, TogetherEqualsAlone) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  const auto gone = std::make_shared<CancelToken>();
  gone->Cancel();
  for (const int64_t tail_rows : {50, 1300}) {
    const Written written = Write(GetParam(), 17, 4000, tail_rows, random_);
    for (int round = 0; round < 8; ++round) {
      std::vector<SearchRequest> requests;
      std::vector<CallContext> calls;
      for (uint64_t i = 0; i < 2 + random_() % 12; ++i) {
        const int64_t ks[] = {1, 3, 10, 200, 5000};
        SearchRequest request = Request(Queries(17), ks[random_() % 5]);
        request.queries.resize(1 + random_() % 5);
        if (random_() % 4 == 0) request.radius = 20.0;
        if (random_() % 8 == 0) request.k = 0;
        if (random_() % 8 == 0) request.queries.back() = std::vector<float>{1};
        request.with_vectors = random_() % 2 == 0;
        requests.push_back(std::move(request));
        calls.emplace_back();
        if (random_() % 6 == 0) calls.back().cancel = gone;
      }
      std::vector<ReplyBudget> budgets(requests.size(), ReplyBudget(1 << 24));
      std::vector<SearchInPass> searches;
      for (size_t i = 0; i < requests.size(); ++i) {
        searches.push_back({&requests[i], calls[i], &budgets[i]});
      }
      const auto together =
          SearchSnapshot(*written.snapshot, searches, Limits(), &three_);
      ASSERT_EQ(together.size(), requests.size());
      for (size_t i = 0; i < requests.size(); ++i) {
        ReplyBudget budget(1 << 24);
        const auto alone = SearchSnapshot(*written.snapshot, requests[i],
                                          Limits(), calls[i], &budget, &one_);
        ASSERT_EQ(together[i].status(), alone.status());
        if (!alone.ok()) continue;
        ASSERT_EQ(together[i]->results.size(), alone->results.size());
        for (size_t q = 0; q < alone->results.size(); ++q) {
          ASSERT_EQ(NeighborsOf(together[i]->results[q]),
                    NeighborsOf(alone->results[q]));
          const QueryAccount& account = together[i]->accounts[q];
          EXPECT_EQ(account.evaluated + account.ruled_out,
                    together[i]->rows_live);
          for (size_t h = 0; h < alone->results[q].size(); ++h) {
            ASSERT_EQ(together[i]->results[q][h].vector,
                      alone->results[q][h].vector);
          }
        }
      }
    }
  }
}

TEST_P(SnapshotSearch, ACallThatEndsMidwayChangesNothingForTheOthers) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  const Written written = Write(GetParam(), 17, 30000, 2000, random_);
  const std::vector<std::vector<float>> queries = Queries(17);
  const SearchRequest stays = Request(queries, 10);
  const SearchRequest leaves = Request(queries, 2000);
  for (int round = 0; round < 10; ++round) {
    const auto cancel = std::make_shared<CancelToken>();
    std::thread canceller([&] { cancel->Cancel(); });
    std::vector<ReplyBudget> budgets(3, ReplyBudget(1 << 24));
    const std::vector<SearchInPass> searches = {
        {&stays, {}, &budgets[0]},
        {&leaves, {absl::InfiniteFuture(), cancel}, &budgets[1]},
        {&stays, {}, &budgets[2]}};
    const auto replies =
        SearchSnapshot(*written.snapshot, searches, Limits(), &three_);
    canceller.join();
    if (!replies[1].ok()) {
      EXPECT_TRUE(absl::IsCancelled(replies[1].status()));
    }
    for (const size_t i : {0, 2}) {
      ASSERT_TRUE(replies[i].ok()) << replies[i].status();
      for (size_t q = 0; q < queries.size(); ++q) {
        ASSERT_EQ(NeighborsOf(replies[i]->results[q]),
                  CanonicalSearch(GetParam(), written.model, queries[q], 10));
        EXPECT_EQ(replies[i]->accounts[q].evaluated +
                      replies[i]->accounts[q].ruled_out,
                  replies[i]->rows_live);
      }
    }
  }
}

TEST_P(SnapshotSearch, RadiusIsInclusiveAndBounded) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  const Written written = Write(GetParam(), 3, 400, 50, random_);
  for (const auto& query : Queries(3)) {
    const auto all = CanonicalSearch(GetParam(), written.model, query, 1000);
    // The distance of a point as the radius must find that point.
    const double radius = all[all.size() / 2].distance;
    const auto within =
        CanonicalSearch(GetParam(), written.model, query, 1000, radius);
    const auto count = static_cast<int64_t>(within.size());
    SearchRequest request = Request({query}, count);
    request.radius = radius;
    const auto exact = Search(*written.snapshot, request, &three_);
    ASSERT_TRUE(exact.ok()) << exact.status();
    EXPECT_EQ(NeighborsOf(exact->results[0]), within);
    if (count == 1) continue;
    request.k = count - 1;
    const absl::Status over =
        Search(*written.snapshot, request, &three_).status();
    EXPECT_TRUE(absl::IsResourceExhausted(over)) << over;
    EXPECT_TRUE(absl::StrContains(over.message(), "queries[0]")) << over;
    EXPECT_TRUE(absl::StrContains(over.message(), "limit `k`")) << over;
  }
}

TEST_P(SnapshotSearch, OfAnEmptyCollectionIsEmpty) {
  CollectionState state(TestCollection("c", 1, 2, GetParam(), 3), 0, {});
  const auto snapshot = state.Publish(0);
  const auto reply = Search(*snapshot, Request({{1, 2}, {3, 4}}, 5), &one_);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->results.size(), 2u);
  EXPECT_TRUE(reply->results[0].empty());
  EXPECT_TRUE(reply->results[1].empty());
  EXPECT_EQ(reply->rows_live, 0);
}

TEST_P(SnapshotSearch, SaysHowItScanned) {
  const Written written = Write(GetParam(), 2, 50, 10, random_);
  const auto reply = Search(*written.snapshot, Request({{1, 2}}, 5), &one_);
  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(absl::StartsWith(reply->times.plan, "exact float32 scan, "))
      << reply->times.plan;
  EXPECT_GE(reply->times.rows_scanned, reply->rows_live);
  EXPECT_EQ(reply->times.bytes_scanned, reply->times.rows_scanned * 8);
}

TEST_P(SnapshotSearch, RefusesWhatItCannotAnswer) {
  const Written written = Write(GetParam(), 2, 50, 10, random_);
  const auto error = [&](const SearchRequest& request) {
    const absl::Status status =
        Search(*written.snapshot, request, &one_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_TRUE(absl::StartsWith(error(Request({}, 1)), "queries"));
  EXPECT_TRUE(absl::StartsWith(error(Request({{1, 2}}, 0)), "k"));
  EXPECT_TRUE(absl::StartsWith(error(Request({{1, 2}}, 10001)), "k"));
  EXPECT_TRUE(
      absl::StartsWith(error(Request({{1, 2}, {1, 2, 3}}, 1)), "queries[1]"));
  EXPECT_TRUE(
      absl::StartsWith(error(Request({{1, 2}, {1, NAN}}, 1)), "queries[1]"));
  SearchRequest request = Request({}, 1);
  request.queries.emplace_back(std::in_place_type<PointId>, PointId{3});
  EXPECT_TRUE(absl::StartsWith(error(request), "queries[0]"));
  request = Request({{1, 2}}, 1);
  request.radius = NAN;
  EXPECT_TRUE(absl::StartsWith(error(request), "radius"));
  request = Request(std::vector<std::vector<float>>(101, {1, 2}), 10000);
  EXPECT_TRUE(absl::StrContains(error(request), "queries_times_k"));
}

TEST_P(SnapshotSearch, ReturnsNoMoreVectorsThanFitAReply) {
  const Written written = Write(GetParam(), 2, 50, 10, random_);
  SearchRequest request = Request({{1, 2}}, 10);
  request.with_vectors = true;
  ReplyBudget budget(10 * 8 - 1);
  const absl::Status status =
      SearchSnapshot(*written.snapshot, request, Limits(), {}, &budget, &one_)
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "message_bytes")) << status;
}

TEST_P(SnapshotSearch, StopsWhenTheCallEnds) {
  const Written written = Write(GetParam(), 2, 50, 10, random_);
  const auto cancel = std::make_shared<CancelToken>();
  cancel->Cancel();
  EXPECT_TRUE(
      absl::IsCancelled(Search(*written.snapshot, Request({{1, 2}}, 1), &three_,
                               {absl::InfiniteFuture(), cancel})
                            .status()));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(Search(*written.snapshot, Request({{1, 2}}, 1),
                                      &three_, {absl::InfinitePast(), nullptr})
                                   .status()));
}

}  // namespace
}  // namespace coterie
