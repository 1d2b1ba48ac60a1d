#include "shard/index_builder.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "index/certified_codes.h"
#include "index/exact_scan.h"
#include "index/faiss_factory.h"
#include "index/faiss_index.h"
#include "index/lsh.h"
#include "index/tree.h"
#include "shard/plan_scales.h"

namespace coterie {
namespace {

constexpr std::chrono::seconds kLeastPause{1};
constexpr std::chrono::seconds kMostPause{60};
// Below searches and the keeper.
constexpr int kNiceness = 10;

void OneByOne(int64_t count, absl::FunctionRef<void(int64_t)> task) {
  for (int64_t i = 0; i < count; ++i) task(i);
}

std::string Megabytes(int64_t bytes) {
  return absl::StrCat((bytes + (int64_t{1} << 20) - 1) >> 20, " MiB");
}

std::string FileName(const Segment& segment) {
  return SegmentFileName(segment.file()->header().name.number);
}

}  // namespace

namespace {

// Of codes that a segment without codes of its own needs for an index.
int64_t OwnCodes(const RowShape& shape, int64_t rows) {
  return shape.CodesPay(rows) ? 0 : rows * (shape.dimension + 12);
}

IndexMemory ExpectedOfFaiss(const IndexSpec& spec, const RowShape& shape,
                            int64_t rows) {
  const auto parsed = FaissFactory::Parse(spec.factory);
  if (!parsed.ok()) return {};
  const FaissFactory factory = parsed->For(rows);
  const int64_t codes = OwnCodes(shape, rows);
  return {factory.KeptBytes(shape.dimension, rows) + codes,
          factory.BuildingBytes(shape.dimension, rows) + codes};
}

}  // namespace

IndexMemory ExpectedMemory(const IndexSpec& spec, const RowShape& shape,
                           int64_t rows) {
  const int64_t d = shape.dimension;
  IndexMemory memory;
  if (spec.kind == IndexKind::kLsh) {
    // Half of a table's buckets are empty or start on a row of their own.
    memory.kept = rows * (spec.bytes_per_row + 4);
    memory.kept += OwnCodes(shape, rows);
    memory.building = 2 * memory.kept;
    return memory;
  }
  if (spec.kind == IndexKind::kFaiss) {
    return ExpectedOfFaiss(spec, shape, rows);
  }
  memory.kept = d <= BoxTree::kMaxDimension
                    ? rows * 5 * d
                    : rows * (4 * d + 32) / CellTree::kCellRows + 8192;
  // A copy of the rows, their new order twice, and their codes.
  memory.building =
      memory.kept +
      rows * (4 * d + 48 + (shape.CodesPay(rows) ? d + 12 : int64_t{0}));
  return memory;
}

IndexBuilder::IndexBuilder(Partition* partition, SegmentTuning tuning,
                           int64_t budget_bytes,
                           std::function<void(absl::string_view)> warn)
    : partition_(partition),
      tuning_(tuning),
      budget_bytes_(budget_bytes),
      warn_(std::move(warn)) {
  partition_->OnSegmentsChanged([this] {
    MutexLock lock(&mutex_);
    woken_ = true;
    changed_.NotifyOne();
  });
}

IndexBuilder::~IndexBuilder() { Stop(); }

void IndexBuilder::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void IndexBuilder::Stop() {
  stopping_.store(true);
  {
    MutexLock lock(&mutex_);
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
}

void IndexBuilder::Loop() {
  // Of this thread alone, on Linux. Without it builds are only less modest.
  setpriority(PRIO_PROCESS, 0, kNiceness);
  while (!stopping()) {
    {
      MutexLock lock(&mutex_);
      if (!woken_ && !stopping()) {
        if (retry_at_ == Clock::time_point()) {
          changed_.Wait(&mutex_);
        } else {
          changed_.WaitFor(&mutex_, retry_at_ - Clock::now());
        }
      }
      const bool due =
          retry_at_ != Clock::time_point() && Clock::now() >= retry_at_;
      if (!woken_ && !due) continue;
      woken_ = false;
    }
    Work();
  }
}

void IndexBuilder::Work() {
  // A disk that fails is left alone until it is time.
  if (retry_at_ != Clock::time_point() && Clock::now() < retry_at_) return;
  retry_at_ = Clock::time_point();
  SaveUnsaved();
  while (!stopping() && retry_at_ == Clock::time_point() && BuildNext()) {
  }
  if (retry_at_ == Clock::time_point()) pause_ = Clock::duration::zero();
}

bool IndexBuilder::BuildNext() {
  const auto missing = partition_->MissingIndexes();
  const int64_t used = partition_->IndexBytes();
  absl::flat_hash_map<Key, std::string> notes;
  const Partition::MissingIndex* next = nullptr;
  for (const Partition::MissingIndex& one : missing) {
    const std::string refusal = Refusal(one);
    if (!refusal.empty()) {
      notes[{one.collection, one.spec.kind}] = absl::StrCat(
          "not built over ", FileName(*one.segment), " (", one.segment->size(),
          " rows): ", refusal, "; its rows are scanned");
      continue;
    }
    const IndexMemory memory =
        ExpectedMemory(one.spec, one.shape, one.segment->size());
    if (used + memory.building <= budget_bytes_) {
      next = &one;
      break;
    }
    notes[{one.collection, one.spec.kind}] = absl::StrCat(
        "not built over ", FileName(*one.segment), " (", one.segment->size(),
        " rows): it takes up to ", Megabytes(memory.building),
        " to build, indexes have ", Megabytes(used),
        ", and index_bytes allows ", Megabytes(budget_bytes_),
        " on this shard; its rows are scanned");
  }
  if (next != nullptr) {
    notes[{next->collection, next->spec.kind}] =
        absl::StrCat("building over ", FileName(*next->segment), " (",
                     next->segment->size(), " rows)");
  }
  SetNotes(std::move(notes));
  if (next == nullptr) return false;
  Build(*next);
  return true;
}

void IndexBuilder::Build(const Partition::MissingIndex& missing) {
  if (missing.spec.kind == IndexKind::kLsh) {
    BuildHashes(missing);
    return;
  }
  const bool tree = missing.spec.kind == IndexKind::kTree;
  const absl::Status status = tree ? BuildTree(missing) : BuildFaiss(missing);
  if (!status.ok() && !stopping()) {
    NoteFailure(
        tree ? "an index file cannot be written" : "an index cannot be built",
        status);
    SetNotes({{{missing.collection, missing.spec.kind},
               absl::StrCat("not built over ", FileName(*missing.segment), ": ",
                            status.message(), "; to be tried again")}});
  }
}

void IndexBuilder::BuildHashes(const Partition::MissingIndex& missing) {
  const Segment& segment = *missing.segment;
  LshIndex::Options options;
  options.tables = missing.spec.tables();
  const RowsView rows = segment.rows(segment.size());
  LshIndex lsh = LshIndex::Build(missing.shape.metric, rows, options, OneByOne);
  const ScanRows live = {rows, segment.ids(), segment.squared_norms(), nullptr};
  if (segment.codes() != nullptr) {
    lsh.Train(live, *segment.codes(), OneByOne);
  } else {
    lsh.Train(live, CertifiedCodes(missing.shape.metric, rows), OneByOne);
  }
  Finish(missing, std::make_shared<SegmentIndex>(std::move(lsh)));
}

void IndexBuilder::Finish(const Partition::MissingIndex& missing,
                          std::shared_ptr<SegmentIndex> index) {
  const Segment& segment = *missing.segment;
  index->MakeCodes(segment.rows(segment.size()), segment.codes());
  index->SetScales(MeasureScales(segment, *index));
  segment.indexes().Set(index);
  Save(missing.segment, std::move(index));
  // One that was merged away meanwhile may have lost its files before.
  if (!partition_->Counts(missing.segment)) {
    partition_->segment_folder()->RemoveIndex(*segment.file(),
                                              missing.spec.kind);
  }
}

std::string IndexBuilder::Refusal(
    const Partition::MissingIndex& missing) const {
  const auto found = refused_.find(
      {missing.segment->file()->header().name.number, missing.spec.kind});
  if (found != refused_.end()) return found->second;
  if (missing.spec.kind != IndexKind::kFaiss) return "";
  const auto factory = FaissFactory::Parse(missing.spec.factory);
  const absl::Status fits =
      factory.ok()
          ? factory->CheckRows(missing.shape.dimension, missing.segment->size())
          : factory.status();
  return std::string(fits.message());
}

absl::Status IndexBuilder::BuildFaiss(const Partition::MissingIndex& missing) {
  const auto factory = FaissFactory::Parse(missing.spec.factory);
  if (!factory.ok()) return factory.status();
  const Segment& segment = *missing.segment;
  auto built = FaissIndex::Build(missing.shape.metric,
                                 {segment.rows(segment.size()), segment.ids(),
                                  segment.squared_norms(), nullptr},
                                 *factory, [this] { return stopping(); });
  if (built.ok()) {
    Finish(missing, std::make_shared<SegmentIndex>(*std::move(built)));
    return absl::OkStatus();
  }
  // Memory may be there another time; what FAISS says will not change.
  if (absl::IsResourceExhausted(built.status()) ||
      absl::IsCancelled(built.status())) {
    return built.status();
  }
  const int64_t number = segment.file()->header().name.number;
  refused_[{number, missing.spec.kind}] = std::string(built.status().message());
  return absl::OkStatus();
}

absl::Status IndexBuilder::BuildTree(const Partition::MissingIndex& missing) {
  const auto attributes =
      partition_->StartRelay(missing.collection, missing.segment);
  if (attributes == nullptr) return absl::OkStatus();  // it is on its way out
  auto relaid = Relaid(missing);
  if (!relaid.ok()) {
    partition_->FinishRelay(missing.collection, nullptr);
    return relaid.status();
  }
  const std::shared_ptr<Segment> segment = *std::move(relaid);
  segment->AdoptAttributes({&missing.segment, 1}, {&attributes, 1});
  partition_->TakeRelayChanges(missing.collection).ApplyTo(segment.get());
  Save(segment, segment->indexes().Get(IndexKind::kTree));
  partition_->FinishRelay(missing.collection, segment);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Segment>> IndexBuilder::Relaid(
    const Partition::MissingIndex& missing) {
  const Segment& from = *missing.segment;
  const int64_t n = from.size();
  const RowsView rows = from.rows(n);
  std::vector<int64_t> order;
  Tree tree = Tree::Build(missing.shape.metric, rows, OneByOne, &order);
  std::vector<SegmentRow> relaid;
  relaid.reserve(order.size());
  for (const int64_t row : order) {
    relaid.push_back(
        {from.id(row),
         from.squared_norms() != nullptr ? from.squared_norms()[row] : 0,
         rows.row(row).data()});
  }
  SegmentFolder* const folder = partition_->segment_folder();
  auto file = folder->WriteHeldSegment(missing.collection, missing.shape,
                                       relaid, [this] { return stopping(); });
  if (!file.ok()) return file.status();
  std::shared_ptr<Segment> segment = Segment::OverFile(*file);
  // Those that die from now on are told by TakeRelayChanges, if not met here.
  for (const int64_t row : from.DeadRows(std::numeric_limits<int64_t>::max())) {
    segment->MarkIfLive(from.id(row), 1);
  }
  if (stopping()) {
    folder->Release(**file);
    return absl::CancelledError("the shard is stopping");
  }
  tree.Train(
      {segment->rows(n), segment->ids(), segment->squared_norms(), nullptr},
      segment->codes(), OneByOne);
  auto index = std::make_shared<SegmentIndex>(std::move(tree));
  index->SetScales(MeasureScales(*segment, *index));
  segment->indexes().Set(std::move(index));
  return segment;
}

void IndexBuilder::Save(std::shared_ptr<Segment> segment,
                        std::shared_ptr<const SegmentIndex> index) {
  const absl::Status status =
      partition_->segment_folder()->WriteIndex(*segment->file(), *index);
  if (status.ok()) return;
  unsaved_.push_back({std::move(segment), std::move(index)});
  NoteFailure("an index file cannot be written", status);
}

void IndexBuilder::SaveUnsaved() {
  for (Unsaved& unsaved : std::exchange(unsaved_, {})) {
    // Nobody else has a segment that counts no more.
    if (unsaved.segment.use_count() == 1) continue;
    Save(std::move(unsaved.segment), std::move(unsaved.index));
  }
}

void IndexBuilder::NoteFailure(absl::string_view what,
                               const absl::Status& status) {
  ++failures_;
  if (retry_at_ == Clock::time_point()) {
    pause_ = std::clamp<Clock::duration>(2 * pause_, kLeastPause, kMostPause);
    retry_at_ = Clock::now() + pause_;
  }
  const std::string warning = absl::StrCat(what, ": ", status.message());
  if (warning != std::exchange(last_warning_, warning)) warn_(warning);
}

void IndexBuilder::SetNotes(absl::flat_hash_map<Key, std::string> notes) {
  MutexLock lock(&mutex_);
  notes_.swap(notes);
}

std::vector<IndexState> IndexBuilder::States(
    const CollectionSnapshot& snapshot) const {
  const CollectionSpec& spec = snapshot.spec();
  const RowShape shape = {spec.dimension, spec.metric};
  std::vector<IndexState> states;
  for (const IndexSpec& index : spec.indexes) {
    IndexState& state = states.emplace_back();
    state.kind = index.kind;
    for (const auto& view : snapshot.segments()) {
      if (!view->segment()->sealed() ||
          !tuning_.IndexPays(shape, view->rows())) {
        continue;
      }
      ++state.segments;
      state.rows += view->rows();
      const auto built = view->segment()->indexes().Get(index.kind);
      if (built == nullptr) {
        state.bytes_expected += ExpectedMemory(index, shape, view->rows()).kept;
        continue;
      }
      ++state.segments_ready;
      state.rows_ready += view->rows();
      state.bytes += built->MemoryBytes();
    }
    MutexLock lock(&mutex_);
    const auto note = notes_.find(Key(spec.number, index.kind));
    if (note != notes_.end()) state.note = note->second;
  }
  return states;
}

}  // namespace coterie
