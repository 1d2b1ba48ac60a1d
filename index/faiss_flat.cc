#include "index/faiss_flat.h"

#include <faiss/IndexFlat.h>

#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {
namespace {

// Rows without gaps, under COSINE scaled to length 1.
std::vector<float> Packed(Metric metric, RowsView rows) {
  std::vector<float> packed;
  packed.reserve(static_cast<size_t>(rows.n * rows.d));
  for (int64_t i = 0; i < rows.n; ++i) {
    double norm = 0;
    for (float x : rows.row(i)) norm += static_cast<double>(x) * x;
    const double scale = metric == Metric::kCosine ? std::sqrt(norm) : 1;
    for (float x : rows.row(i)) packed.push_back(static_cast<float>(x / scale));
  }
  return packed;
}

double DistanceOf(Metric metric, float value) {
  switch (metric) {
    case Metric::kSquaredL2:
      return value;
    case Metric::kInnerProduct:
      return 0.0 - value;
    case Metric::kCosine:
      return 1.0 - value;
  }
  return value;
}

absl::Status FromException(const std::exception& e) {
  return absl::InternalError(absl::StrCat("FAISS: ", e.what()));
}

}  // namespace

FaissFlat::FaissFlat(Metric metric, std::unique_ptr<faiss::IndexFlat> index,
                     std::vector<PointId> ids)
    : metric_(metric), index_(std::move(index)), ids_(std::move(ids)) {}

FaissFlat::FaissFlat(FaissFlat&&) noexcept = default;
FaissFlat& FaissFlat::operator=(FaissFlat&&) noexcept = default;
FaissFlat::~FaissFlat() = default;

absl::StatusOr<FaissFlat> FaissFlat::Create(Metric metric, RowsView rows,
                                            absl::Span<const PointId> ids) {
  if (static_cast<int64_t>(ids.size()) != rows.n) {
    return absl::InvalidArgumentError(
        absl::StrCat(ids.size(), " ids for ", rows.n, " rows"));
  }
  try {
    auto index = std::make_unique<faiss::IndexFlat>(
        rows.d, metric == Metric::kSquaredL2 ? faiss::METRIC_L2
                                             : faiss::METRIC_INNER_PRODUCT);
    if (rows.n > 0) index->add(rows.n, Packed(metric, rows).data());
    return FaissFlat(metric, std::move(index), {ids.begin(), ids.end()});
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

absl::StatusOr<std::vector<std::vector<Neighbor>>> FaissFlat::Search(
    RowsView queries, int64_t k) const {
  if (k < 1) {
    return absl::InvalidArgumentError(absl::StrCat("k is ", k, ", not >= 1"));
  }
  if (queries.d != index_->d) {
    return absl::InvalidArgumentError(absl::StrCat(
        "queries have dimension ", queries.d, ", rows ", index_->d));
  }
  std::vector<std::vector<Neighbor>> found(static_cast<size_t>(queries.n));
  if (queries.n == 0 || ids_.empty()) return found;
  try {
    const size_t total = static_cast<size_t>(queries.n * k);
    std::vector<float> values(total);
    std::vector<faiss::Index::idx_t> labels(total);
    index_->search(queries.n, Packed(metric_, queries).data(), k, values.data(),
                   labels.data());
    for (size_t i = 0; i < total; ++i) {
      if (labels[i] < 0) continue;  // fewer than k rows
      found[i / static_cast<size_t>(k)].push_back(
          {ids_[static_cast<size_t>(labels[i])],
           DistanceOf(metric_, values[i])});
    }
  } catch (const std::exception& e) {
    return FromException(e);
  }
  return found;
}

}  // namespace coterie
