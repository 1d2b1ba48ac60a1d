#include "shard/write_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/status_details.h"

namespace coterie {
namespace {

constexpr absl::Duration kLeastRetry = absl::Milliseconds(5);
constexpr absl::Duration kMostRetry = absl::Seconds(10);
constexpr double kNewest = 0.125;

// Of a point beside its vector and attributes: keys, headers, log.
constexpr int64_t kBytesPerMutation = 64;

}  // namespace

int64_t LogEntry::Bytes() const {
  int64_t bytes = kBytesPerMutation;
  for (const SlotMutations& slot : slots) {
    for (const Point& point : slot.upserts) {
      bytes += kBytesPerMutation + AttributeBytes(point.attributes) +
               static_cast<int64_t>(point.vector.size() * sizeof(float));
    }
    bytes += kBytesPerMutation * static_cast<int64_t>(slot.deletes.size());
    for (const AttributeUpdate& update : slot.updates) {
      bytes += kBytesPerMutation + AttributeBytes(update.attributes);
    }
  }
  return bytes;
}

LocalWriteLog::LocalWriteLog(Options options, LogSink* sink)
    : options_(options), sink_(sink) {
  MutexLock lock(&joining_);
  committer_ = std::thread([this] { CommitLoop(); });
}

LocalWriteLog::~LocalWriteLog() { Stop(); }

void LocalWriteLog::Append(LogEntry entry, CallContext call,
                           Done<WriteReply> done) {
  Pending pending;
  pending.bytes = entry.Bytes();
  pending.call = std::move(call);
  pending.entry = std::move(entry);
  pending.done = std::move(done);
  Enqueue(std::move(pending));
}

void LocalWriteLog::Run(int64_t bytes, CallContext call, Task task) {
  Pending pending;
  pending.bytes = bytes;
  pending.call = std::move(call);
  pending.task = std::move(task);
  Enqueue(std::move(pending));
}

absl::Status LocalWriteLog::health() const {
  MutexLock lock(&mutex_);
  return failure_;
}

absl::Status LocalWriteLog::Refusal(int64_t bytes) const {
  if (!failure_.ok()) return failure_;
  if (stopping_) return absl::UnavailableError("the shard is stopping");
  // One that is larger than the bound may go alone.
  if (pending_bytes_ == 0 || pending_bytes_ + bytes <= options_.queue_bytes) {
    return absl::OkStatus();
  }
  const absl::Duration wait =
      absl::Seconds(seconds_per_byte_ * static_cast<double>(pending_bytes_));
  return Overloaded(
      absl::StrCat("the shard's write queue is full (", pending_bytes_,
                   " bytes wait, limit ", options_.queue_bytes, ")"),
      std::clamp(wait, kLeastRetry, kMostRetry));
}

void LocalWriteLog::Enqueue(Pending pending) {
  absl::Status refusal;
  {
    MutexLock lock(&mutex_);
    refusal = Refusal(pending.bytes);
    if (refusal.ok()) {
      pending_bytes_ += pending.bytes;
      pending_.push_back(std::move(pending));
      changed_.NotifyOne();
      return;
    }
  }
  Refuse(std::move(pending), refusal);
}

void LocalWriteLog::Refuse(Pending pending, const absl::Status& refusal) {
  if (pending.task != nullptr) {
    // It does nothing then, so it has nothing to report.
    pending.task(refusal).IgnoreError();
  } else {
    pending.done(refusal);
  }
}

void LocalWriteLog::CommitLoop() {
  for (;;) {
    std::vector<Pending> group;
    {
      MutexLock lock(&mutex_);
      while (pending_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (pending_.empty()) return;
      group = TakeGroup();
    }
    CommitAndAnswer(std::move(group));
  }
}

void LocalWriteLog::CommitAndAnswer(std::vector<Pending> group) {
  int64_t bytes = 0;
  for (const Pending& pending : group) bytes += pending.bytes;
  // Room is given back before anyone is answered, so that who is answered
  // finds it; tasks are alone and answer for themselves.
  const bool is_task = group.front().task != nullptr;
  if (is_task) Release(bytes);
  const absl::Time start = absl::Now();
  std::vector<Answer> answers = Commit(std::move(group));
  if (!is_task) {
    Release(bytes);
    const double rate = absl::ToDoubleSeconds(absl::Now() - start) /
                        static_cast<double>(std::max<int64_t>(bytes, 1));
    MutexLock lock(&mutex_);
    seconds_per_byte_ += (rate - seconds_per_byte_) * kNewest;
  }
  for (Answer& answer : answers) answer.done(std::move(answer.reply));
}

void LocalWriteLog::Release(int64_t bytes) {
  MutexLock lock(&mutex_);
  pending_bytes_ -= bytes;
}

std::vector<LocalWriteLog::Pending> LocalWriteLog::TakeGroup() {
  std::vector<Pending> group;
  int64_t bytes = 0;
  while (!pending_.empty()) {
    const bool is_task = pending_.front().task != nullptr;
    if (!group.empty() &&
        (is_task || bytes + pending_.front().bytes > options_.group_bytes)) {
      break;
    }
    bytes += pending_.front().bytes;
    group.push_back(std::move(pending_.front()));
    pending_.pop_front();
    if (is_task) break;
  }
  return group;
}

std::vector<LocalWriteLog::Answer> LocalWriteLog::Commit(
    std::vector<Pending> group) {
  const absl::Status healthy = health();
  std::vector<Answer> answers;
  std::vector<Pending> entries;
  for (Pending& pending : group) {
    const absl::Status admitted =
        healthy.ok() ? pending.call.status() : healthy;
    if (pending.task != nullptr) {
      const absl::Status failure = pending.task(admitted);
      if (admitted.ok() && !failure.ok()) Latch(failure);
    } else if (!admitted.ok()) {
      answers.push_back({std::move(pending.done), admitted});
    } else {
      entries.push_back(std::move(pending));
    }
  }
  if (entries.empty()) return answers;

  std::vector<const LogEntry*> views;
  for (const Pending& pending : entries) views.push_back(&pending.entry);
  std::vector<absl::StatusOr<WriteReply>> replies(entries.size(), WriteReply());
  const absl::Status failure =
      sink_->ApplyGroup(views, absl::MakeSpan(replies));
  if (!failure.ok()) Latch(failure);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!failure.ok()) replies[i] = health();
    answers.push_back({std::move(entries[i].done), std::move(replies[i])});
  }
  return answers;
}

void LocalWriteLog::Latch(const absl::Status& failure) {
  MutexLock lock(&mutex_);
  failure_ = absl::UnavailableError(absl::StrCat(
      "the shard is read-only until it is restarted, because a write failed "
      "and it is unknown what the disk holds of it: ",
      failure.ToString()));
}

void LocalWriteLog::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  MutexLock lock(&joining_);
  if (committer_.joinable()) committer_.join();
}

}  // namespace coterie
