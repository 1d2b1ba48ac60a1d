// Searches in company while rows are written, deleted and compacted: each
// answer is the exact one at the sequence that it names. Without disk, so that
// ThreadSanitizer judges all of it.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/collection_state.h"
#include "shard/search_batcher.h"
#include "shard/shard_testing.h"
#include "shard/snapshot_search.h"
#include "shard/work_queue.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

constexpr int64_t kDimension = 17;

struct Write {
  PointId id = 0;
  std::vector<float> vector;  // empty: a deletion
};

// A collection with one writer; write number i (from 1) has sequence i.
class Written {
 public:
  explicit Written(Metric metric)
      : state_(TestCollection("c", 1, kDimension, metric, 8), 0, Tuning()) {}

  void Apply(Write write) {
    const auto sequence = static_cast<int64_t>(history_.size()) + 1;
    if (write.vector.empty()) {
      state_.Delete(write.id, sequence);
    } else {
      state_.Upsert(write.id, write.vector, sequence);
    }
    history_.push_back(std::move(write));
  }

  void Publish() {
    state_.Maintain();
    const auto sequence = static_cast<int64_t>(history_.size());
    auto snapshot = state_.Publish(sequence);
    MutexLock lock(&mutex_);
    snapshot_ = std::move(snapshot);
    sequence_ = sequence;
  }

  std::pair<std::shared_ptr<const CollectionSnapshot>, int64_t> Read() const {
    MutexLock lock(&mutex_);
    return {snapshot_, sequence_};
  }

  // The writer's; complete once it has ended.
  const std::vector<Write>& history() const { return history_; }

 private:
  static SegmentTuning Tuning() {
    SegmentTuning tuning;
    tuning.tail_rows = 1100;  // just enough for codes
    return tuning;
  }

  CollectionState state_;
  std::vector<Write> history_;
  mutable Mutex mutex_;
  std::shared_ptr<const CollectionSnapshot> snapshot_ ABSL_GUARDED_BY(mutex_);
  int64_t sequence_ ABSL_GUARDED_BY(mutex_) = 0;
};

void Pass(const Written& written, WorkQueue* queue,
          std::vector<SearchBatcher::Search> searches) {
  const auto [snapshot, sequence] = written.Read();
  std::vector<ReplyBudget> budgets(searches.size(), ReplyBudget(1 << 20));
  std::vector<SearchInPass> parts;
  for (size_t i = 0; i < searches.size(); ++i) {
    parts.push_back({searches[i].request.get(), searches[i].call, &budgets[i]});
  }
  auto replies = SearchSnapshot(*snapshot, parts, Limits(), queue);
  for (size_t i = 0; i < searches.size(); ++i) {
    if (replies[i].ok()) replies[i]->sequence = sequence;
    searches[i].done(std::move(replies[i]));
  }
}

struct Answered {
  std::vector<float> query;
  int64_t k = 0;
  ShardSearchReply reply;
};

std::vector<Answered> KeepSearching(SearchBatcher* batcher, uint64_t seed,
                                    const std::atomic<bool>& finished,
                                    std::atomic<int64_t>* count) {
  Random random(seed);
  std::vector<Answered> all;
  while (!finished.load()) {
    Answered one;
    one.query = RandomVector(kDimension, random);
    const int64_t ks[] = {1, 10, 150};
    one.k = ks[random() % 3];
    auto request = std::make_shared<SearchRequest>();
    request->collection = "c";
    request->queries.emplace_back(one.query);
    request->k = one.k;
    CallContext call;
    const bool leaves = random() % 8 == 0;
    auto cancel = std::make_shared<CancelToken>();
    call.cancel = cancel;
    Answer<ShardSearchReply> answer;
    batcher->Submit(request, call, answer.done());
    if (leaves) cancel->Cancel();
    auto reply = answer.Wait();
    if (!reply.ok()) {
      EXPECT_TRUE(leaves) << reply.status();
      continue;
    }
    one.reply = *std::move(reply);
    all.push_back(std::move(one));
    ++*count;
  }
  return all;
}

// Replays the history and compares.
void ExpectExact(Metric metric, const std::vector<Write>& history,
                 std::vector<Answered> all) {
  std::sort(all.begin(), all.end(), [](const Answered& a, const Answered& b) {
    return a.reply.sequence < b.reply.sequence;
  });
  std::map<PointId, std::vector<float>> model;
  size_t applied = 0;
  for (const Answered& one : all) {
    for (; static_cast<int64_t>(applied) < one.reply.sequence; ++applied) {
      const Write& write = history[applied];
      if (write.vector.empty()) {
        model.erase(write.id);
      } else {
        model[write.id] = write.vector;
      }
    }
    std::vector<Neighbor> found;
    for (const Hit& hit : one.reply.results[0]) found.push_back(hit.neighbor);
    ASSERT_EQ(found, CanonicalSearch(metric, model, one.query, one.k));
    ASSERT_EQ(one.reply.rows_live, static_cast<int64_t>(model.size()));
    const QueryAccount& account = one.reply.accounts[0];
    ASSERT_EQ(account.evaluated + account.ruled_out, one.reply.rows_live);
  }
}

class SearchUnderWrites : public ::testing::TestWithParam<Metric> {};

INSTANTIATE_TEST_SUITE_P(Metrics, SearchUnderWrites,
                         ::testing::Values(Metric::kSquaredL2,
                                           Metric::kInnerProduct,
                                           Metric::kCosine));

TEST_P(SearchUnderWrites, IsExactAtTheSequenceItNames) {
  constexpr uint64_t kIds = 3000;
  constexpr int kSearchers = 4;
  constexpr int64_t kSearches = 200;
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  Written written(GetParam());
  for (uint64_t id = 0; id < kIds; ++id) {
    written.Apply({id, RandomVector(kDimension, random)});
  }
  written.Publish();

  WorkQueue queue(2, 100);
  SearchBatcher batcher(
      100, &queue,
      [&](const std::string&, std::vector<SearchBatcher::Search> searches) {
        Pass(written, &queue, std::move(searches));
      });
  std::atomic<bool> finished{false};
  std::atomic<int64_t> count{0};
  std::vector<std::vector<Answered>> answered(kSearchers);
  std::vector<std::thread> searchers;
  for (size_t i = 0; i < kSearchers; ++i) {
    searchers.emplace_back([&, i] {
      answered[i] = KeepSearching(&batcher, seed + i + 1, finished, &count);
    });
  }
  for (int i = 0; i < 4000 || count.load() < kSearches; ++i) {
    const PointId id = random() % (kIds + 200);
    written.Apply({id, random() % 3 == 0 ? std::vector<float>()
                                         : RandomVector(kDimension, random)});
    if (i % 20 == 0) written.Publish();
  }
  finished.store(true);
  for (std::thread& searcher : searchers) searcher.join();
  queue.Stop();
  std::vector<Answered> all;
  for (auto& part : answered) {
    std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  ExpectExact(GetParam(), written.history(), std::move(all));
}

}  // namespace
}  // namespace coterie
