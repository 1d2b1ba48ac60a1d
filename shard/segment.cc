#include "shard/segment.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "api/placement.h"
#include "index/distance.h"

namespace coterie {
namespace {

// From this size on huge pages spare address translation.
constexpr size_t kHugePageBytes = size_t{2} << 20;

// Hands out aligned parts of a mapping; with a null base it only adds up.
class Layout {
 public:
  explicit Layout(void* base) : base_(static_cast<char*>(base)) {}

  template <typename T>
  T* Part(int64_t count) {
    char* const part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (static_cast<size_t>(count) * sizeof(T) + 63) & ~size_t{63};
    return reinterpret_cast<T*>(part);
  }

  size_t used() const { return used_; }

 private:
  char* const base_;
  size_t used_ = 0;
};

bool ById(const SegmentRow& a, const SegmentRow& b) { return a.id < b.id; }

}  // namespace

Segment::Segment(RowShape shape, int64_t capacity, int64_t buckets, bool sealed,
                 std::shared_ptr<const SegmentFile> file)
    : shape_(shape),
      capacity_(capacity),
      buckets_(buckets),
      sealed_(sealed),
      file_(std::move(file)) {
  const int64_t own = file_ != nullptr ? 0 : capacity_;
  const auto lay_out = [&](void* base) {
    Layout layout(base);
    new_ids_ = layout.Part<PointId>(own);
    new_norms_ = layout.Part<double>(shape_.norms() ? own : 0);
    deleted_at_ = layout.Part<int64_t>(capacity_);
    older_ = layout.Part<int32_t>(buckets_ > 0 ? capacity_ : 0);
    table_ = layout.Part<int32_t>(buckets_);
    new_rows_ = layout.Part<float>(own * shape_.dimension);
    return layout.used();
  };
  mapped_bytes_ = lay_out(nullptr);
  mapping_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // As operator new does: nobody here can go on without the memory.
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  if (sealed_ && file_ == nullptr && mapped_bytes_ >= kHugePageBytes) {
    madvise(mapping_, mapped_bytes_, MADV_HUGEPAGE);  // a hint
  }
  lay_out(mapping_);
  ids_ = file_ != nullptr ? file_->ids() : new_ids_;
  rows_ = file_ != nullptr ? file_->rows() : new_rows_;
  if (shape_.norms()) {
    norms_ = file_ != nullptr ? file_->squared_norms() : new_norms_;
  }
}

Segment::~Segment() { munmap(mapping_, mapped_bytes_); }

std::shared_ptr<Segment> Segment::NewTail(RowShape shape, int64_t capacity,
                                          bool indexed) {
  const auto buckets = static_cast<int64_t>(
      indexed ? std::bit_ceil(static_cast<uint64_t>(2 * capacity)) : 0);
  return std::shared_ptr<Segment>(
      new Segment(shape, capacity, buckets, /*sealed=*/false, nullptr));
}

std::shared_ptr<Segment> Segment::Seal(
    RowShape shape, absl::Span<const std::shared_ptr<Segment>> inputs) {
  const std::vector<SegmentRow> rows = LiveRows(inputs);
  if (rows.empty()) return nullptr;
  const auto n = static_cast<int64_t>(rows.size());
  std::shared_ptr<Segment> sealed(
      new Segment(shape, n, /*buckets=*/0, /*sealed=*/true, nullptr));
  for (const SegmentRow& row : rows) {
    sealed->Put(row.id, row.squared_norm, row.vector);
  }
  if (shape.CodesPay(n)) {
    sealed->codes_ =
        std::make_unique<CertifiedCodes>(shape.metric, sealed->rows(n));
    sealed->MakeFirstLook();
  }
  return sealed;
}

std::shared_ptr<Segment> Segment::OverFile(
    std::shared_ptr<const SegmentFile> file) {
  const SegmentHeader& header = file->header();
  std::shared_ptr<Segment> segment(new Segment(header.shape, header.rows,
                                               /*buckets=*/0, /*sealed=*/true,
                                               std::move(file)));
  segment->size_ = segment->capacity_;
  segment->live_ = segment->capacity_;
  if (segment->codes() != nullptr) {
    segment->MakeFirstLook();
    // Few of the rows that this has read are read again soon.
    segment->file_->Forget();
  }
  return segment;
}

void Segment::MakeFirstLook() {
  // A head must save more than what its guess may be wrong by.
  constexpr double kHeadShare = 0.8;
  if (shape_.dimension < TailCodes::kPlaneFrom) return;
  head_ = CertifiedHead::MakeIfPays(
      shape_.metric, rows(capacity_),
      static_cast<double>(shape_.dimension) / 2 + 8, kHeadShare);
  if (head_ == nullptr) {
    plane_ = std::make_unique<CertifiedPlane>(*codes(), rows(capacity_));
  }
}

std::vector<SegmentRow> Segment::LiveRows(
    absl::Span<const std::shared_ptr<Segment>> inputs) {
  int64_t most = 0;
  for (const std::shared_ptr<Segment>& input : inputs) most += input->size_;
  std::vector<SegmentRow> rows;
  rows.reserve(static_cast<size_t>(most));
  // Sealed inputs are sorted already, so each input becomes a sorted run and
  // runs are merged.
  for (const std::shared_ptr<Segment>& input : inputs) {
    const auto run = static_cast<std::ptrdiff_t>(rows.size());
    const absl::Span<const int32_t> by_id = input->by_id();
    for (int64_t i = 0; i < input->size_; ++i) {
      const int64_t row = by_id.empty() ? i : by_id[static_cast<size_t>(i)];
      if (!input->IsLive(row, std::numeric_limits<int64_t>::max())) continue;
      rows.push_back({input->ids_[row],
                      input->norms_ != nullptr ? input->norms_[row] : 0,
                      input->rows_ + row * input->shape_.dimension});
    }
    if (!input->sealed()) {
      std::sort(rows.begin() + run, rows.end(), ById);
    }
    std::inplace_merge(rows.begin(), rows.begin() + run, rows.end(), ById);
  }
  return rows;
}

void Segment::Put(PointId id, double squared_norm, const float* vector) {
  new_ids_[size_] = id;
  if (shape_.norms()) new_norms_[size_] = squared_norm;
  std::memcpy(new_rows_ + size_ * shape_.dimension, vector,
              static_cast<size_t>(shape_.dimension) * sizeof(float));
  ++size_;
  ++live_;
}

int64_t Segment::Bucket(PointId id) const {
  const int64_t mask = buckets_ - 1;
  // The low bits of the hash may all be the slot's; the high ones are not.
  int64_t bucket = static_cast<int64_t>(SplitMix64(id) >> 32) & mask;
  for (;; bucket = (bucket + 1) & mask) {
    // Pairs with the release in Append: the row that is named is whole.
    const int32_t entry = std::atomic_ref<int32_t>(table_[bucket])
                              .load(std::memory_order_acquire);
    if (entry == 0 || ids_[entry - 1] == id) return bucket;
  }
}

void Segment::Append(PointId id, VectorView vector) {
  const int64_t row = size_;
  Put(id, shape_.norms() ? CanonicalSquaredNorm(vector) : 0, vector.data());
  if (buckets_ > 0) {
    std::atomic_ref<int32_t> entry(table_[Bucket(id)]);
    older_[row] = entry.load(std::memory_order_relaxed);
    entry.store(static_cast<int32_t>(row) + 1, std::memory_order_release);
    if (shape_.CodesPay(TailCodes::kSmall)) {
      tail_codes_.Grow(shape_.metric, rows(size_));
    }
  }
}

void Segment::MarkDeleted(int64_t row, int64_t sequence) {
  // Readers for whom this matters learn of it through a later snapshot, so no
  // order is needed here.
  std::atomic_ref<int64_t>(deleted_at_[row])
      .store(sequence, std::memory_order_relaxed);
  --live_;
}

void Segment::MarkIfLive(PointId id, int64_t sequence) {
  const int64_t row = RowOf(id);
  if (row >= 0 && IsLive(row, std::numeric_limits<int64_t>::max())) {
    MarkDeleted(row, sequence);
  }
}

void Segment::SetAttributesOf(PointId id, const Attributes& attributes) {
  const int64_t row = RowOf(id);
  if (row >= 0) attributes_.Set(row, attributes);
}

void Segment::AdoptAttributes(
    absl::Span<const std::shared_ptr<Segment>> inputs,
    absl::Span<const std::shared_ptr<const AttributeView>> views) {
  AttributeColumnsBuilder builder;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Segment& input = *inputs[i];
    std::vector<int32_t> places(static_cast<size_t>(input.size_), -1);
    for (int64_t row = 0; row < input.size_; ++row) {
      // Of an id's versions one is live at most. A row that has died since it
      // was taken over is dead here, too: its attributes are not missed.
      if (!input.IsLive(row, std::numeric_limits<int64_t>::max())) continue;
      places[static_cast<size_t>(row)] =
          static_cast<int32_t>(RowOf(input.ids_[row]));
    }
    views[i]->AddTo(std::move(places), &builder);
  }
  attributes_.Adopt(builder.Build(), size_);
}

bool Segment::IsLive(int64_t row, int64_t sequence) const {
  const int64_t at = std::atomic_ref<int64_t>(deleted_at_[row])
                         .load(std::memory_order_relaxed);
  return at == 0 || at > sequence;
}

std::vector<int64_t> Segment::DeadRows(int64_t sequence) const {
  std::vector<int64_t> dead;
  for (int64_t row = 0; row < capacity_; ++row) {
    if (!IsLive(row, sequence)) dead.push_back(row);
  }
  return dead;
}

int64_t Segment::RowOf(PointId id) const {
  const absl::Span<const int32_t> order = by_id();
  if (!order.empty()) {
    const auto at = std::lower_bound(
        order.begin(), order.end(), id,
        [this](int32_t row, PointId wanted) { return ids_[row] < wanted; });
    return at != order.end() && ids_[*at] == id ? *at : -1;
  }
  const PointId* const end = ids_ + capacity_;
  const PointId* const at = std::lower_bound(ids_, end, id);
  return at != end && *at == id ? at - ids_ : -1;
}

int64_t Segment::Find(PointId id, int64_t rows, int64_t sequence) const {
  if (sealed_) {
    const int64_t row = RowOf(id);
    return row >= 0 && row < rows && IsLive(row, sequence) ? row : -1;
  }
  int32_t version = std::atomic_ref<int32_t>(table_[Bucket(id)])
                        .load(std::memory_order_acquire);
  // Versions after the snapshot come first; of those before it only the newest
  // can be live.
  while (version > rows) version = older_[version - 1];
  return version > 0 && IsLive(version - 1, sequence) ? version - 1 : -1;
}

int64_t Segment::MemoryBytes(int64_t rows) const {
  return rows * shape_.row_bytes() +
         (buckets_ > 0 ? rows * 4 + buckets_ * 4 : 0) +
         static_cast<int64_t>(by_id().size() * sizeof(int32_t)) +
         indexes_.MemoryBytes() +
         (codes() != nullptr ? codes()->MemoryBytes() : 0) +
         (plane_ != nullptr ? plane_->MemoryBytes() : 0) +
         (head_ != nullptr ? head_->MemoryBytes() : 0);
}

Admission SegmentView::Evaluate(const Filter& filter) const {
  const auto rows_of_ids = [this](const IdCondition& condition) {
    RowSet rows(rows_);
    for (const PointId id : condition.ids) {
      const int64_t row = Find(id);
      if (row >= 0) rows.Add(row);
    }
    return rows;
  };
  Admission admission =
      attributes_->Evaluate(filter, rows_, segment_->ids(), rows_of_ids);
  RowSet live(rows_);
  live.AddAll();
  live.IntersectWith(Scannable().live);
  admission.sure.IntersectWith(live);
  if (admission.possible.has_value()) admission.possible->IntersectWith(live);
  live.Subtract(attributes_->Covered(rows_));
  if (!live.empty()) {
    if (!admission.possible.has_value()) admission.possible = admission.sure;
    admission.possible->UnionWith(live);
  }
  return admission;
}

ScanRows SegmentView::Scannable(int64_t begin, int64_t end) const {
  const RowsView all = segment_->rows(end);
  const double* const norms = segment_->squared_norms();
  ScanRows scannable{
      {all.data + begin * all.stride, end - begin, all.d, all.stride},
      segment_->ids() + begin,
      norms == nullptr ? nullptr : norms + begin,
      nullptr};
  if (live_ == rows_) return scannable;
  std::call_once(marked_, [this] {
    bits_.resize(static_cast<size_t>((rows_ + 63) / 64));
    for (int64_t row = 0; row < rows_; ++row) {
      const auto live =
          static_cast<uint64_t>(segment_->IsLive(row, sequence_) ? 1 : 0);
      bits_[static_cast<size_t>(row / 64)] |= live << (row % 64);
    }
  });
  scannable.live = bits_.data() + begin / 64;
  return scannable;
}

}  // namespace coterie
