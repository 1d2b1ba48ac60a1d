#include "index/handed_over.h"

#include <cstddef>
#include <optional>

#include "index/certified_head.h"
#include "index/certified_query.h"
#include "index/shared_threshold.h"
#include "index/vectors.h"

namespace coterie {

bool HandedOver::Scan(const ScanQueries& all,
                      absl::Span<const ScannedSegment> segments,
                      absl::Span<TopK> tops, std::vector<ScanAccount>* accounts,
                      absl::FunctionRef<bool()> stop) const {
  if (queries_.empty()) return true;
  std::vector<float> data;
  std::vector<TopK> found;
  std::vector<SharedThreshold> shared(queries_.size());
  for (size_t i = 0; i < queries_.size(); ++i) {
    const VectorView query = all.query(queries_[i]);
    data.insert(data.end(), query.begin(), query.end());
    const TopK& top = tops[static_cast<size_t>(queries_[i])];
    found.emplace_back(top.k(), top.Threshold());
    shared[i].Lower(seeds_[i]);
  }
  const ScanQueries queries(all.metric(),
                            {data.data(), static_cast<int64_t>(queries_.size()),
                             all.dimension(), all.dimension()});
  const size_t first = accounts->size();
  accounts->resize(first + queries_.size());
  for (const ScannedSegment& segment : segments) {
    const CertifiedQueries coded(queries, *segment.codes);
    std::optional<CertifiedHeadQuery> head;
    if (segment.first_look.head != nullptr && queries.size() == 1) {
      head.emplace(queries, 0, *segment.first_look.head);
    }
    if (!CertifiedScan(coded, segment.rows, 0, segment.size,
                       absl::MakeSpan(found),
                       absl::MakeSpan(*accounts).subspan(first), stop,
                       absl::MakeSpan(shared), segment.first_look.plane,
                       head.has_value() ? &*head : nullptr)) {
      return false;
    }
  }
  for (size_t i = 0; i < queries_.size(); ++i) {
    TopK& top = tops[static_cast<size_t>(queries_[i])];
    for (const Neighbor& n : found[i].TakeSorted()) top.Offer(n);
  }
  return true;
}

}  // namespace coterie
