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

// Codes take D + 8 bytes a row beside 4 d, and a scan of fewer rows than a
// panel is over before codes can pay.
bool CodesPay(const RowShape& shape, int64_t rows) {
  return shape.dimension >= 16 && rows >= CertifiedCodes::kPanelRows;
}

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

// A row on its way into a sealed segment.
struct Source {
  PointId id;
  const Segment* segment;
  int64_t row;
};

bool ById(const Source& a, const Source& b) { return a.id < b.id; }

// The live rows of the inputs by id. Sealed inputs are sorted already, so each
// input becomes a sorted run and runs are merged.
std::vector<Source> LiveById(absl::Span<const std::shared_ptr<Segment>> inputs,
                             int64_t live) {
  std::vector<Source> sources;
  sources.reserve(static_cast<size_t>(live));
  for (const std::shared_ptr<Segment>& input : inputs) {
    const auto run = static_cast<std::ptrdiff_t>(sources.size());
    for (int64_t row = 0; row < input->size(); ++row) {
      if (!input->IsLive(row, std::numeric_limits<int64_t>::max())) continue;
      sources.push_back({input->id(row), input.get(), row});
    }
    if (!input->sealed()) {
      std::sort(sources.begin() + run, sources.end(), ById);
    }
    std::inplace_merge(sources.begin(), sources.begin() + run, sources.end(),
                       ById);
  }
  return sources;
}

}  // namespace

Segment::Segment(RowShape shape, int64_t capacity, int64_t buckets, bool sealed)
    : shape_(shape), capacity_(capacity), buckets_(buckets), sealed_(sealed) {
  const auto lay_out = [this](void* base) {
    Layout layout(base);
    ids_ = layout.Part<PointId>(capacity_);
    norms_ = layout.Part<double>(shape_.norms() ? capacity_ : 0);
    deleted_at_ = layout.Part<int64_t>(capacity_);
    older_ = layout.Part<int32_t>(buckets_ > 0 ? capacity_ : 0);
    table_ = layout.Part<int32_t>(buckets_);
    rows_ = layout.Part<float>(capacity_ * shape_.dimension);
    return layout.used();
  };
  mapped_bytes_ = lay_out(nullptr);
  mapping_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // As operator new does: nobody here can go on without the memory.
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  if (sealed_ && mapped_bytes_ >= kHugePageBytes) {
    madvise(mapping_, mapped_bytes_, MADV_HUGEPAGE);  // a hint
  }
  lay_out(mapping_);
  if (!shape_.norms()) norms_ = nullptr;
}

Segment::~Segment() { munmap(mapping_, mapped_bytes_); }

std::shared_ptr<Segment> Segment::NewTail(RowShape shape, int64_t capacity,
                                          bool indexed) {
  const auto buckets = static_cast<int64_t>(
      indexed ? std::bit_ceil(static_cast<uint64_t>(2 * capacity)) : 0);
  return std::shared_ptr<Segment>(
      new Segment(shape, capacity, buckets, /*sealed=*/false));
}

std::shared_ptr<Segment> Segment::Seal(
    RowShape shape, absl::Span<const std::shared_ptr<Segment>> inputs) {
  int64_t live = 0;
  for (const std::shared_ptr<Segment>& input : inputs) live += input->live();
  if (live == 0) return nullptr;
  std::shared_ptr<Segment> sealed(
      new Segment(shape, live, /*buckets=*/0, /*sealed=*/true));
  for (const Source& source : LiveById(inputs, live)) {
    sealed->Gather(*source.segment, source.row);
  }
  if (CodesPay(shape, live)) {
    sealed->codes_ =
        std::make_unique<CertifiedCodes>(shape.metric, sealed->rows(live));
    // Below, its 8 bytes a row eat up what its half codes save.
    constexpr int64_t kPlaneFrom = 32;
    if (shape.dimension >= kPlaneFrom) {
      sealed->plane_ =
          std::make_unique<CertifiedPlane>(*sealed->codes_, sealed->rows(live));
    }
  }
  return sealed;
}

void Segment::Gather(const Segment& from, int64_t row) {
  ids_[size_] = from.ids_[row];
  if (shape_.norms()) norms_[size_] = from.norms_[row];
  std::memcpy(rows_ + size_ * shape_.dimension,
              from.rows_ + row * shape_.dimension,
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
  ids_[row] = id;
  if (shape_.norms()) norms_[row] = CanonicalSquaredNorm(vector);
  std::memcpy(rows_ + row * shape_.dimension, vector.data(),
              static_cast<size_t>(shape_.dimension) * sizeof(float));
  if (buckets_ > 0) {
    std::atomic_ref<int32_t> entry(table_[Bucket(id)]);
    older_[row] = entry.load(std::memory_order_relaxed);
    entry.store(static_cast<int32_t>(row) + 1, std::memory_order_release);
  }
  ++size_;
  ++live_;
}

void Segment::MarkDeleted(int64_t row, int64_t sequence) {
  // Readers for whom this matters learn of it through a later snapshot, so no
  // order is needed here.
  std::atomic_ref<int64_t>(deleted_at_[row])
      .store(sequence, std::memory_order_relaxed);
  --live_;
}

bool Segment::IsLive(int64_t row, int64_t sequence) const {
  const int64_t at = std::atomic_ref<int64_t>(deleted_at_[row])
                         .load(std::memory_order_relaxed);
  return at == 0 || at > sequence;
}

int64_t Segment::Find(PointId id, int64_t rows, int64_t sequence) const {
  if (sealed_) {
    const PointId* const begin = ids_;
    const PointId* const end = begin + rows;
    const PointId* const at = std::lower_bound(begin, end, id);
    if (at == end || *at != id) return -1;
    const int64_t row = at - begin;
    return IsLive(row, sequence) ? row : -1;
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
         (codes_ != nullptr ? codes_->MemoryBytes() : 0) +
         (plane_ != nullptr ? plane_->MemoryBytes() : 0);
}

ScanRows SegmentView::Scannable() const {
  ScanRows scannable{segment_->rows(rows_), segment_->ids(),
                     segment_->squared_norms(), nullptr};
  if (live_ == rows_) return scannable;
  std::call_once(marked_, [this] {
    bits_.resize(static_cast<size_t>((rows_ + 63) / 64));
    for (int64_t row = 0; row < rows_; ++row) {
      const auto live =
          static_cast<uint64_t>(segment_->IsLive(row, sequence_) ? 1 : 0);
      bits_[static_cast<size_t>(row / 64)] |= live << (row % 64);
    }
  });
  scannable.live = bits_.data();
  return scannable;
}

}  // namespace coterie
