#include "shard/collection_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "api/placement.h"

namespace coterie {
namespace {

// A collection's first tail; later ones hold a multiple of the rows that it
// has: a growing collection is sealed and merged seldom, and memory follows the
// data all the same, as pages are taken when they are touched.
constexpr int64_t kFirstTailRows = 1024;
constexpr int64_t kTailGrowth = 4;

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
    bytes += view->MemoryBytes();
  }
  return bytes;
}

CollectionState::CollectionState(CollectionSpec spec, int32_t shard_id,
                                 SegmentTuning tuning)
    : spec_(std::make_shared<const CollectionSpec>(std::move(spec))),
      shard_id_(shard_id),
      tuning_(tuning),
      shape_(ShapeOf(*spec_)),
      slots_(static_cast<size_t>(spec_->slots)),
      covered_(slots_.size()) {
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

int64_t CollectionState::AdvanceOffset(int32_t slot, int64_t points) {
  unsealed_ += points;
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
    int64_t most = tuning_.segment_bytes / shape_.row_bytes();
    while (most > kFirstTailRows && !Affordable(most)) most /= 2;
    const int64_t wanted = std::max(kFirstTailRows, load_remaining_);
    tail_ = Segment::NewTail(shape_, Capacity(wanted, most),
                             /*indexed=*/false);
  }
  tail_->Append(id, vector);
  --load_remaining_;
  CountRow(id, 1);
}

void CollectionState::FinishLoad() {
  if (tail_ == nullptr) return;
  if (auto sealed = Segment::Seal(shape_, {&tail_, 1})) {
    sealed_.push_back(std::move(sealed));
  }
  tail_ = nullptr;
}

void CollectionState::Adopt(std::shared_ptr<Segment> segment,
                            absl::Span<const int64_t> dead) {
  // Whoever reads comes later than every write there was.
  for (const int64_t row : dead) segment->MarkDeleted(row, 1);
  for (int64_t row = 0; row < segment->size(); ++row) {
    if (segment->IsLive(row, kNow)) CountRow(segment->id(row), 1);
  }
  sealed_.push_back(std::move(segment));
}

void CollectionState::LoadAttributes(PointId id, const Attributes& attributes) {
  const Place place = Find(id);
  if (place.segment == nullptr) return;
  auto& builder = loading_[place.segment];
  if (builder == nullptr) builder = std::make_unique<AttributeColumnsBuilder>();
  builder->Add(place.row, attributes);
}

void CollectionState::FinishLoadAttributes() {
  for (auto& [segment, builder] : loading_) {
    segment->attributes()->Adopt(builder->Build(), segment->size());
    builder = nullptr;
  }
  loading_.clear();
}

void CollectionState::CoverOffsets() { covered_ = Offsets(); }

std::vector<int64_t> CollectionState::Offsets() const {
  std::vector<int64_t> offsets;
  offsets.reserve(slots_.size());
  for (const SlotState& slot : slots_) offsets.push_back(slot.offset);
  return offsets;
}

CollectionState::Place CollectionState::Find(PointId id) const {
  if (tail_ != nullptr) {
    const int64_t row = tail_->Find(id, tail_->size(), kNow);
    if (row >= 0) return {tail_.get(), row};
  }
  for (auto frozen = frozen_.rbegin(); frozen != frozen_.rend(); ++frozen) {
    const int64_t row = frozen->tail->Find(id, frozen->tail->size(), kNow);
    if (row >= 0) return {frozen->tail.get(), row};
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
  if (IsMerging(place.segment)) changes_.deaths.push_back({id, sequence});
  if (place.segment == relaying_.get()) {
    relay_changes_.deaths.push_back({id, sequence});
  }
  CountRow(id, -1);
  return true;
}

bool CollectionState::IsMerging(const Segment* segment) const {
  return std::any_of(
      merging_.begin(), merging_.end(),
      [segment](const auto& input) { return input.get() == segment; });
}

bool CollectionState::SetAttributes(PointId id, const Attributes& attributes) {
  const Place place = Find(id);
  if (place.segment == nullptr) return false;
  place.segment->attributes()->Set(place.row, attributes);
  if (IsMerging(place.segment)) changes_.updates.push_back({id, attributes});
  if (place.segment == relaying_.get()) {
    relay_changes_.updates.push_back({id, attributes});
  }
  return true;
}

bool CollectionState::Upsert(PointId id, VectorView vector, int64_t sequence,
                             const Attributes& attributes) {
  const bool replaced = Delete(id, sequence);
  if (tail_ != nullptr && tail_->size() == tail_->capacity()) Freeze();
  if (tail_ == nullptr) {
    const int64_t most =
        std::min(tuning_.tail_rows, tuning_.tail_bytes / shape_.row_bytes());
    const int64_t wanted = std::max(kFirstTailRows, kTailGrowth * rows_live_);
    tail_ = Segment::NewTail(shape_, Capacity(wanted, most));
  }
  tail_->Append(id, vector);
  tail_->attributes()->Set(tail_->size() - 1, attributes);
  CountRow(id, 1);
  return replaced;
}

// --- Sealing and merging ----------------------------------------------------

void CollectionState::Freeze() {
  unsealed_ = 0;
  if (tail_ != nullptr) {
    frozen_.push_back({std::move(tail_), Offsets()});
    tail_ = nullptr;
  } else if (!frozen_.empty()) {
    frozen_.back().offsets = Offsets();
  } else {
    CoverOffsets();
  }
}

bool CollectionState::Affordable(int64_t rows) const {
  const int64_t coded = shape_.CodesPay(rows) ? shape_.dimension + 12 : 0;
  return rows * (static_cast<int64_t>(sizeof(SegmentRow)) + coded) <=
         tuning_.merge_bytes;
}

bool CollectionState::Fits(int64_t rows) const {
  return Affordable(rows) && rows * shape_.row_bytes() <= tuning_.segment_bytes;
}

std::pair<size_t, size_t> CollectionState::NextMerge(bool files) const {
  const size_t n = sealed_.size();
  for (size_t i = 0; files && i < n; ++i) {
    if (sealed_[i]->file() == nullptr) return {i, i + 1};
  }
  if (n >= 2) {
    const int64_t older = sealed_[n - 2]->live();
    const int64_t newer = sealed_[n - 1]->live();
    if (older <= 2 * newer && Fits(older + newer) && !Relays(n - 2) &&
        !Relays(n - 1)) {
      return {n - 2, n};
    }
  }
  for (size_t i = 0; i < n; ++i) {
    const int64_t dead = sealed_[i]->size() - sealed_[i]->live();
    if (dead * kDeadShare > sealed_[i]->size() && !Relays(i) &&
        Affordable(sealed_[i]->live())) {
      return {i, i + 1};
    }
  }
  return {0, 0};
}

bool CollectionState::WantsMerge(bool files) const {
  if (!merging_.empty()) return false;
  if (!frozen_.empty() || WantsFreeze()) return true;
  const auto [first, end] = NextMerge(files);
  return first != end;
}

std::vector<std::shared_ptr<Segment>> CollectionState::StartMerge(bool files) {
  if (!merging_.empty()) return {};
  if (WantsFreeze()) Freeze();
  if (!frozen_.empty()) {
    // All that wait, so that who falls behind catches up.
    int64_t rows = 0;
    for (const Frozen& frozen : frozen_) {
      rows += frozen.tail->live();
      if (!merging_.empty() && !Fits(rows)) break;
      merging_.push_back(frozen.tail);
    }
  } else {
    const auto [first, end] = NextMerge(files);
    merging_.assign(sealed_.begin() + static_cast<std::ptrdiff_t>(first),
                    sealed_.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return merging_;
}

std::vector<std::shared_ptr<const AttributeView>>
CollectionState::MergedAttributes() {
  std::vector<std::shared_ptr<const AttributeView>> views;
  for (const auto& input : merging_) {
    views.push_back(input->attributes()->View());
  }
  return views;
}

void CollectionState::Changes::ApplyTo(Segment* merged) const {
  for (const Death& death : deaths) {
    merged->MarkIfLive(death.id, death.sequence);
  }
  for (const Update& update : updates) {
    merged->SetAttributesOf(update.id, update.attributes);
  }
}

CollectionState::Changes CollectionState::TakeChanges() {
  return std::exchange(changes_, {});
}

void CollectionState::FinishMerge(std::shared_ptr<Segment> merged) {
  if (merged != nullptr) changes_.ApplyTo(merged.get());
  auto at = std::find(sealed_.begin(), sealed_.end(), merging_.front());
  if (at != sealed_.end()) {
    at = sealed_.erase(at, at + static_cast<std::ptrdiff_t>(merging_.size()));
  } else {
    for (size_t i = 0; i < merging_.size(); ++i) {
      covered_ = std::move(frozen_.front().offsets);
      frozen_.pop_front();
    }
  }
  if (merged != nullptr) sealed_.insert(at, std::move(merged));
  AbandonMerge();
}

void CollectionState::AbandonMerge() {
  merging_.clear();
  changes_ = {};
}

int64_t CollectionState::unsealed_bytes() const {
  int64_t rows = 0;
  for (const Frozen& frozen : frozen_) rows += frozen.tail->size();
  return rows * shape_.row_bytes();
}

std::shared_ptr<const AttributeView> CollectionState::StartRelay(
    const std::shared_ptr<Segment>& segment) {
  if (std::find(sealed_.begin(), sealed_.end(), segment) == sealed_.end() ||
      IsMerging(segment.get())) {
    return nullptr;
  }
  relaying_ = segment;
  return segment->attributes()->View();
}

std::vector<std::shared_ptr<Segment>> CollectionState::Settled() const {
  const auto [first, end] = NextMerge(/*files=*/true);
  std::vector<std::shared_ptr<Segment>> settled;
  for (size_t i = 0; i < sealed_.size(); ++i) {
    const bool merges =
        (i >= first && i < end) || std::find(merging_.begin(), merging_.end(),
                                             sealed_[i]) != merging_.end();
    if (!merges) settled.push_back(sealed_[i]);
  }
  return settled;
}

CollectionState::Changes CollectionState::TakeRelayChanges() {
  return std::exchange(relay_changes_, {});
}

void CollectionState::FinishRelay(std::shared_ptr<Segment> relaid) {
  if (relaid != nullptr) {
    relay_changes_.ApplyTo(relaid.get());
    *std::find(sealed_.begin(), sealed_.end(), relaying_) = std::move(relaid);
  }
  relaying_ = nullptr;
  relay_changes_ = {};
}

void CollectionState::Maintain() {
  for (auto inputs = StartMerge(/*files=*/false); !inputs.empty();
       inputs = StartMerge(/*files=*/false)) {
    auto merged = Segment::Seal(shape_, inputs);
    if (merged != nullptr) {
      merged->AdoptAttributes(inputs, MergedAttributes());
    }
    FinishMerge(std::move(merged));
  }
}

std::shared_ptr<const SegmentView> CollectionState::View(
    const std::shared_ptr<Segment>& segment, int64_t sequence) const {
  auto attributes = segment->attributes()->View();
  if (last_ != nullptr) {
    for (const auto& view : last_->segments_) {
      if (view->segment() == segment && view->rows() == segment->size() &&
          view->live() == segment->live() && view->attributes() == attributes) {
        return view;
      }
    }
  }
  return std::make_shared<const SegmentView>(segment, sequence,
                                             std::move(attributes));
}

std::shared_ptr<const CollectionSnapshot> CollectionState::Publish(
    int64_t sequence) {
  auto snapshot = std::make_shared<CollectionSnapshot>();
  snapshot->spec_ = spec_;
  snapshot->rows_live_ = rows_live_;
  for (const auto& segment : sealed_) {
    snapshot->segments_.push_back(View(segment, sequence));
  }
  for (const Frozen& frozen : frozen_) {
    snapshot->segments_.push_back(View(frozen.tail, sequence));
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
