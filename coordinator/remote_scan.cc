#include "coordinator/remote_scan.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/link_use.h"
#include "api/shard_convert.h"
#include "api/v1/shard.grpc.pb.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

// The RPC. Owns itself from Start until gRPC is done with it. A hold keeps gRPC
// from ending it while a page may still be asked for; so every end, good or
// bad, comes through OnDone.
class ScanReader final : public grpc::ClientReadReactor<v1::ShardScanResponse> {
 public:
  ScanReader(std::shared_ptr<ShardLink> link, const ScanRequest& request,
             CallContext call)
      : link_(std::move(link)),
        target_(link_->target()),
        call_(std::move(call)),
        with_vectors_(request.with_vectors) {
    EncodeShardRequest(request, &request_);
    link_->Address(request_.mutable_header());
  }

  // Not OK: no RPC is made, and nothing else may be called.
  absl::Status Start(std::shared_ptr<ScanReader> self) {
    absl::Status admitted = link_->Admit(
        request_, call_, link_->options().longest_scan, &context_, &use_);
    if (!admitted.ok()) return admitted;
    self_ = std::move(self);
    cancel_.emplace(call_.cancel, [this] { context_.TryCancel(); });
    target_->stub->async()->Scan(&context_, &request_, this);
    AddHold();
    StartCall();
    return absl::OkStatus();
  }

  void Next(Done<ScanPage> done) {
    std::optional<absl::Status> over;
    {
      MutexLock lock(&mu_);
      over = over_;
      if (!over.has_value()) waiting_ = std::move(done);
    }
    if (over.has_value()) return done(*over);
    StartRead(&response_);
  }

  // There will be no further Next.
  void Abandon() {
    {
      MutexLock lock(&mu_);
      if (over_.has_value()) return;
    }
    context_.TryCancel();
    Release();
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Release();
    absl::StatusOr<ScanPage> page = Decode();
    if (!page.ok()) {
      failure_ = page.status();
      context_.TryCancel();
      return Release();
    }
    if (page->end) {
      // Handed over once the shard has closed the stream as well.
      last_ = *std::move(page);
      StartRead(&response_);
      return;
    }
    Done<ScanPage> done;
    {
      MutexLock lock(&mu_);
      done = std::move(waiting_);
      waiting_ = nullptr;
    }
    // This may end the stream, but not the reactor: this reaction is not over.
    done(std::move(page));
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<ScanReader> self = std::move(self_);
    cancel_.reset();
    absl::Status end = failure_;
    if (end.ok()) end = link_->Outcome(status, call_, target_->address);
    Done<ScanPage> done;
    {
      MutexLock lock(&mu_);
      over_ = !end.ok() ? end
                        : link_->Named(absl::FailedPreconditionError(
                              "the scan has ended"));
      done = std::move(waiting_);
      waiting_ = nullptr;
    }
    if (!done) return;
    if (!end.ok()) return done(end);
    // A stream that closes without a page that says so ends all the same.
    done(last_.has_value() ? *std::move(last_) : ScanPage{{}, true});
  }

  absl::StatusOr<ScanPage> Decode() {
    if (last_.has_value()) {
      return link_->Named(
          absl::InternalError("the shard sent a page after the last"));
    }
    const absl::Status valid =
        link_->Receive(response_, response_.header(), &use_);
    if (!valid.ok()) return valid;
    auto page = DecodeShardReply(response_, with_vectors_);
    if (!page.ok()) return link_->Named(page.status());
    return page;
  }

  // Lets gRPC end the RPC. Any thread; more than once is once.
  void Release() {
    {
      MutexLock lock(&mu_);
      if (released_) return;
      released_ = true;
    }
    RemoveHold();
  }

  const std::shared_ptr<ShardLink> link_;
  const std::shared_ptr<const ShardLink::Target> target_;
  const CallContext call_;
  const bool with_vectors_;
  grpc::ClientContext context_;
  v1::ShardScanRequest request_;
  std::shared_ptr<ScanReader> self_;
  std::optional<CancelCallback> cancel_;

  // Of reactions alone.
  v1::ShardScanResponse response_;
  LinkUse use_;
  std::optional<ScanPage> last_;
  absl::Status failure_;

  Mutex mu_;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  Done<ScanPage> waiting_ ABSL_GUARDED_BY(mu_);
  // Set when the RPC is over: the answer to any further Next.
  std::optional<absl::Status> over_ ABSL_GUARDED_BY(mu_);
};

class RemoteStream final : public PointStream {
 public:
  explicit RemoteStream(std::shared_ptr<ScanReader> reader)
      : reader_(std::move(reader)) {}
  ~RemoteStream() override { reader_->Abandon(); }

  void Next(Done<ScanPage> done) override { reader_->Next(std::move(done)); }

 private:
  const std::shared_ptr<ScanReader> reader_;
};

class FailedStream final : public PointStream {
 public:
  explicit FailedStream(absl::Status status) : status_(std::move(status)) {}

  void Next(Done<ScanPage> done) override {
    const absl::Status status = status_;  // `done` may destroy this
    done(status);
  }

 private:
  const absl::Status status_;
};

}  // namespace

std::unique_ptr<PointStream> StartRemoteScan(std::shared_ptr<ShardLink> link,
                                             const ScanRequest& request,
                                             CallContext call) {
  auto reader =
      std::make_shared<ScanReader>(std::move(link), request, std::move(call));
  absl::Status started = reader->Start(reader);
  if (!started.ok()) return std::make_unique<FailedStream>(std::move(started));
  return std::make_unique<RemoteStream>(std::move(reader));
}

}  // namespace coterie
