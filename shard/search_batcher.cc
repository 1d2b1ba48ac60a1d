#include "shard/search_batcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/status_details.h"

namespace coterie {
namespace {

constexpr absl::Duration kLeastRetry = absl::Milliseconds(5);
constexpr absl::Duration kMostRetry = absl::Seconds(10);

// Weight of the newest sample in the moving average.
constexpr double kNewest = 0.125;

int64_t QueriesOf(const SearchBatcher::Search& search) {
  return static_cast<int64_t>(search.request->queries.size());
}

}  // namespace

SearchBatcher::SearchBatcher(int32_t capacity, WorkQueue* queue, Pass pass)
    : queue_(queue), pass_(std::move(pass)) {
  state_.work_class = WorkClass::kSearch;
  state_.capacity = capacity;
}

QueueState SearchBatcher::state() const {
  MutexLock lock(&mutex_);
  return state_;
}

CallContext SearchBatcher::CallOf(const std::vector<Search>& searches) {
  CallContext call = searches.front().call;
  for (const Search& search : searches) {
    if (searches.size() > 1) call.cancel = nullptr;
    call.deadline = std::max(call.deadline, search.call.deadline);
  }
  return call;
}

absl::Duration SearchBatcher::RetryDelay() const {
  return std::clamp(share_ * (state_.length / queue_->thread_share()),
                    kLeastRetry, kMostRetry);
}

void SearchBatcher::Submit(std::shared_ptr<const SearchRequest> request,
                           CallContext call, Done<ShardSearchReply> done) {
  const std::string collection = request->collection;
  absl::Status refusal;
  bool first = false;
  {
    MutexLock lock(&mutex_);
    if (state_.length >= state_.capacity) {
      ++state_.refused;
      refusal = Overloaded(
          absl::StrCat("the shard's queue of ",
                       WorkClassName(WorkClass::kSearch), " work is full (",
                       state_.capacity, " waiting)"),
          RetryDelay());
    } else {
      Group& group = groups_[collection];
      group.waiting.push_back({std::move(request),
                               std::move(call),
                               std::move(done),
                               absl::Now(),
                               {}});
      ++state_.length;
      first = !std::exchange(group.queued, true);
    }
  }
  if (!refusal.ok()) return done(refusal);
  if (first) TakePlace(collection);
}

void SearchBatcher::TakePlace(const std::string& collection) {
  // Each search has a call of its own; their common place has none.
  queue_->Admit(WorkClass::kSearch, CallContext(),
                [this, collection](const WorkQueue::Admission& admission) {
                  Start(collection, admission.status);
                });
}

std::vector<SearchBatcher::Search> SearchBatcher::TakeBatch(Group* group) {
  const absl::Time now = absl::Now();
  std::vector<Search> batch;
  int64_t queries = 0;
  std::deque<Search> left;
  bool full = false;
  for (Search& next : group->waiting) {
    const bool goes =
        batch.empty() ||
        (!full && next.request->filter == batch.front().request->filter);
    if (goes) queries += QueriesOf(next);
    full = full || (goes && !batch.empty() && queries > kMostQueries);
    if (!goes || full) {
      left.push_back(std::move(next));
      continue;
    }
    next.waited = now - next.arrived;
    state_.wait_seconds += absl::ToDoubleSeconds(next.waited);
    batch.push_back(std::move(next));
  }
  group->waiting = std::move(left);
  state_.length -= static_cast<int32_t>(batch.size());
  state_.taken += static_cast<int64_t>(batch.size());
  return batch;
}

void SearchBatcher::Start(const std::string& collection,
                          const absl::Status& status) {
  std::vector<Search> batch;
  bool more = false;
  {
    MutexLock lock(&mutex_);
    const auto group = groups_.find(collection);
    batch = TakeBatch(&group->second);
    more = !group->second.waiting.empty();
    if (!more) groups_.erase(group);
  }
  // Before the pass, as another thread may be free for them.
  if (more) TakePlace(collection);
  std::vector<Search> live;
  for (Search& search : batch) {
    absl::Status end = status.ok() ? search.call.status() : status;
    if (end.ok()) {
      live.push_back(std::move(search));
    } else {
      search.done(std::move(end));
    }
  }
  if (live.empty()) return;
  const auto searches = static_cast<double>(live.size());
  const absl::Time start = absl::Now();
  pass_(collection, std::move(live));
  const absl::Duration took = absl::Now() - start;
  MutexLock lock(&mutex_);
  share_ += (took / searches - share_) * kNewest;
}

}  // namespace coterie
