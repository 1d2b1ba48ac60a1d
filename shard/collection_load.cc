#include "shard/collection_load.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "index/faiss_factory.h"
#include "index/metric.h"
#include "shard/log_codec.h"
#include "shard/plan_scales.h"
#include "shard/segment.h"
#include "shard/segment_index.h"

namespace coterie {
namespace {

// --- Slot states, rows and log, in this order -------------------------------

// What the slot states say, to be compared with what is found.
using StoredSlots = absl::flat_hash_map<uint32_t, std::vector<SlotState>>;

absl::StatusOr<StoredSlots> LoadSlots(const CollectionStates& states,
                                      RecordStore* store) {
  StoredSlots stored;
  for (const auto& [number, state] : states) {
    std::vector<SlotState>& slots = stored[number];
    slots.resize(static_cast<size_t>(state->spec().slots));
    std::vector<std::string> keys;
    for (int32_t slot = 0; slot < state->spec().slots; ++slot) {
      keys.push_back(SlotStateKey(number, slot));
    }
    const auto values = store->Read(Family::kMeta, keys, nullptr);
    if (!values.ok()) return values.status();
    for (size_t slot = 0; slot < keys.size(); ++slot) {
      if (!(*values)[slot].has_value()) continue;
      const auto decoded = DecodeSlotState(*(*values)[slot]);
      if (!decoded.ok()) {
        return Damaged(absl::StrCat("collection ", number, ", slot ", slot),
                       decoded.status());
      }
      slots[slot] = *decoded;
    }
  }
  return stored;
}

void SetOffsets(const std::vector<SlotState>& slots, CollectionState* state) {
  for (size_t i = 0; i < slots.size(); ++i) {
    state->SetOffset(static_cast<int32_t>(i), slots[i].offset);
  }
}

absl::Status ReadRow(absl::string_view value, const CollectionSpec& spec,
                     std::vector<float>* vector) {
  vector->resize(static_cast<size_t>(spec.dimension));
  absl::Status status = DecodeVector(value, absl::MakeSpan(*vector));
  if (status.ok()) status = ValidateVector(spec.metric, *vector);
  return status;
}

absl::Status LoadRow(absl::string_view key, absl::string_view value,
                     CollectionState* state, std::vector<float>* vector) {
  const auto decoded = DecodeKey(key);
  if (!decoded.ok()) return decoded.status();
  if (decoded->slot != SlotOf(decoded->id, state->spec().slots) ||
      !state->Owns(decoded->slot)) {
    return absl::DataLossError("it lies in a slot where it does not belong");
  }
  const absl::Status status = ReadRow(value, state->spec(), vector);
  if (status.ok()) state->Load(decoded->id, *vector);
  return status;
}

absl::Status DamagedRow(absl::string_view key, const absl::Status& why) {
  return Damaged(absl::StrCat("row (", KeyName(key), ")"), why);
}

// All rows of a collection, from the store.
absl::Status LoadRows(const std::vector<SlotState>& slots,
                      CollectionState* state, RecordStore* store) {
  int64_t rows = 0;
  for (const SlotState& slot : slots) {
    rows += std::min(slot.rows, int64_t{1} << 40);
  }
  state->StartLoad(rows);
  const uint32_t number = state->spec().number;
  std::vector<float> vector;
  const auto cursor = store->Walk(Family::kRows, SlotStart(number, 0),
                                  SlotStart(number, kMaxSlots), nullptr);
  for (; cursor->Valid(); cursor->Next()) {
    const absl::Status status =
        LoadRow(cursor->key(), cursor->value(), state, &vector);
    if (!status.ok()) return DamagedRow(cursor->key(), status);
  }
  state->FinishLoad();
  SetOffsets(slots, state);
  state->CoverOffsets();
  return cursor->status();
}

// Rows that lie between the collections.
absl::Status RefuseStrangers(const CollectionStates& states,
                             RecordStore* store) {
  std::vector<uint32_t> numbers;
  for (const auto& [number, state] : states) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  std::string begin;
  for (size_t i = 0; i <= numbers.size(); ++i) {
    const bool last = i == numbers.size();
    const auto cursor =
        store->Walk(Family::kRows, begin,
                    last ? AfterAll() : SlotStart(numbers[i], 0), nullptr);
    if (cursor->Valid()) {
      const auto key = DecodeKey(cursor->key());
      return DamagedRow(cursor->key(),
                        key.ok()
                            ? absl::DataLossError("it belongs to no collection")
                            : key.status());
    }
    if (!cursor->status().ok()) return cursor->status();
    if (!last) begin = SlotStart(numbers[i], kMaxSlots);
  }
  return absl::OkStatus();
}

// Whether every slot has the rows, and its log the end, that its state says.
absl::Status CompareSlots(const CollectionState& state,
                          const std::vector<SlotState>& stored,
                          const std::vector<SlotState>& logged) {
  for (size_t i = 0; i < stored.size(); ++i) {
    const SlotState& expected = stored[i];
    const SlotState& found = state.slot(static_cast<int32_t>(i));
    if (found.rows == expected.rows &&
        found.id_checksum == expected.id_checksum &&
        logged[i].offset == expected.offset) {
      continue;
    }
    return absl::DataLossError(
        absl::StrCat("collection '", state.spec().name, "' (",
                     state.spec().number, "), slot ", i, ": its state says ",
                     expected.rows, " rows, id checksum ", expected.id_checksum,
                     ", offset ", expected.offset, "; the store holds ",
                     found.rows, " rows, id checksum ", found.id_checksum,
                     ", log up to ", logged[i].offset));
  }
  return absl::OkStatus();
}

// What the log says.
struct StoredLog {
  // The last offset of each slot, as slot states.
  StoredSlots ends;
  // Of collections whose rows come from files, by number: the points that were
  // written or deleted after what the files hold, and the first slot that lacks
  // a record in between.
  absl::flat_hash_map<uint32_t, std::vector<RecordKey>> changes;
  absl::flat_hash_map<uint32_t, std::string> gaps;
};

void NoteChanges(const RecordKey& key, const LogRecord& record,
                 const CollectionState& state, StoredLog* log) {
  const int64_t end =
      log->ends.at(key.collection)[static_cast<size_t>(key.slot)].offset;
  // While files are loaded, the state's offsets are those of the files.
  const int64_t held = state.slot(key.slot).offset;
  const auto offset = static_cast<int64_t>(key.id);
  if (offset <= held) return;
  if (std::max(end, held) + 1 != offset) {
    log->gaps.emplace(key.collection,
                      absl::StrCat("the log of slot ", key.slot,
                                   " has no record ", std::max(end, held) + 1));
  }
  std::vector<RecordKey>& changes = log->changes[key.collection];
  for (const auto& ids : {record.upserted, record.deleted}) {
    for (const PointId id : ids) {
      changes.push_back({key.collection, key.slot, id});
    }
  }
}

absl::StatusOr<StoredLog> LoadLog(
    const CollectionStates& states,
    const absl::flat_hash_set<uint32_t>& from_files, int64_t sequence,
    RecordStore* store) {
  StoredLog log;
  for (const auto& [number, state] : states) {
    log.ends[number].resize(static_cast<size_t>(state->spec().slots));
  }
  const auto cursor = store->Walk(Family::kLog, "", AfterAll(), nullptr);
  for (; cursor->Valid(); cursor->Next()) {
    const std::string name =
        absl::StrCat("log record (", KeyName(cursor->key()), ")");
    const auto key = DecodeKey(cursor->key());
    if (!key.ok()) return Damaged(name, key.status());
    const auto record = DecodeLogRecord(cursor->value());
    if (!record.ok()) return Damaged(name, record.status());
    const auto slots = log.ends.find(key->collection);
    if (slots == log.ends.end() ||
        static_cast<size_t>(key->slot) >= slots->second.size()) {
      return absl::DataLossError(absl::StrCat(name, ": it belongs to nothing"));
    }
    if (record->sequence > sequence) {
      return absl::DataLossError(absl::StrCat(name, ": its sequence is ",
                                              record->sequence,
                                              ", the shard's is ", sequence));
    }
    if (from_files.contains(key->collection)) {
      NoteChanges(*key, *record, *states.at(key->collection), &log);
    }
    slots->second[static_cast<size_t>(key->slot)].offset =
        static_cast<int64_t>(key->id);
  }
  if (!cursor->status().ok()) return cursor->status();
  return log;
}

// --- Segment files ----------------------------------------------------------

// Fills an empty state from the files that the manifest names.
absl::Status AdoptFiles(const ManifestCollection& listed,
                        const std::vector<SlotState>& stored,
                        CollectionState* state, SegmentFolder* folder) {
  const CollectionSpec& spec = state->spec();
  if (listed.offsets.size() != stored.size()) {
    return absl::DataLossError("the manifest has another number of slots");
  }
  for (size_t i = 0; i < stored.size(); ++i) {
    if (listed.offsets[i] > stored[i].offset) {
      return absl::DataLossError(absl::StrCat(
          "the files hold writes of slot ", i, " up to ", listed.offsets[i],
          ", the store up to ", stored[i].offset));
    }
    state->SetOffset(static_cast<int32_t>(i), listed.offsets[i]);
  }
  state->CoverOffsets();
  for (const ManifestSegment& segment : listed.segments) {
    auto file = folder->OpenSegment(listed.number,
                                    {spec.dimension, spec.metric}, segment);
    if (!file.ok()) return file.status();
    state->Adopt(Segment::OverFile(*std::move(file)), segment.dead);
  }
  return absl::OkStatus();
}

// DATA_LOSS unless it is made as the collection wants it.
absl::Status CheckMade(const SegmentIndex& index, const IndexSpec& spec) {
  if (index.faiss() != nullptr) {
    const auto wanted = FaissFactory::Parse(spec.factory);
    if (!wanted.ok()) return wanted.status();
    const FaissFactory fit = wanted->For(index.size());
    if (index.faiss()->factory() == fit) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("it is ", index.faiss()->factory().Text(),
                     ", and the collection has ", fit.Text()));
  }
  if (index.lsh() == nullptr || index.lsh()->tables() == spec.tables()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("it has ", index.lsh()->tables(),
                                          " tables, and the collection ",
                                          spec.tables()));
}

absl::StatusOr<std::shared_ptr<SegmentIndex>> OpenIndex(const SegmentFile& file,
                                                        const IndexSpec& spec,
                                                        SegmentFolder* folder) {
  auto index = folder->OpenIndex(file, spec.kind);
  if (!index.ok()) return index;
  const absl::Status made = CheckMade(**index, spec);
  if (made.ok()) return index;
  return absl::DataLossError(absl::StrCat(
      folder->path(), "/", IndexFileName(file.header().name.number, spec.kind),
      ": ", made.message()));
}

// Gives the segments their structures, as far as there are sound files of them.
void AdoptIndexes(const CollectionState& state, SegmentFolder* folder,
                  std::vector<std::string>* warnings) {
  for (const auto& segment : state.coverage().segments) {
    for (const IndexSpec& spec : state.spec().indexes) {
      auto index = OpenIndex(*segment->file(), spec, folder);
      if (index.ok()) {
        (*index)->MakeCodes(segment->rows(segment->size()), segment->codes());
        (*index)->SetScales(MeasureScales(*segment, **index));
        segment->indexes().Set(*std::move(index));
      } else if (!absl::IsNotFound(index.status())) {
        warnings->push_back(absl::StrCat(
            "index files: collection '", state.spec().name,
            "': ", index.status().message(), "; the index is built anew"));
      }
    }
  }
}

// Attributes of all points, as the store has them: memory that filters ask.
// What is damaged or missing is found by whoever needs it, and named then.
absl::Status LoadAttributes(CollectionState* state, RecordStore* store) {
  const uint32_t number = state->spec().number;
  const auto cursor = store->Walk(Family::kAttributes, SlotStart(number, 0),
                                  SlotStart(number, kMaxSlots), nullptr);
  for (; cursor->Valid(); cursor->Next()) {
    const auto key = DecodeKey(cursor->key());
    const auto attributes = DecodeAttributes(cursor->value());
    if (key.ok() && attributes.ok()) {
      state->LoadAttributes(key->id, *attributes);
    }
  }
  state->FinishLoadAttributes();
  return cursor->status();
}

// Brings the points that changed since to what the store has of them now.
absl::Status ApplyChanges(std::vector<RecordKey> changes, int64_t sequence,
                          CollectionState* state, RecordStore* store) {
  constexpr size_t kAtOnce = 1024;
  const auto place = [](const RecordKey& key) {
    return std::make_pair(key.slot, key.id);
  };
  std::sort(changes.begin(), changes.end(),
            [&](const RecordKey& a, const RecordKey& b) {
              return place(a) < place(b);
            });
  changes.erase(std::unique(changes.begin(), changes.end()), changes.end());
  std::vector<float> vector;
  for (size_t first = 0; first < changes.size(); first += kAtOnce) {
    const size_t end = std::min(first + kAtOnce, changes.size());
    std::vector<std::string> keys;
    for (size_t i = first; i < end; ++i) keys.push_back(EncodeKey(changes[i]));
    const auto values = store->Read(Family::kRows, keys, nullptr);
    if (!values.ok()) return values.status();
    for (size_t i = first; i < end; ++i) {
      const std::optional<std::string>& value = (*values)[i - first];
      if (!value.has_value()) {
        state->Delete(changes[i].id, sequence);
        continue;
      }
      const absl::Status status = ReadRow(*value, state->spec(), &vector);
      if (!status.ok()) return DamagedRow(keys[i - first], status);
      state->Upsert(changes[i].id, vector, sequence);
    }
  }
  return absl::OkStatus();
}

// Loads the collections of one partition, from files where that can be.
class CollectionLoader {
 public:
  CollectionLoader(int32_t shard_id, const SegmentTuning& tuning,
                   RecordStore* store, SegmentFolder* folder,
                   LoadedPartition* loaded)
      : shard_id_(shard_id),
        tuning_(tuning),
        store_(store),
        folder_(folder),
        loaded_(loaded) {}

  absl::Status Load() {
    for (const CollectionSpec& spec : loaded_->catalogue.collections) {
      Reset(spec);
    }
    const auto stored = LoadSlots(loaded_->states, store_);
    if (!stored.ok()) return stored.status();
    absl::Status status = ReadManifest();
    if (!status.ok()) return status;
    for (const auto& listed :
         std::exchange(loaded_->manifest.collections, {})) {
      Adopt(listed, *stored);
    }
    auto log = LoadLog(loaded_->states, from_files_, loaded_->sequence, store_);
    if (!log.ok()) return log.status();
    for (const CollectionSpec& spec : loaded_->catalogue.collections) {
      status = Complete(spec, stored->at(spec.number), &*log);
      if (status.ok()) {
        status = LoadAttributes(loaded_->states.at(spec.number).get(), store_);
      }
      if (!status.ok()) return status;
    }
    return RefuseStrangers(loaded_->states, store_);
  }

 private:
  void Reset(const CollectionSpec& spec) {
    loaded_->states[spec.number] =
        std::make_unique<CollectionState>(spec, shard_id_, tuning_);
  }

  void Warn(absl::string_view what) {
    loaded_->warnings.push_back(absl::StrCat(
        "segment files: ", what, "; the rows are read from the store instead"));
  }

  // An error is the store's.
  absl::Status ReadManifest() {
    const auto record = ReadMeta(store_, ManifestKey());
    if (!record.ok()) return record.status();
    if (!record->has_value()) return absl::OkStatus();
    const auto pointer = DecodeManifestPointer(**record);
    auto manifest = pointer.ok()
                        ? folder_->ReadManifest(*pointer)
                        : absl::StatusOr<SegmentManifest>(pointer.status());
    if (manifest.ok()) {
      loaded_->manifest = *std::move(manifest);
    } else {
      Warn(manifest.status().message());
    }
    return absl::OkStatus();
  }

  // Files of a collection that was dropped are of no use.
  void Adopt(const ManifestCollection& listed, const StoredSlots& stored) {
    const auto state = loaded_->states.find(listed.number);
    if (state == loaded_->states.end()) return;
    const absl::Status status = AdoptFiles(listed, stored.at(listed.number),
                                           state->second.get(), folder_);
    if (status.ok()) {
      AdoptIndexes(*state->second, folder_, &loaded_->warnings);
      from_files_.insert(listed.number);
      loaded_->manifest.collections.push_back(listed);
    } else {
      Refuse(state->second->spec(), status);
    }
  }

  // Goes back to an empty state.
  void Refuse(CollectionSpec spec, const absl::Status& why) {
    Warn(absl::StrCat("collection '", spec.name, "': ", why.message()));
    from_files_.erase(spec.number);
    auto& listed = loaded_->manifest.collections;
    listed.erase(std::remove_if(listed.begin(), listed.end(),
                                [&](const ManifestCollection& collection) {
                                  return collection.number == spec.number;
                                }),
                 listed.end());
    Reset(spec);
  }

  absl::Status CatchUp(CollectionState* state,
                       const std::vector<SlotState>& stored, StoredLog* log) {
    const uint32_t number = state->spec().number;
    const auto gap = log->gaps.find(number);
    if (gap != log->gaps.end()) return absl::DataLossError(gap->second);
    const absl::Status status = ApplyChanges(std::move(log->changes[number]),
                                             loaded_->sequence, state, store_);
    if (!status.ok()) return status;
    SetOffsets(stored, state);
    return CompareSlots(*state, stored, log->ends.at(number));
  }

  absl::Status Complete(const CollectionSpec& spec,
                        const std::vector<SlotState>& stored, StoredLog* log) {
    if (from_files_.contains(spec.number)) {
      const absl::Status status =
          CatchUp(loaded_->states.at(spec.number).get(), stored, log);
      if (status.ok()) return status;
      Refuse(spec, status);
    }
    CollectionState* const state = loaded_->states.at(spec.number).get();
    const absl::Status status = LoadRows(stored, state, store_);
    return status.ok() ? CompareSlots(*state, stored, log->ends.at(spec.number))
                       : status;
  }

  const int32_t shard_id_;
  const SegmentTuning& tuning_;
  RecordStore* const store_;
  SegmentFolder* const folder_;
  LoadedPartition* const loaded_;
  absl::flat_hash_set<uint32_t> from_files_;  // by number
};

}  // namespace

std::string AfterAll() { return std::string(16, '\xff'); }

absl::Status Damaged(absl::string_view what, const absl::Status& why) {
  return absl::DataLossError(absl::StrCat(what, ": ", why.message()));
}

absl::StatusOr<std::optional<std::string>> ReadMeta(RecordStore* store,
                                                    std::string key) {
  auto values = store->Read(Family::kMeta, {std::move(key)}, nullptr);
  if (!values.ok()) return values.status();
  return std::move(values->front());
}

absl::Status LoadCollections(int32_t shard_id, const SegmentTuning& tuning,
                             RecordStore* store, SegmentFolder* folder,
                             LoadedPartition* loaded) {
  return CollectionLoader(shard_id, tuning, store, folder, loaded).Load();
}

}  // namespace coterie
