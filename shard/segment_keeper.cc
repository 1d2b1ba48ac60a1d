#include "shard/segment_keeper.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "shard/record_codec.h"
#include "shard/record_store.h"
#include "shard/segment_folder.h"
#include "shard/segment_index.h"

namespace coterie {
namespace {

// Log records kept of each slot in any case: enough to see what was written
// last.
constexpr int64_t kLogRecordsPerSlot = 16;

constexpr std::chrono::seconds kLeastPause{1};
constexpr std::chrono::seconds kMostPause{60};

constexpr int kMergesPerSave = 8;

// Changes that the writer may be left to carry over itself.
constexpr size_t kFewChanges = 256;
constexpr int kChangeRounds = 8;

const ManifestCollection* Find(const SegmentManifest& manifest,
                               uint32_t number) {
  for (const ManifestCollection& collection : manifest.collections) {
    if (collection.number == number) return &collection;
  }
  return nullptr;
}

// Whether they name the same files, holding the same writes. Deaths do not
// count: the log tells of those that one of them lacks.
bool SameHoldings(const SegmentManifest& a, const SegmentManifest& b) {
  const auto same_file = [](const ManifestSegment& x,
                            const ManifestSegment& y) {
    return x.number == y.number;
  };
  const auto same = [&](const ManifestCollection& x,
                        const ManifestCollection& y) {
    return x.number == y.number && x.offsets == y.offsets &&
           std::equal(x.segments.begin(), x.segments.end(), y.segments.begin(),
                      y.segments.end(), same_file);
  };
  return std::equal(a.collections.begin(), a.collections.end(),
                    b.collections.begin(), b.collections.end(), same);
}

bool AllInFiles(const std::vector<std::shared_ptr<Segment>>& segments) {
  return std::all_of(segments.begin(), segments.end(), [](const auto& segment) {
    return segment->file() != nullptr;
  });
}

// The files of a segment: its own, and those of indexes, finished or not.
void InsertNames(int64_t number, absl::flat_hash_set<std::string>* names) {
  names->insert(SegmentFileName(number));
  for (const IndexKind kind : kIndexKinds) {
    names->insert(IndexFileName(number, kind));
    names->insert(absl::StrCat(IndexFileName(number, kind), ".tmp"));
  }
}

}  // namespace

std::function<void(absl::string_view)> WarnOnStderr(int32_t shard_id) {
  return [shard_id](absl::string_view what) {
    const std::string line = absl::StrCat("shard ", shard_id, ": ", what, "\n");
    std::fputs(line.c_str(), stderr);
  };
}

SegmentKeeper::SegmentKeeper(Partition* partition,
                             std::function<void(absl::string_view)> warn)
    : partition_(partition),
      warn_(warn != nullptr ? std::move(warn)
                            : WarnOnStderr(partition->identity().shard_id)),
      must_save_(!partition->warnings().empty()) {
  SetSaved(partition->manifest_at_start());
  for (const ManifestCollection& collection : saved_.collections) {
    trimmed_[collection.number] = collection.offsets;
  }
}

SegmentKeeper::~SegmentKeeper() { Stop(); }

void SegmentKeeper::Start() {
  const std::string& torn = partition_->store()->torn_tail();
  if (!torn.empty()) warn_(torn);
  for (const std::string& warning : partition_->warnings()) warn_(warning);
  partition_->OnMergeWanted([this] {
    MutexLock lock(&mutex_);
    woken_ = true;
    changed_.NotifyOne();
  });
  thread_ = std::thread([this] { Loop(); });
}

void SegmentKeeper::Stop() {
  stopping_.store(true);
  {
    MutexLock lock(&mutex_);
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
}

void SegmentKeeper::WorkNow() { Work(/*files=*/true); }

std::string SegmentKeeper::trouble() const {
  MutexLock lock(&mutex_);
  return trouble_;
}

void SegmentKeeper::Loop() {
  while (!stopping()) {
    {
      MutexLock lock(&mutex_);
      if (!woken_ && !stopping()) {
        if (trouble_.empty()) {
          changed_.Wait(&mutex_);
        } else {
          changed_.WaitFor(&mutex_, retry_at_ - Clock::now());
        }
      }
      if (!woken_ && (trouble_.empty() || Clock::now() < retry_at_)) continue;
      woken_ = false;
    }
    Work(Clock::now() >= retry_at_);
  }
}

void SegmentKeeper::Work(bool files) {
  if (store_failed_) return;
  round_ = absl::OkStatus();
  bool works = files;
  int merges = 0;
  for (auto merge = partition_->StartMerge(works);
       merge.has_value() && !stopping();
       merge = partition_->StartMerge(works)) {
    works = DoMerge(*merge, works) && works;
    // Under steady writes there is always something to merge; the log is to
    // stay short all the same.
    if (works && ++merges % kMergesPerSave == 0) {
      round_ = Save();
      works = round_.ok();
    }
  }
  if (!files || stopping()) return;
  if (works) round_ = Save();
  Note(round_);
}

bool SegmentKeeper::DoMerge(const Partition::Merge& merge, bool files) {
  auto merged = Merged(merge, files);
  if (!merged.ok()) {
    partition_->AbandonMerge(merge.collection);
    return round_.ok();
  }
  if (*merged != nullptr) {
    (*merged)->AdoptAttributes(merge.inputs, merge.attributes);
    // Most of what was changed meanwhile is carried over here, not while the
    // writer waits.
    for (int round = 0; round < kChangeRounds; ++round) {
      const CollectionState::Changes changes =
          partition_->TakeChanges(merge.collection);
      changes.ApplyTo(merged->get());
      if (changes.size() < kFewChanges) break;
    }
  }
  partition_->FinishMerge(merge.collection, *std::move(merged));
  return round_.ok();
}

absl::StatusOr<std::shared_ptr<Segment>> SegmentKeeper::Merged(
    const Partition::Merge& merge, bool files) {
  if (files) {
    const std::vector<SegmentRow> rows = Segment::LiveRows(merge.inputs);
    if (rows.empty()) return nullptr;
    auto file = partition_->segment_folder()->WriteSegment(
        merge.collection, merge.shape, rows, [this] { return stopping(); });
    if (file.ok()) return Segment::OverFile(*std::move(file));
    if (stopping()) return file.status();
    if (round_.ok()) round_ = file.status();
    const Segment& first = *merge.inputs.front();
    // It is in memory already, as good as it can be there.
    if (first.sealed() && first.file() == nullptr) return file.status();
  }
  return Segment::Seal(merge.shape, merge.inputs);
}

// --- Manifests --------------------------------------------------------------

SegmentManifest SegmentKeeper::Describe(
    const Partition::Coverage& coverage) const {
  SegmentManifest next;
  for (const auto& [number, held] : coverage.collections) {
    if (!AllInFiles(held.segments)) {
      const ManifestCollection* const last = Find(saved_, number);
      if (last != nullptr) next.collections.push_back(*last);
      continue;
    }
    // Without segments there is nothing that a start could spare.
    if (held.segments.empty()) continue;
    ManifestCollection collection;
    collection.number = number;
    collection.offsets = held.offsets;
    for (const auto& segment : held.segments) {
      collection.segments.push_back(
          {segment->file()->header().name.number, segment->size(),
           segment->file()->checksum(), segment->DeadRows(coverage.sequence)});
    }
    next.collections.push_back(std::move(collection));
  }
  return next;
}

void SegmentKeeper::SetSaved(SegmentManifest manifest) {
  int64_t files = 0;
  for (const ManifestCollection& collection : manifest.collections) {
    files += static_cast<int64_t>(collection.segments.size());
  }
  saved_ = std::move(manifest);
  files_.store(files);
}

StoreBatch SegmentKeeper::Commit(const SegmentManifest& next,
                                 const ManifestPointer& pointer,
                                 const Partition::Coverage& coverage) {
  StoreBatch batch;
  batch.Put(Family::kMeta, ManifestKey(), EncodeManifestPointer(pointer));
  for (const auto& [number, held] : coverage.collections) {
    const ManifestCollection* const listed = Find(next, number);
    // A collection that is not listed is loaded without the log.
    const std::vector<int64_t>& offsets =
        listed != nullptr ? listed->offsets : held.offsets;
    std::vector<int64_t>& trimmed = trimmed_[number];
    trimmed.resize(offsets.size());
    for (size_t slot = 0; slot < offsets.size(); ++slot) {
      const int64_t end = offsets[slot] - kLogRecordsPerSlot + 1;
      if (offsets[slot] <= trimmed[slot] || end <= 1) continue;
      const auto at = static_cast<int32_t>(slot);
      batch.DeleteRange(Family::kLog, SlotStart(number, at),
                        EncodeKey({number, at, static_cast<uint64_t>(end)}));
      trimmed[slot] = offsets[slot];
    }
  }
  return batch;
}

absl::Status SegmentKeeper::Save() {
  const auto coverage = partition_->SegmentCoverage();
  if (!coverage.has_value()) return absl::OkStatus();
  SegmentManifest next = Describe(*coverage);
  if (must_save_ || !SameHoldings(next, saved_)) {
    const auto pointer = partition_->segment_folder()->WriteManifest(&next);
    if (!pointer.ok()) return pointer.status();
    const absl::Status status =
        partition_->store()->Write(Commit(next, *pointer, *coverage));
    if (!status.ok()) {
      // Which manifest counts is unknown, so the files of both stay.
      store_failed_ = true;
      return status;
    }
    SetSaved(std::move(next));
    must_save_ = false;
  } else if (tidied_) {
    return absl::OkStatus();
  }
  return RemoveUnused();
}

absl::flat_hash_set<std::string> SegmentKeeper::UsedNames() const {
  absl::flat_hash_set<std::string> used;
  if (saved_.number != 0) used.insert(ManifestFileName(saved_.number));
  for (const ManifestCollection& collection : saved_.collections) {
    for (const ManifestSegment& segment : collection.segments) {
      InsertNames(segment.number, &used);
    }
  }
  const auto coverage = partition_->SegmentCoverage();
  if (!coverage.has_value()) return used;
  for (const auto& [number, held] : coverage->collections) {
    for (const auto& segment : held.segments) {
      if (segment->file() == nullptr) continue;
      InsertNames(segment->file()->header().name.number, &used);
    }
  }
  return used;
}

absl::Status SegmentKeeper::RemoveUnused() {
  SegmentFolder* const folder = partition_->segment_folder();
  // What is held may turn out to be of no use.
  const bool again = folder->holds();
  const absl::Status status =
      folder->RemoveAllBut([this] { return UsedNames(); });
  tidied_ = status.ok() && !again;
  return status;
}

void SegmentKeeper::Note(const absl::Status& status) {
  std::string trouble;
  if (status.ok()) {
    pause_ = Clock::duration::zero();
    retry_at_ = Clock::time_point();
  } else {
    ++failures_;
    pause_ = std::clamp<Clock::duration>(2 * pause_, kLeastPause, kMostPause);
    retry_at_ = Clock::now() + pause_;
    trouble = absl::StrCat(
        "segment files cannot be written, so rows stay in memory and the next "
        "start reads them from the store: ",
        status.message());
  }
  bool news = false;
  {
    MutexLock lock(&mutex_);
    news = !trouble.empty() && trouble != trouble_;
    trouble_ = trouble;
  }
  if (news) warn_(trouble);
}

}  // namespace coterie
