#include "shard/search_batcher.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "gtest/gtest.h"
#include "shard/shard_testing.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

// `id`, if not 0, is the only point admitted.
std::shared_ptr<const SearchRequest> Asking(const std::string& collection,
                                            int64_t queries = 1,
                                            PointId id = 0) {
  auto request = std::make_shared<SearchRequest>();
  request->collection = collection;
  request->queries.assign(static_cast<size_t>(queries),
                          std::vector<float>{1, 2});
  request->k = 1;
  if (id != 0) request->filter.must.push_back(IdCondition{{id}});
  return request;
}

// A batcher over one thread. Each pass is noted as COLLECTION*SEARCHES and
// answers at once; what goes to collection "gate" waits for Open().
class Batches {
 public:
  explicit Batches(int32_t capacity = 1000)
      : batcher_(capacity, &queue_,
                 [this](const std::string& collection,
                        std::vector<SearchBatcher::Search> searches) {
                   Pass(collection, std::move(searches));
                 }) {}
  ~Batches() {
    gate_.Open();
    queue_.Stop();
  }

  // Keeps the only thread until Open().
  void Occupy() {
    batcher_.Submit(Asking("gate"), {}, occupying_.done());
    entered_.Wait();
  }
  void Open() { gate_.Open(); }

  Answer<ShardSearchReply> Submit(const std::string& collection,
                                  int64_t queries = 1, CallContext call = {},
                                  PointId id = 0) {
    Answer<ShardSearchReply> answer;
    batcher_.Submit(Asking(collection, queries, id), std::move(call),
                    answer.done());
    return answer;
  }

  SearchBatcher& batcher() { return batcher_; }
  WorkQueue& queue() { return queue_; }
  std::vector<std::string> passes() const {
    MutexLock lock(&mutex_);
    return passes_;
  }

 private:
  void Pass(const std::string& collection,
            std::vector<SearchBatcher::Search> searches) {
    {
      MutexLock lock(&mutex_);
      passes_.push_back(absl::StrCat(collection, "*", searches.size()));
    }
    if (collection == "gate") {
      entered_.Open();
      gate_.Wait();
    }
    for (SearchBatcher::Search& search : searches) {
      search.done(ShardSearchReply());
    }
  }

  Gate entered_;
  Gate gate_;
  Answer<ShardSearchReply> occupying_;
  mutable Mutex mutex_;
  std::vector<std::string> passes_ ABSL_GUARDED_BY(mutex_);
  WorkQueue queue_{1, 1000};
  SearchBatcher batcher_;
};

using Passes = std::vector<std::string>;

TEST(SearchBatcher, ALoneSearchGoesAlone) {
  Batches batches;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(batches.Submit("a").Wait().ok());
  }
  EXPECT_EQ(batches.passes(), Passes({"a*1", "a*1", "a*1"}));
}

TEST(SearchBatcher, OnlyEqualFiltersGoTogether) {
  Batches batches;
  batches.Occupy();
  std::vector<Answer<ShardSearchReply>> answers;
  for (const PointId id : {0, 7, 0, 8, 7, 7}) {
    answers.push_back(batches.Submit("a", 1, {}, id));
  }
  batches.Open();
  for (auto& answer : answers) EXPECT_TRUE(answer.Wait().ok());
  EXPECT_EQ(batches.passes(), Passes({"gate*1", "a*2", "a*3", "a*1"}));
}

TEST(SearchBatcher, WhatWaitsTogetherGoesTogether) {
  Batches batches;
  batches.Occupy();
  std::vector<Answer<ShardSearchReply>> answers;
  for (int i = 0; i < 5; ++i) answers.push_back(batches.Submit("a"));
  EXPECT_EQ(batches.batcher().state().length, 5);
  EXPECT_EQ(batches.passes(), Passes({"gate*1"}));
  batches.Open();
  for (auto& answer : answers) EXPECT_TRUE(answer.Wait().ok());
  EXPECT_EQ(batches.passes(), Passes({"gate*1", "a*5"}));
  EXPECT_EQ(batches.batcher().state().length, 0);
  EXPECT_EQ(batches.batcher().state().taken, 6);
}

TEST(SearchBatcher, CollectionsTakeTurnsAndPassesStaySmall) {
  Batches batches;
  batches.Occupy();
  std::vector<Answer<ShardSearchReply>> answers;
  for (int i = 0; i < 100; ++i) answers.push_back(batches.Submit("a"));
  answers.push_back(batches.Submit("b"));
  answers.push_back(batches.Submit("b", 50));
  // More than a pass takes, alone; then it, and what is left.
  answers.push_back(batches.Submit("b", 500));
  answers.push_back(batches.Submit("b"));
  batches.Open();
  for (auto& answer : answers) EXPECT_TRUE(answer.Wait().ok());
  EXPECT_EQ(batches.passes(),
            Passes({"gate*1", "a*64", "b*2", "a*36", "b*1", "b*1"}));
}

TEST(SearchBatcher, AFullQueueRefusesAtOnce) {
  Batches batches(3);
  batches.Occupy();
  std::vector<Answer<ShardSearchReply>> answers;
  for (int i = 0; i < 3; ++i) {
    answers.push_back(batches.Submit(absl::StrCat("c", i)));
  }
  auto refused = batches.Submit("c0");
  ASSERT_TRUE(refused.ready()) << "at once";
  const absl::Status status = refused.Wait().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(RetryAfterOf(status).has_value());
  EXPECT_EQ(batches.batcher().state().refused, 1);
  batches.Open();
  for (auto& answer : answers) EXPECT_TRUE(answer.Wait().ok());
  EXPECT_TRUE(batches.Submit("c0").Wait().ok()) << "room again";
}

TEST(SearchBatcher, WhoseCallEndedIsToldSoAndLeftOut) {
  Batches batches;
  batches.Occupy();
  const auto cancel = std::make_shared<CancelToken>();
  auto first = batches.Submit("a");
  auto gone = batches.Submit("a", 1, {absl::InfiniteFuture(), cancel});
  auto late = batches.Submit("a", 1, {absl::InfinitePast(), nullptr});
  auto alone = batches.Submit("b", 1, {absl::InfiniteFuture(), cancel});
  cancel->Cancel();
  batches.Open();
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(absl::IsCancelled(gone.Wait().status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.Wait().status()));
  EXPECT_TRUE(absl::IsCancelled(alone.Wait().status()));
  EXPECT_EQ(batches.passes(), Passes({"gate*1", "a*1"}));
}

TEST(SearchBatcher, AStoppedQueueAnswersEveryone) {
  Batches batches;
  batches.Occupy();
  auto waiting = batches.Submit("a");
  batches.Open();
  batches.queue().Stop();
  EXPECT_TRUE(waiting.Wait().ok()) << "what was admitted is done";
  EXPECT_TRUE(absl::IsUnavailable(batches.Submit("a").Wait().status()));
  EXPECT_EQ(batches.batcher().state().length, 0);
}

}  // namespace
}  // namespace coterie
