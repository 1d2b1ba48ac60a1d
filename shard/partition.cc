#include "shard/partition.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "shard/group_writer.h"
#include "shard/log_codec.h"

namespace coterie {
namespace {

const CollectionSpec* FindNumber(const Catalogue& catalogue, uint32_t number) {
  for (const CollectionSpec& spec : catalogue.collections) {
    if (spec.number == number) return &spec;
  }
  return nullptr;
}

// Whether `next` is a catalogue at all, for this many shards.
absl::Status CheckCatalogue(const Catalogue& next, int32_t shards_total,
                            const Limits& limits) {
  absl::flat_hash_set<uint32_t> numbers;
  const std::string* previous = nullptr;
  for (const CollectionSpec& spec : next.collections) {
    const absl::Status status = ValidateCollection(spec, limits);
    if (!status.ok()) return status;
    if (previous != nullptr && spec.name <= *previous) {
      return absl::InvalidArgumentError(
          absl::StrCat("collections '", *previous, "' and '", spec.name,
                       "' are not in order of names"));
    }
    previous = &spec.name;
    if (spec.number == 0 || spec.number >= next.next_number ||
        !numbers.insert(spec.number).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("collection '", spec.name, "' has number ", spec.number,
                       ", which is 0, used twice or not below next_number ",
                       next.next_number));
    }
    if (static_cast<int64_t>(spec.owner.size()) != spec.slots ||
        std::any_of(spec.owner.begin(), spec.owner.end(), [&](int32_t owner) {
          return owner < 0 || owner >= shards_total;
        })) {
      return absl::InvalidArgumentError(absl::StrCat(
          "collection '", spec.name, "': owners of its ", spec.slots,
          " slots are not all in 0..", shards_total - 1));
    }
  }
  return absl::OkStatus();
}

void DropRecords(uint32_t number, StoreBatch* batch) {
  for (const Family family :
       {Family::kRows, Family::kAttributes, Family::kLog}) {
    batch->DeleteRange(family, SlotStart(number, 0),
                       SlotStart(number, kMaxSlots));
  }
  batch->DeleteRange(Family::kMeta, SlotStateKey(number, 0),
                     SlotStateKey(number, kMaxSlots));
  batch->DeleteRange(Family::kMeta, SlotRequestsStart(number, 0),
                     SlotRequestsStart(number, kMaxSlots));
  batch->DeleteRange(Family::kMeta, NamedRecordKey(number, ""),
                     NamedRecordKey(number + 1, ""));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Partition>> Partition::Open(Options options) {
  auto store = options.open_store == nullptr ? RecordStore::Open(options.path)
                                             : options.open_store(options.path);
  if (!store.ok()) return store.status();
  const auto with_path = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("store ", options.path,
                                                    ": ", status.message()));
  };
  auto identity = ClaimIdentity(options.identity, store->get());
  if (!identity.ok()) return with_path(identity.status());
  SegmentFolder folder(options.segment_disk, options.path, *identity);
  auto loaded =
      LoadPartition(identity->shard_id, options.tuning, store->get(), &folder);
  if (!loaded.ok()) return with_path(loaded.status());
  return std::unique_ptr<Partition>(
      new Partition(std::move(options), std::move(*store), std::move(*identity),
                    std::move(folder), std::move(*loaded)));
}

Partition::Partition(Options options, std::unique_ptr<RecordStore> store,
                     ShardIdentity identity, SegmentFolder folder,
                     LoadedPartition loaded)
    : options_(std::move(options)),
      store_(std::move(store)),
      identity_(std::move(identity)),
      segment_folder_(std::move(folder)),
      manifest_(std::move(loaded.manifest)),
      warnings_(std::move(loaded.warnings)),
      states_(std::move(loaded.states)),
      sequence_(loaded.sequence) {
  TurnLock lock(&state_mutex_);
  AdoptCatalogue(std::move(loaded.catalogue));
}

// --- Reading ----------------------------------------------------------------

absl::StatusOr<ReadView> Partition::View(absl::string_view collection) const {
  MutexLock lock(&view_mutex_);
  const auto found = visible_.find(collection);
  if (found == visible_.end()) {
    return absl::NotFoundError(
        absl::StrCat("collection '", collection, "' does not exist"));
  }
  return ReadView{visible_sequence_, catalogue_->version, found->second,
                  records_};
}

std::shared_ptr<const Catalogue> Partition::catalogue() const {
  MutexLock lock(&view_mutex_);
  return catalogue_;
}

Partition::Totals Partition::totals() const {
  Totals totals;
  totals.memory_bytes = store_->MemoryBytes();
  MutexLock lock(&view_mutex_);
  totals.sequence = visible_sequence_;
  for (const auto& [name, snapshot] : visible_) {
    totals.points += snapshot->rows_live();
    totals.memory_bytes += snapshot->MemoryBytes();
  }
  return totals;
}

void Partition::CountUnsealed() {
  int64_t bytes = 0;
  for (const auto& [number, state] : states_) bytes += state->unsealed_bytes();
  unsealed_bytes_.store(bytes, std::memory_order_relaxed);
}

void Partition::Publish(const std::vector<uint32_t>& numbers) {
  CountUnsealed();
  // Of the same moment as the rows: no one else writes.
  auto records = store_->TakeSnapshot();
  std::vector<std::shared_ptr<const CollectionSnapshot>> snapshots;
  for (const uint32_t number : numbers) {
    snapshots.push_back(states_.at(number)->Publish(sequence_));
  }
  // What is replaced dies after the lock, if no reader holds it.
  MutexLock lock(&view_mutex_);
  visible_sequence_ = sequence_;
  records_.swap(records);
  for (auto& snapshot : snapshots) {
    visible_[snapshot->spec().name].swap(snapshot);
  }
}

// --- Writing ----------------------------------------------------------------

absl::Status Partition::CheckEntry(const LogEntry& entry) const {
  const auto state = states_.find(entry.collection);
  if (state == states_.end()) {
    return absl::NotFoundError(absl::StrCat("collection ", entry.collection,
                                            " was dropped before the write"));
  }
  for (const SlotMutations& slot : entry.slots) {
    if (!state->second->Owns(slot.slot)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "slot ", slot.slot, " of collection '", state->second->spec().name,
          "' is no longer on shard ", identity_.shard_id));
    }
  }
  return absl::OkStatus();
}

absl::Status Partition::ApplyGroup(
    absl::Span<const LogEntry* const> entries,
    absl::Span<absl::StatusOr<WriteReply>> replies) {
  TurnLock lock(&state_mutex_);
  GroupWriter group(entries, sequence_, options_.limits, &states_,
                    store_.get());
  for (size_t i = 0; i < entries.size(); ++i) {
    const absl::Status status = CheckEntry(*entries[i]);
    if (status.ok()) {
      replies[i] = group.Apply(*entries[i]);
    } else {
      replies[i] = status;
    }
  }
  if (group.empty()) return absl::OkStatus();
  sequence_ = group.sequence();
  const absl::Status status = store_->Write(group.Finish());
  if (!status.ok()) {
    store_failed_ = true;
    return status;
  }
  const std::vector<uint32_t> numbers = group.collections();
  Publish(numbers);
  for (const uint32_t number : numbers) {
    if (states_.at(number)->WantsMerge(/*files=*/false)) {
      WakeKeeper();
      break;
    }
  }
  return absl::OkStatus();
}

// --- Sealing and merging ----------------------------------------------------

CollectionState* Partition::Mergeable(uint32_t collection) {
  const auto state = states_.find(collection);
  return state == states_.end() || store_failed_ ? nullptr
                                                 : state->second.get();
}

std::optional<Partition::Merge> Partition::StartMerge(bool files) {
  TurnLock lock(&state_mutex_);
  if (store_failed_) return std::nullopt;
  for (const auto& [number, state] : states_) {
    Merge merge;
    merge.inputs = state->StartMerge(files);
    if (merge.inputs.empty()) continue;
    merge.attributes = state->MergedAttributes();
    merge.collection = number;
    merge.shape = {state->spec().dimension, state->spec().metric};
    return merge;
  }
  return std::nullopt;
}

CollectionState::Changes Partition::TakeChanges(uint32_t collection) {
  TurnLock lock(&state_mutex_);
  CollectionState* const state = Mergeable(collection);
  if (state == nullptr) return {};
  return state->TakeChanges();
}

void Partition::FinishMerge(uint32_t collection,
                            std::shared_ptr<Segment> merged) {
  TurnLock lock(&state_mutex_);
  CollectionState* const state = Mergeable(collection);
  if (state == nullptr) return;
  state->FinishMerge(std::move(merged));
  Publish({collection});
  WakeBuilder();
}

void Partition::AbandonMerge(uint32_t collection) {
  TurnLock lock(&state_mutex_);
  CollectionState* const state = Mergeable(collection);
  if (state != nullptr) state->AbandonMerge();
}

std::optional<Partition::Coverage> Partition::SegmentCoverage() {
  TurnLock lock(&state_mutex_);
  if (store_failed_) return std::nullopt;
  Coverage coverage;
  coverage.sequence = sequence_;
  for (const auto& [number, state] : states_) {
    coverage.collections[number] = state->coverage();
  }
  return coverage;
}

// --- Indexes ----------------------------------------------------------------

std::vector<Partition::MissingIndex> Partition::MissingIndexes() {
  TurnLock lock(&state_mutex_);
  std::vector<MissingIndex> missing;
  if (store_failed_) return missing;
  for (const auto& [number, state] : states_) {
    const CollectionSpec& spec = state->spec();
    if (spec.indexes.empty()) continue;
    const RowShape shape = {spec.dimension, spec.metric};
    const IndexSpec* const tree = spec.FindIndex(IndexKind::kTree);
    for (const std::shared_ptr<Segment>& segment : state->Settled()) {
      if (segment->file() == nullptr ||
          !options_.tuning.IndexPays(shape, segment->size())) {
        continue;
      }
      const auto lacks = [&](IndexKind kind) {
        return segment->indexes().Get(kind) == nullptr;
      };
      if (tree != nullptr && lacks(IndexKind::kTree)) {
        missing.push_back({number, shape, *tree, segment});
        continue;
      }
      for (const IndexSpec& index : spec.indexes) {
        if (lacks(index.kind)) {
          missing.push_back({number, shape, index, segment});
        }
      }
    }
  }
  return missing;
}

bool Partition::Counts(const std::shared_ptr<Segment>& segment) {
  TurnLock lock(&state_mutex_);
  return std::any_of(states_.begin(), states_.end(), [&](const auto& entry) {
    const auto& segments = entry.second->coverage().segments;
    return std::find(segments.begin(), segments.end(), segment) !=
           segments.end();
  });
}

int64_t Partition::IndexBytes() {
  TurnLock lock(&state_mutex_);
  int64_t bytes = 0;
  for (const auto& [number, state] : states_) {
    for (const auto& segment : state->coverage().segments) {
      bytes += segment->indexes().MemoryBytes();
    }
  }
  return bytes;
}

std::shared_ptr<const AttributeView> Partition::StartRelay(
    uint32_t collection, const std::shared_ptr<Segment>& segment) {
  TurnLock lock(&state_mutex_);
  CollectionState* const state = Mergeable(collection);
  return state != nullptr ? state->StartRelay(segment) : nullptr;
}

CollectionState::Changes Partition::TakeRelayChanges(uint32_t collection) {
  TurnLock lock(&state_mutex_);
  CollectionState* const state = Mergeable(collection);
  if (state == nullptr) return {};
  return state->TakeRelayChanges();
}

void Partition::FinishRelay(uint32_t collection,
                            std::shared_ptr<Segment> relaid) {
  TurnLock lock(&state_mutex_);
  const std::shared_ptr<const SegmentFile> file =
      relaid != nullptr ? relaid->file() : nullptr;
  CollectionState* const state = Mergeable(collection);
  if (state != nullptr) {
    state->FinishRelay(std::move(relaid));
    Publish({collection});
  }
  if (file != nullptr) segment_folder_.Release(*file);
  WakeKeeper();
}

// --- The catalogue ----------------------------------------------------------

absl::Status Partition::CheckChange(const Catalogue& next) const {
  const auto current = catalogue();
  if (next.version <= current->version ||
      next.next_number < current->next_number) {
    return absl::InvalidArgumentError(
        absl::StrCat("catalogue version ", next.version, ", next_number ",
                     next.next_number, " does not follow version ",
                     current->version, ", next_number ", current->next_number));
  }
  for (const CollectionSpec& spec : next.collections) {
    const CollectionSpec* old = FindNumber(*current, spec.number);
    if (old == nullptr) {
      if (spec.number >= current->next_number) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("collection '", spec.name, "' has number ", spec.number,
                       ", which a dropped collection had"));
    }
    CollectionSpec same = *old;
    same.owner = spec.owner;
    if (same != spec) {
      return absl::InvalidArgumentError(absl::StrCat(
          "collection '", old->name,
          "': only the owners of its slots can change, not its name, "
          "dimension, metric or number of slots"));
    }
    const CollectionState& state = *states_.at(spec.number);
    for (int32_t slot = 0; slot < spec.slots; ++slot) {
      const int32_t owner = spec.owner[static_cast<size_t>(slot)];
      if (owner == identity_.shard_id || state.slot(slot).rows == 0) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "collection '", spec.name, "': slot ", slot, " cannot go to shard ",
          owner, " while shard ", identity_.shard_id, " has ",
          state.slot(slot).rows, " points in it"));
    }
  }
  return absl::OkStatus();
}

absl::Status Partition::PutCatalogue(int64_t expected_version, Catalogue next,
                                     absl::StatusOr<int64_t>* reply) {
  TurnLock lock(&state_mutex_);
  const auto current = catalogue();
  absl::Status refusal;
  if (current->version != expected_version) {
    refusal = absl::AbortedError(absl::StrCat("the catalogue is at version ",
                                              current->version, ", not ",
                                              expected_version));
  }
  if (refusal.ok()) {
    refusal = CheckCatalogue(next, identity_.shards_total, options_.limits);
  }
  if (refusal.ok()) refusal = CheckChange(next);
  if (!refusal.ok()) {
    *reply = refusal;
    return absl::OkStatus();
  }

  StoreBatch batch;
  std::vector<uint32_t> dropped;
  for (const CollectionSpec& spec : current->collections) {
    if (FindNumber(next, spec.number) != nullptr) continue;
    dropped.push_back(spec.number);
    DropRecords(spec.number, &batch);
  }
  batch.Put(Family::kMeta, CatalogueKey(), EncodeCatalogue(next));
  const absl::Status status = store_->Write(batch);
  if (!status.ok()) {
    store_failed_ = true;
    *reply = status;
    return status;
  }
  *reply = next.version;
  AdoptCatalogue(std::move(next));
  if (!dropped.empty()) {
    WakeKeeper();
    WakeBuilder();
  }
  for (const uint32_t number : dropped) {
    store_->Reclaim(Family::kRows, SlotStart(number, 0),
                    SlotStart(number, kMaxSlots));
  }
  return absl::OkStatus();
}

void Partition::AdoptCatalogue(Catalogue next) {
  auto catalogue = std::make_shared<const Catalogue>(std::move(next));
  CollectionStates states;
  decltype(visible_) visible;
  for (const CollectionSpec& spec : catalogue->collections) {
    auto& state = states[spec.number];
    const auto old = states_.find(spec.number);
    if (old != states_.end()) {
      state = std::move(old->second);
      state->SetSpec(spec);
    } else {
      state = std::make_unique<CollectionState>(spec, identity_.shard_id,
                                                options_.tuning);
    }
    visible[spec.name] = state->Publish(sequence_);
  }
  auto records = store_->TakeSnapshot();
  states_.swap(states);  // the dropped ones die with `states`
  CountUnsealed();
  MutexLock lock(&view_mutex_);
  catalogue_.swap(catalogue);
  visible_sequence_ = sequence_;
  records_.swap(records);
  visible_.swap(visible);
}

}  // namespace coterie
