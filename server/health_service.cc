#include "server/health_service.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

namespace hv1 = grpc::health::v1;

using State = hv1::HealthCheckResponse;

State::ServingStatus StateOf(std::optional<bool> serving) {
  if (!serving.has_value()) {
    return State::SERVICE_UNKNOWN;
  }
  return *serving ? State::SERVING : State::NOT_SERVING;
}

class WatchCall;

// The Watch streams that are open.
class Watches {
 public:
  // False if there are to be no more.
  bool Add(WatchCall* call) {
    MutexLock lock(&mu_);
    if (!ended_) {
      calls_.insert(call);
    }
    return !ended_;
  }
  void Remove(WatchCall* call) {
    MutexLock lock(&mu_);
    calls_.erase(call);
  }
  void End();

 private:
  Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::set<WatchCall*> calls_ ABSL_GUARDED_BY(mu_);
};

// One Watch: sends the newest state whenever it differs from the last sent.
// Made by `new`; deletes itself when gRPC is done with it.
class WatchCall final : public grpc::ServerWriteReactor<State> {
 public:
  WatchCall(Health* health, Watches* watches, const std::string& name)
      : health_(health), watches_(watches) {
    if (!watches_->Add(this)) {
      End();
      return;
    }
    watch_ = health_->Watch(
        name, [this](std::optional<bool> serving) { Tell(serving); });
  }

  void End() {
    MutexLock lock(&mu_);
    end_ = true;
    Step();
  }

 private:
  void Tell(std::optional<bool> serving) {
    MutexLock lock(&mu_);
    wanted_ = StateOf(serving);
    Step();
  }

  // Starts the next write, or finishes, unless a write is under way.
  void Step() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || finished_) {
      return;
    }
    if (wanted_ != sent_) {
      sent_ = wanted_;
      writing_ = true;
      response_.set_status(sent_);
      StartWrite(&response_);
      return;
    }
    if (end_) {
      finished_ = true;
      Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                          "the server is stopping; watch another"));
    }
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) {
      end_ = true;
      wanted_ = sent_;
    }
    Step();
  }

  void OnCancel() override {
    MutexLock lock(&mu_);
    end_ = true;
    wanted_ = sent_;
    Step();
  }

  void OnDone() override {
    // After these no one else has a pointer to it.
    health_->Unwatch(watch_);
    watches_->Remove(this);
    delete this;
  }

  Health* const health_;
  Watches* const watches_;
  int64_t watch_ = 0;
  Mutex mu_;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool end_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  State::ServingStatus wanted_ ABSL_GUARDED_BY(mu_) = State::UNKNOWN;
  State::ServingStatus sent_ ABSL_GUARDED_BY(mu_) = State::UNKNOWN;
  State response_;  // the write under way
};

void Watches::End() {
  MutexLock lock(&mu_);
  ended_ = true;
  for (WatchCall* call : calls_) {
    call->End();
  }
}

class Service final : public hv1::Health::CallbackService {
 public:
  Service(Health* health, Watches* watches)
      : health_(health), watches_(watches) {}

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const hv1::HealthCheckRequest* request,
                                  hv1::HealthCheckResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const std::optional<bool> serving = health_->Check(request->service());
    if (!serving.has_value()) {
      reactor->Finish(grpc::Status(
          grpc::StatusCode::NOT_FOUND,
          "no such name; there are \"\", the coterie.v1 services that answer "
          "callers, and shard/<id>"));
      return reactor;
    }
    response->set_status(StateOf(serving));
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerWriteReactor<hv1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* /*context*/,
      const hv1::HealthCheckRequest* request) override {
    return new WatchCall(health_, watches_, request->service());
  }

 private:
  Health* const health_;
  Watches* const watches_;
};

class HealthServiceImpl final : public HealthService {
 public:
  explicit HealthServiceImpl(Health* health) : service_(health, &watches_) {}

  grpc::Service* service() override { return &service_; }
  void EndWatches() override { watches_.End(); }

 private:
  Watches watches_;
  Service service_;
};

}  // namespace

std::unique_ptr<HealthService> MakeHealthService(Health* health) {
  return std::make_unique<HealthServiceImpl>(health);
}

}  // namespace coterie
