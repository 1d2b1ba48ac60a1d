#include "coordinator/scan_stream.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "coordinator/routed_call.h"

namespace coterie {
namespace {

absl::Status CheckSlice(const ScanRequest& request) {
  if (request.slices < 1 || request.slice < 0 ||
      request.slice >= request.slices) {
    return InvalidField("slice", absl::StrCat(request.slice, " of ",
                                              request.slices, " slices"));
  }
  if (request.limit < 0) {
    return InvalidField("limit", absl::StrCat(request.limit, " is negative"));
  }
  return absl::OkStatus();
}

// What outlives the stream while a page is under way.
class Progress : public std::enable_shared_from_this<Progress> {
 public:
  Progress(ShardSet shards, std::shared_ptr<CatalogueStore> catalogue,
           ScanRequest request, CallContext call)
      : shards_(std::move(shards)),
        catalogue_(std::move(catalogue)),
        request_(std::move(request)),
        call_(std::move(call)),
        left_(request_.limit) {}

  void Next(Done<ScanPage> done) {
    ended_.clear();
    if (absl::Status live = call_.status(); !live.ok()) {
      done(std::move(live));
      return;
    }
    if (found_) {
      Pull(std::move(done));
      return;
    }
    if (absl::Status sound = CheckSlice(request_); !sound.ok()) {
      done(std::move(sound));
      return;
    }
    Find(std::move(done));
  }

 private:
  void Find(Done<ScanPage> done) {
    catalogue_->Route(
        request_.collection,
        [](const CollectionSpec&) { return absl::OkStatus(); }, call_,
        [self = shared_from_this(), done = std::move(done)](
            absl::StatusOr<CollectionRoute> route) mutable {
          if (!route.ok()) {
            done(route.status());
            return;
          }
          self->found_ = true;
          self->request_.number = route->spec->number;
          self->Pull(std::move(done));
        });
  }

  // Once, while no page has been given out: coordinator and shard may hold
  // different catalogues (routed_call.h).
  bool TryAgain(const absl::Status& failure, Done<ScanPage>* done) {
    if (tried_again_ || delivered_ || !MayBeStale(failure)) {
      return false;
    }
    tried_again_ = true;
    ended_.push_back(std::move(stream_));
    const auto at = static_cast<int32_t>(shard_);
    shard_ = 0;
    catalogue_->Repair(
        at, call_,
        [self = shared_from_this(), failure, done = std::move(*done)](
            absl::StatusOr<CatalogueSnapshot> fresh) mutable {
          if (fresh.ok()) {
            self->Find(std::move(done));
          } else {
            done(BlameShard(failure));
          }
        });
    return true;
  }

  void Pull(Done<ScanPage> done) {
    if (stream_ == nullptr) {
      ScanRequest part = request_;
      part.limit = left_;
      stream_ = (*shards_)[shard_]->Scan(std::move(part), call_);
    }
    stream_->Next([self = shared_from_this(), done = std::move(done)](
                      absl::StatusOr<ScanPage> page) mutable {
      self->Pass(std::move(page), std::move(done));
    });
  }

  void Pass(absl::StatusOr<ScanPage> page, Done<ScanPage> done) {
    if (!page.ok()) {
      const absl::Status failure =
          WithShard(page.status(), static_cast<int32_t>(shard_));
      if (!TryAgain(failure, &done)) {
        done(failure);
      }
      return;
    }
    delivered_ = delivered_ || !page->points.empty();
    bool full = false;
    if (request_.limit > 0) {
      const int64_t size = static_cast<int64_t>(page->points.size());
      if (size >= left_) {
        page->points.resize(static_cast<size_t>(left_));
        full = true;
      }
      left_ -= static_cast<int64_t>(page->points.size());
    }
    if (page->end) {
      // Its code is what called us: destroyed by the next Next.
      ended_.push_back(std::move(stream_));
      ++shard_;
    }
    page->end = full || shard_ == shards_->size();
    if (page->points.empty() && !page->end && stream_ == nullptr) {
      Pull(std::move(done));  // at most one deeper for each shard
      return;
    }
    done(std::move(page));
  }

  const ShardSet shards_;
  const std::shared_ptr<CatalogueStore> catalogue_;
  ScanRequest request_;
  const CallContext call_;
  bool found_ = false;
  bool tried_again_ = false;
  bool delivered_ = false;  // a point
  size_t shard_ = 0;
  int64_t left_;  // of request_.limit
  std::unique_ptr<PointStream> stream_;
  std::vector<std::unique_ptr<PointStream>> ended_;
};

class ScanStream final : public PointStream {
 public:
  explicit ScanStream(std::shared_ptr<Progress> progress)
      : progress_(std::move(progress)) {}

  void Next(Done<ScanPage> done) override { progress_->Next(std::move(done)); }

 private:
  const std::shared_ptr<Progress> progress_;
};

}  // namespace

std::unique_ptr<PointStream> MakeScanStream(
    ShardSet shards, std::shared_ptr<CatalogueStore> catalogue,
    ScanRequest request, CallContext call) {
  return std::make_unique<ScanStream>(
      std::make_shared<Progress>(std::move(shards), std::move(catalogue),
                                 std::move(request), std::move(call)));
}

}  // namespace coterie
