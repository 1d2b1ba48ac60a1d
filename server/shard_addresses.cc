#include "server/shard_addresses.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "server/listen_address.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

using Addresses = std::vector<std::string>;

class FixedAddresses final : public ShardAddresses {
 public:
  explicit FixedAddresses(Addresses addresses)
      : addresses_(std::move(addresses)) {
    std::sort(addresses_.begin(), addresses_.end());
  }
  bool complete_list() const override { return true; }
  absl::StatusOr<Addresses> Resolve(absl::Duration /*timeout*/) override {
    return addresses_;
  }

 private:
  Addresses addresses_;
};

// Blocks for as long as the resolver likes.
absl::StatusOr<Addresses> LookUp(const std::string& name, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot look up the shards' name ", name, ": ", gai_strerror(error)));
  }
  Addresses addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    char host[NI_MAXHOST];
    if (getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof(host), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      ListenAddress address;
      address.host = host;
      addresses.push_back(address.ToString(port));
    }
  }
  freeaddrinfo(found);
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()),
                  addresses.end());
  return addresses;
}

class NamedAddresses final : public ShardAddresses {
 public:
  NamedAddresses(std::string name, int port)
      : name_(std::move(name)), port_(port) {}

  bool complete_list() const override { return false; }

  absl::StatusOr<Addresses> Resolve(absl::Duration timeout) override {
    if (pending_ == nullptr) {
      pending_ = std::make_shared<LookUpState>();
      // Nothing can interrupt the resolver: its thread is left behind.
      std::thread([state = pending_, name = name_, port = port_] {
        absl::StatusOr<Addresses> found = LookUp(name, port);
        MutexLock lock(&state->mu);
        state->found = std::move(found);
        state->ready.NotifyAll();
      }).detach();
    }
    const std::shared_ptr<LookUpState> state = pending_;
    const absl::Time until = absl::Now() + timeout;
    MutexLock lock(&state->mu);
    while (!state->found.has_value() && absl::Now() < until) {
      state->ready.WaitFor(&state->mu,
                           absl::ToChronoNanoseconds(until - absl::Now()));
    }
    if (!state->found.has_value()) {
      return absl::UnavailableError(
          absl::StrCat("looking up the shards' name ", name_, " takes over ",
                       absl::FormatDuration(timeout)));
    }
    pending_ = nullptr;
    return *std::move(state->found);
  }

 private:
  struct LookUpState {
    Mutex mu;
    CondVar ready;
    std::optional<absl::StatusOr<Addresses>> found ABSL_GUARDED_BY(mu);
  };

  const std::string name_;
  const int port_;
  std::shared_ptr<LookUpState> pending_;
};

}  // namespace

std::unique_ptr<ShardAddresses> MakeShardAddresses(
    const std::vector<std::string>& shards) {
  absl::string_view name = shards.front();
  if (absl::ConsumePrefix(&name, "dns:///")) {
    const ListenAddress address = *ParseListenAddress(name);
    return std::make_unique<NamedAddresses>(address.host, address.port);
  }
  return std::make_unique<FixedAddresses>(shards);
}

}  // namespace coterie
