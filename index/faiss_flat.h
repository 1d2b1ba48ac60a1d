// FAISS's flat index as a second opinion for tests: brute force in float32 by
// other people's code. Safe for concurrent searches.
//
// Distances carry FAISS's own float32 error and the order of near-ties is
// FAISS's; only index/exact_scan.h is exact. Exceptions of FAISS become Status.

#ifndef COTERIE_INDEX_FAISS_FLAT_H_
#define COTERIE_INDEX_FAISS_FLAT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace faiss {
struct IndexFlat;
}

namespace coterie {

class FaissFlat {
 public:
  // Copies the rows, for COSINE scaled to length 1. `ids[i]` names row i.
  // INVALID_ARGUMENT if their numbers differ; INTERNAL with FAISS's message.
  static absl::StatusOr<FaissFlat> Create(Metric metric, RowsView rows,
                                          absl::Span<const PointId> ids);

  FaissFlat(FaissFlat&&) noexcept;
  FaissFlat& operator=(FaissFlat&&) noexcept;
  ~FaissFlat();

  // Per query at most k neighbours, nearest first, with smaller-is-nearer
  // distances as in index/distance.h. INVALID_ARGUMENT if k < 1 or dimensions
  // differ; INTERNAL with FAISS's message.
  absl::StatusOr<std::vector<std::vector<Neighbor>>> Search(RowsView queries,
                                                            int64_t k) const;

 private:
  FaissFlat(Metric metric, std::unique_ptr<faiss::IndexFlat> index,
            std::vector<PointId> ids);

  Metric metric_;
  std::unique_ptr<faiss::IndexFlat> index_;
  std::vector<PointId> ids_;
};

}  // namespace coterie

#endif  // COTERIE_INDEX_FAISS_FLAT_H_
