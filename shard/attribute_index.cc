#include "shard/attribute_index.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace coterie {
namespace {

// What lies row by row, which filters look at one by one.
constexpr int64_t kRecentRows = 512;
constexpr int64_t kRecentBytes = int64_t{1} << 20;
// Of an entry beside its attributes, about.
constexpr int64_t kEntryBytes = 64;

// Columns over more rows are not joined with the next, so that no write waits
// for long.
constexpr int64_t kJoinRows = 65536;

}  // namespace

// --- AttributeView ----------------------------------------------------------

Admission AttributeView::Evaluate(const Filter& filter, int64_t size,
                                  const PointId* ids,
                                  RowsOfIds rows_of_ids) const {
  Admission admission{RowSet(size)};
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (i > 0) admission.Remove(parts_[i]->Covered(size));
    admission.UnionWith(parts_[i]->Evaluate(filter, size, rows_of_ids));
  }
  for (int64_t i = 0; i < recent_count_; ++i) {
    const Recent::Entry& entry = recent_->entries[i];
    admission.Set(entry.row, Admits(filter, ids[entry.row], entry.attributes));
  }
  return admission;
}

RowSet AttributeView::Covered(int64_t size) const {
  RowSet rows(size);
  for (const auto& part : parts_) rows.UnionWith(part->Covered(size));
  for (int64_t i = 0; i < recent_count_; ++i) {
    rows.Add(recent_->entries[i].row);
  }
  return rows;
}

void AttributeView::AddTo(std::vector<int32_t> places,
                          AttributeColumnsBuilder* builder) const {
  const auto place = [&places](int64_t row) {
    return int64_t{places[static_cast<size_t>(row)]};
  };
  for (int64_t i = recent_count_ - 1; i >= 0; --i) {
    const Recent::Entry& entry = recent_->entries[i];
    const int64_t at = place(entry.row);
    if (at >= 0) builder->Add(at, entry.attributes);
    places[static_cast<size_t>(entry.row)] = -1;
  }
  for (size_t i = parts_.size(); i-- > 0;) {
    builder->AddAll(*parts_[i], place);
    if (i == 0) break;
    parts_[i]
        ->Covered(static_cast<int64_t>(places.size()))
        .ForEach(
            [&places](int64_t row) { places[static_cast<size_t>(row)] = -1; });
  }
}

int64_t AttributeView::MemoryBytes() const {
  int64_t bytes = recent_bytes_;
  for (const auto& part : parts_) bytes += part->MemoryBytes();
  return bytes;
}

// --- AttributeIndex ---------------------------------------------------------

void AttributeIndex::Adopt(std::shared_ptr<const AttributeColumns> columns,
                           int64_t rows) {
  now_ = AttributeView();
  recent_ = nullptr;
  view_ = nullptr;
  now_.parts_.push_back(std::move(columns));
  rows_ = rows;
}

void AttributeIndex::Set(int64_t row, const Attributes& attributes) {
  if (recent_ == nullptr) {
    recent_ = std::make_shared<AttributeView::Recent>();
    recent_->entries =
        std::make_unique<AttributeView::Recent::Entry[]>(kRecentRows);
    now_.recent_ = recent_;
  }
  recent_->entries[now_.recent_count_++] = {row, attributes};
  now_.recent_bytes_ += kEntryBytes + AttributeBytes(attributes);
  rows_ = std::max(rows_, row + 1);
  view_ = nullptr;
  if (now_.recent_count_ == kRecentRows || now_.recent_bytes_ >= kRecentBytes) {
    Fold();
  }
}

void AttributeIndex::Fold() {
  AttributeView recent;
  std::swap(recent.recent_, now_.recent_);
  std::swap(recent.recent_count_, now_.recent_count_);
  std::swap(recent.recent_bytes_, now_.recent_bytes_);
  recent_ = nullptr;
  std::vector<int32_t> places(static_cast<size_t>(rows_));
  std::iota(places.begin(), places.end(), 0);
  AttributeColumnsBuilder builder;
  recent.AddTo(std::move(places), &builder);
  now_.parts_.push_back(builder.Build());

  const auto& parts = now_.parts_;
  size_t first = parts.size() - 1;
  int64_t rows = parts.back()->covered();
  while (first > 0 && parts[first - 1]->covered() <= 2 * rows &&
         parts[first - 1]->covered() + rows <= kJoinRows) {
    rows += parts[--first]->covered();
  }
  int64_t all = 0;
  for (const auto& part : parts) all += part->covered();
  if (all > 2 * rows_ + kJoinRows) first = 0;
  if (first + 1 < parts.size()) Join(first);
}

void AttributeIndex::Join(size_t first) {
  AttributeView joined;
  const auto begin = now_.parts_.begin() + static_cast<std::ptrdiff_t>(first);
  joined.parts_.assign(begin, now_.parts_.end());
  now_.parts_.erase(begin, now_.parts_.end());
  std::vector<int32_t> places(static_cast<size_t>(rows_));
  std::iota(places.begin(), places.end(), 0);
  AttributeColumnsBuilder builder;
  joined.AddTo(std::move(places), &builder);
  now_.parts_.push_back(builder.Build());
}

std::shared_ptr<const AttributeView> AttributeIndex::View() {
  if (view_ == nullptr) view_ = std::make_shared<const AttributeView>(now_);
  return view_;
}

}  // namespace coterie
