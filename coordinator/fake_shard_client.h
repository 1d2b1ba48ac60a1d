// A shard for tests: an obvious model of one, with faults on demand.
//
// Thread-safe, knobs included. Points live in a map; search compares with every
// one of them. Replies come at once on the caller's thread, or (`own_thread`)
// on a thread of the fake's, or when the test releases them.

#ifndef COTERIE_COORDINATOR_FAKE_SHARD_CLIENT_H_
#define COTERIE_COORDINATOR_FAKE_SHARD_CLIENT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "api/call.h"
#include "api/placement.h"
#include "coordinator/shard_client.h"
#include "sync/mutex.h"

namespace coterie {

class FakeShardClient : public ShardClient {
 public:
  struct Options {
    std::string cluster_uuid = "0f1e2d3c";
    std::string store_id = {};
    bool own_thread = false;
    int64_t scan_page_points = 2;
  };
  FakeShardClient(int32_t shard_id, int32_t shards_total)
      : FakeShardClient(shard_id, shards_total, Options()) {}
  FakeShardClient(int32_t shard_id, int32_t shards_total, Options options);
  // Stop().
  ~FakeShardClient() override;

  // Drops what is held; ends what its own thread has begun. Whoever made it
  // calls this before letting go: the last reference may be dropped inside a
  // reply, on that thread, which cannot wait for itself.
  void Stop();

  // Faults. `method` is the name of a ShardClient method; scans fail and are
  // held page by page as "Next".

  // Answer so, from now on; OK ends it.
  void Fail(const std::string& method, absl::Status status);
  // Answer so once, before the other knobs are asked.
  void FailOnce(const std::string& method, absl::Status status);
  // Does what the next call asks for, but answers so.
  void LoseReplyOnce(const std::string& method, absl::Status status);
  // Answer nothing until Release.
  void Hold(const std::string& method);
  // Ends all holding and answers, on this thread, what was held.
  void Release();
  // Changes every search reply before it leaves: for lies.
  void EditSearches(std::function<void(ShardSearchReply*)> edit);
  // Called inside each PutCatalogue before it is looked at: for races.
  void BeforePut(std::function<void()> hook);

  // What was seen.
  int64_t calls(const std::string& method) const;
  // Of the last call of the method. REQUIRES: there was one.
  CallContext last_call(const std::string& method) const;
  int64_t open_scans() const;
  int64_t held() const {
    MutexLock lock(&mu_);
    return static_cast<int64_t>(held_.size());
  }

  // The model's own state, without calls.
  void SetCatalogue(Catalogue catalogue);
  Catalogue catalogue() const;
  // Puts a point there whoever owns its slot.
  void Plant(const std::string& collection, Point point);
  int64_t points(const std::string& collection) const;

  int32_t shard_id() const override { return shard_id_; }
  std::string address() const override { return "fake"; }
  void Search(std::shared_ptr<const SearchRequest> request, CallContext call,
              Done<ShardSearchReply> done) override;
  void Write(WriteBatch batch, CallContext call,
             Done<WriteReply> done) override;
  void Get(GetRequest request, CallContext call, Done<GetReply> done) override;
  void Count(CountRequest request, CallContext call,
             Done<CountReply> done) override;
  std::unique_ptr<PointStream> Scan(ScanRequest request,
                                    CallContext call) override;
  void ReadCatalogue(CallContext call, Done<Catalogue> done) override;
  void PutCatalogue(int64_t expected_version, Catalogue catalogue,
                    CallContext call, Done<int64_t> done) override;
  void CollectionStats(std::string collection, CallContext call,
                       Done<ShardCollectionStats> done) override;
  void Describe(CallContext call, Done<ShardDescription> done) override;
  // The model has no jobs: UNIMPLEMENTED.
  void BeginJob(JobBegin begin, CallContext call, Done<JobBegun> done) override;
  void StepJob(JobStep step, CallContext call, Done<JobAnswer> done) override;
  void LabelRows(JobLabel label, CallContext call,
                 Done<JobLabelled> done) override;
  void EndJob(JobRef job, CallContext call, Done<bool> done) override;
  void ReadRecords(RecordsRequest request, CallContext call,
                   Done<std::vector<StoredRecord>> done) override;
  void PutRecord(RecordPut put, CallContext call, Done<int64_t> done) override;

 private:
  class Stream;
  using Rows = std::map<PointId, Point>;

  // Notes the call, then runs `answer` and gives the reply to `done` as the
  // knobs say.
  template <typename T>
  void Answer(const std::string& method, const CallContext& call,
              absl::AnyInvocable<absl::StatusOr<T>()> answer, Done<T> done);
  void Work();

  absl::StatusOr<const CollectionSpec*> Find(const std::string& name,
                                             uint32_t number = 0) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Owns(const CollectionSpec& spec, PointId id) const;
  absl::StatusOr<ShardSearchReply> RunSearch(const SearchRequest& request);
  absl::StatusOr<WriteReply> RunWrite(const WriteBatch& batch);
  absl::Status CheckWrite(const CollectionSpec& spec,
                          const WriteBatch& batch) const;
  static void RunUpdate(const AttributeUpdate& update, AttributeMode mode,
                        Rows* rows, WriteReply* reply);
  absl::StatusOr<GetReply> RunGet(const GetRequest& request);
  absl::StatusOr<int64_t> RunPut(int64_t expected, Catalogue catalogue);
  absl::StatusOr<std::vector<StoredRecord>> RunReadRecords(
      const RecordsRequest& request);
  absl::StatusOr<int64_t> RunPutRecord(const RecordPut& put);
  absl::StatusOr<ScanPage> RunNext(
      const ScanRequest& request,
      std::optional<std::pair<int32_t, PointId>>* after, int64_t* sent);

  const int32_t shard_id_;
  const int32_t shards_total_;
  const Options options_;

  mutable Mutex mu_;
  Catalogue catalogue_ ABSL_GUARDED_BY(mu_);
  std::map<uint32_t, Rows> rows_ ABSL_GUARDED_BY(mu_);  // by number
  // By collection number, slot and client: the last sequence.
  std::map<std::tuple<uint32_t, int32_t, std::string>, int64_t> applied_
      ABSL_GUARDED_BY(mu_);
  int64_t sequence_ ABSL_GUARDED_BY(mu_) = 0;
  // By collection number and key.
  std::map<std::pair<uint32_t, std::string>, StoredRecord> records_
      ABSL_GUARDED_BY(mu_);
  std::map<std::string, absl::Status> failures_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, absl::Status> failures_once_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, absl::Status> lost_replies_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, bool> holding_ ABSL_GUARDED_BY(mu_);
  std::vector<absl::AnyInvocable<void()>> held_ ABSL_GUARDED_BY(mu_);
  std::function<void(ShardSearchReply*)> edit_ ABSL_GUARDED_BY(mu_);
  std::function<void()> before_put_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int64_t> calls_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, CallContext> last_calls_ ABSL_GUARDED_BY(mu_);
  int64_t open_scans_ ABSL_GUARDED_BY(mu_) = 0;

  CondVar work_ready_;
  std::deque<absl::AnyInvocable<void()>> work_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_FAKE_SHARD_CLIENT_H_
