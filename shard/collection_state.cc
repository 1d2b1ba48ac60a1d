#include "shard/collection_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "api/placement.h"

namespace coterie {
namespace {

// A collection's first tail; later ones hold as many rows as it has, so that
// memory follows the data.
constexpr int64_t kFirstTailRows = 1024;

// Dead rows beyond 1 / kDeadShare of a sealed segment have it rewritten.
constexpr int64_t kDeadShare = 5;

constexpr int64_t kNow = std::numeric_limits<int64_t>::max();

// What a tail can have, whatever the tuning says.
int64_t Capacity(int64_t wanted, int64_t most) {
  return std::clamp<int64_t>(std::min(wanted, most), 1, int64_t{1} << 30);
}

RowShape ShapeOf(const CollectionSpec& spec) {
  return {spec.dimension, spec.metric};
}

}  // namespace

std::optional<VectorView> CollectionSnapshot::Find(PointId id) const {
  for (auto view = segments_.rbegin(); view != segments_.rend(); ++view) {
    const int64_t row = (*view)->Find(id);
    if (row >= 0) return (*view)->segment()->rows((*view)->rows()).row(row);
  }
  return std::nullopt;
}

int64_t CollectionSnapshot::MemoryBytes() const {
  auto bytes = static_cast<int64_t>(slots_.size() * sizeof(SlotState));
  for (const auto& view : segments_) {
    bytes += view->segment()->MemoryBytes(view->rows());
  }
  return bytes;
}

CollectionState::CollectionState(CollectionSpec spec, int32_t shard_id,
                                 SegmentTuning tuning)
    : spec_(std::make_shared<const CollectionSpec>(std::move(spec))),
      shard_id_(shard_id),
      tuning_(tuning),
      shape_(ShapeOf(*spec_)),
      slots_(static_cast<size_t>(spec_->slots)) {
  for (int32_t i = 0; i < spec_->slots; ++i) {
    slots_[static_cast<size_t>(i)].slot = i;
  }
}

bool CollectionState::Owns(int32_t slot) const {
  return spec_->owner[static_cast<size_t>(slot)] == shard_id_;
}

const SlotState& CollectionState::slot(int32_t slot) const {
  return slots_[static_cast<size_t>(slot)];
}

void CollectionState::SetOffset(int32_t slot, int64_t offset) {
  slots_[static_cast<size_t>(slot)].offset = offset;
}

int64_t CollectionState::AdvanceOffset(int32_t slot) {
  return ++slots_[static_cast<size_t>(slot)].offset;
}

void CollectionState::SetSpec(CollectionSpec spec) {
  spec_ = std::make_shared<const CollectionSpec>(std::move(spec));
}

void CollectionState::CountRow(PointId id, int sign) {
  SlotState& slot = slots_[static_cast<size_t>(SlotOf(id, spec_->slots))];
  rows_live_ += sign;
  slot.rows += sign;
  slot.id_checksum += sign > 0 ? SplitMix64(id) : -SplitMix64(id);
}

void CollectionState::StartLoad(int64_t expected) {
  load_remaining_ = expected;
}

void CollectionState::Load(PointId id, VectorView vector) {
  if (tail_ != nullptr && tail_->size() == tail_->capacity()) FinishLoad();
  if (tail_ == nullptr) {
    const int64_t most = tuning_.segment_bytes / shape_.row_bytes();
    const int64_t wanted = std::max(kFirstTailRows, load_remaining_);
    tail_ = Segment::NewTail(shape_, Capacity(wanted, most),
                             /*indexed=*/false);
  }
  tail_->Append(id, vector);
  --load_remaining_;
  CountRow(id, 1);
}

void CollectionState::FinishLoad() {
  if (tail_ != nullptr) SealTail();
}

CollectionState::Place CollectionState::Find(PointId id) const {
  if (tail_ != nullptr) {
    const int64_t row = tail_->Find(id, tail_->size(), kNow);
    if (row >= 0) return {tail_.get(), row};
  }
  for (auto segment = sealed_.rbegin(); segment != sealed_.rend(); ++segment) {
    const int64_t row = (*segment)->Find(id, (*segment)->size(), kNow);
    if (row >= 0) return {segment->get(), row};
  }
  return {};
}

bool CollectionState::Delete(PointId id, int64_t sequence) {
  const Place place = Find(id);
  if (place.segment == nullptr) return false;
  place.segment->MarkDeleted(place.row, sequence);
  CountRow(id, -1);
  return true;
}

bool CollectionState::Upsert(PointId id, VectorView vector, int64_t sequence) {
  const bool replaced = Delete(id, sequence);
  if (tail_ != nullptr && tail_->size() == tail_->capacity()) SealTail();
  if (tail_ == nullptr) {
    const int64_t most =
        std::min(tuning_.tail_rows, tuning_.tail_bytes / shape_.row_bytes());
    const int64_t wanted = std::max(kFirstTailRows, rows_live_);
    tail_ = Segment::NewTail(shape_, Capacity(wanted, most));
  }
  tail_->Append(id, vector);
  CountRow(id, 1);
  return replaced;
}

void CollectionState::SealTail() {
  if (auto sealed = Segment::Seal(shape_, {&tail_, 1})) {
    sealed_.push_back(std::move(sealed));
  }
  tail_ = nullptr;
}

void CollectionState::Merge(size_t first, size_t end) {
  auto merged = Segment::Seal(
      shape_, absl::MakeConstSpan(sealed_).subspan(first, end - first));
  const auto at = sealed_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto after =
      sealed_.erase(at, sealed_.begin() + static_cast<std::ptrdiff_t>(end));
  if (merged != nullptr) sealed_.insert(after, std::move(merged));
}

void CollectionState::Maintain() {
  for (size_t n = sealed_.size(); n >= 2; n = sealed_.size()) {
    const int64_t older = sealed_[n - 2]->live();
    const int64_t newer = sealed_[n - 1]->live();
    if (older > 2 * newer ||
        (older + newer) * shape_.row_bytes() > tuning_.segment_bytes) {
      break;
    }
    Merge(n - 2, n);
  }
  for (size_t i = 0; i < sealed_.size(); ++i) {
    const int64_t dead = sealed_[i]->size() - sealed_[i]->live();
    if (dead * kDeadShare > sealed_[i]->size()) {
      Merge(i, i + 1);
      break;
    }
  }
}

std::shared_ptr<const SegmentView> CollectionState::View(
    const std::shared_ptr<Segment>& segment, int64_t sequence) const {
  if (last_ != nullptr) {
    for (const auto& view : last_->segments_) {
      if (view->segment() == segment && view->rows() == segment->size() &&
          view->live() == segment->live()) {
        return view;
      }
    }
  }
  return std::make_shared<const SegmentView>(segment, segment->size(),
                                             segment->live(), sequence);
}

std::shared_ptr<const CollectionSnapshot> CollectionState::Publish(
    int64_t sequence) {
  auto snapshot = std::make_shared<CollectionSnapshot>();
  snapshot->spec_ = spec_;
  snapshot->rows_live_ = rows_live_;
  for (const auto& segment : sealed_) {
    snapshot->segments_.push_back(View(segment, sequence));
  }
  if (tail_ != nullptr && tail_->size() > 0) {
    snapshot->segments_.push_back(View(tail_, sequence));
  }
  for (const SlotState& slot : slots_) {
    if (Owns(slot.slot)) snapshot->slots_.push_back(slot);
  }
  last_ = snapshot;
  return snapshot;
}

}  // namespace coterie
