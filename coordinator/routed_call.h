// A call on a collection: routed by the cached catalogue, tried once more when
// a shard turns out to have another one.
//
// Any thread; nothing blocks.

#ifndef COTERIE_COORDINATOR_ROUTED_CALL_H_
#define COTERIE_COORDINATOR_ROUTED_CALL_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "api/call.h"
#include "api/status_details.h"
#include "coordinator/catalogue_store.h"

namespace coterie {

// Whether the failure may come from coordinator and shard holding different
// catalogues: the coordinator had checked all this before it asked.
inline bool MayBeStale(const absl::Status& status) {
  return absl::IsAborted(status) ||
         (ShardOf(status).has_value() &&
          (absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
           absl::IsFailedPrecondition(status)));
}

// A shard that lacks a collection which exists is behind, and that is no fault
// of the caller's.
inline absl::Status BlameShard(absl::Status status) {
  const std::optional<int32_t> shard = ShardOf(status);
  if (!absl::IsNotFound(status) || !shard.has_value()) {
    return status;
  }
  absl::Status behind = absl::UnavailableError(absl::StrCat(
      std::string(status.message()), "; its catalogue is behind, try again"));
  AttachShard(&behind, *shard);
  return behind;
}

template <typename T>
class RoutedCall : public std::enable_shared_from_this<RoutedCall<T>> {
 public:
  using Attempt = absl::AnyInvocable<void(const CollectionRoute&, Done<T>)>;

  RoutedCall(std::shared_ptr<CatalogueStore> catalogue, std::string name,
             CatalogueStore::Check check, CallContext call, int tries,
             Attempt attempt, Done<T> done)
      : catalogue_(std::move(catalogue)),
        name_(std::move(name)),
        check_(std::move(check)),
        call_(std::move(call)),
        tries_left_(tries),
        attempt_(std::move(attempt)),
        done_(std::move(done)) {}

  void Start() {
    --tries_left_;
    catalogue_->Route(
        name_,
        [self = this->shared_from_this()](const CollectionSpec& spec) {
          return self->check_(spec);
        },
        call_,
        [self =
             this->shared_from_this()](absl::StatusOr<CollectionRoute> route) {
          if (!route.ok()) {
            self->done_(route.status());
            return;
          }
          self->attempt_(*route, [self](absl::StatusOr<T> reply) {
            self->Accept(std::move(reply));
          });
        });
  }

 private:
  void Accept(absl::StatusOr<T> reply) {
    if (reply.ok() || !MayBeStale(reply.status())) {
      done_(std::move(reply));
      return;
    }
    // Shard 0 has the catalogue: repairing it is refreshing ours.
    const int32_t shard = ShardOf(reply.status()).value_or(0);
    catalogue_->Repair(
        shard, call_,
        [self = this->shared_from_this(), failure = reply.status()](
            absl::StatusOr<CatalogueSnapshot> fresh) mutable {
          if (fresh.ok() && (*fresh)->Find(self->name_) == nullptr) {
            self->done_(NoSuchCollection(self->name_));
          } else if (fresh.ok() && self->tries_left_ > 0) {
            self->Start();
          } else {
            self->done_(BlameShard(std::move(failure)));
          }
        });
  }

  const std::shared_ptr<CatalogueStore> catalogue_;
  const std::string name_;
  CatalogueStore::Check check_;
  const CallContext call_;
  int tries_left_;
  Attempt attempt_;
  Done<T> done_;
};

// Routes `name` and runs `attempt`; after a failure that may come from
// different catalogues, brings coordinator and shard together and, if `tries`
// allows, runs it again. NOT_FOUND if the collection does not exist.
// `attempt` may be called `tries` times; its route outlives the call it makes
// only if it copies it.
template <typename T>
void RouteCall(std::shared_ptr<CatalogueStore> catalogue, std::string name,
               CatalogueStore::Check check, CallContext call, int tries,
               typename RoutedCall<T>::Attempt attempt, Done<T> done) {
  std::make_shared<RoutedCall<T>>(std::move(catalogue), std::move(name),
                                  std::move(check), std::move(call), tries,
                                  std::move(attempt), std::move(done))
      ->Start();
}

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_ROUTED_CALL_H_
