#include "index/exact_scan.h"

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {

ScanQueries::ScanQueries(Metric metric, RowsView queries)
    : metric_(metric), n_(queries.n), d_(queries.d), stride_(queries.d) {
  data_.resize(static_cast<size_t>(n_ * stride_));
  squared_norms_.resize(static_cast<size_t>(n_));
  for (int64_t i = 0; i < n_; ++i) {
    std::copy_n(queries.row(i).data(), d_, data_.data() + i * stride_);
    squared_norms_[static_cast<size_t>(i)] = CanonicalSquaredNorm(query(i));
  }
}

bool ExactScan(const ScanQueries& queries, const ScanRows& rows, int64_t begin,
               int64_t end, absl::Span<TopK> tops,
               absl::Span<ScanAccount> accounts,
               absl::FunctionRef<bool()> stop) {
  const int64_t block =
      std::max<int64_t>(1, (256 << 10) / (4 * rows.rows.d + 1));
  for (int64_t i = begin; i < end; ++i) {
    if ((i - begin) % block == 0 && stop()) return false;
    if (rows.live != nullptr && (rows.live[i / 64] >> (i % 64) & 1) == 0) {
      continue;
    }
    for (int64_t q = 0; q < queries.size(); ++q) {
      const size_t at = static_cast<size_t>(q);
      const double norm =
          rows.squared_norms == nullptr ? 0 : rows.squared_norms[i];
      tops[at].Offer(
          {rows.ids[i],
           CanonicalDistance(queries.metric(), queries.query(q),
                             rows.rows.row(i), queries.squared_norm(q), norm)});
      ++accounts[at].evaluated;
    }
  }
  return true;
}

}  // namespace coterie
