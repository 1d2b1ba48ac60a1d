// Bytes -> SearchRequest -> DecodeSearch: a refusal that names a field, or a
// request that keeps what api/search_convert.h promises. The lowest bit of the
// first byte chooses the limits; the rest is the message.

#include <google/protobuf/stubs/logging.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "api/fuzz_check.h"
#include "api/search_convert.h"

namespace coterie {
namespace {

void CheckExtent(const SearchRequest& request, const Limits& limits) {
  FuzzCheck(request.k >= 1, "k is positive");
  FuzzCheck(request.offset >= 0, "offset is not negative");
  if (request.radius.has_value()) {
    FuzzCheck(std::isfinite(*request.radius), "radius is finite");
    FuzzCheck(request.offset == 0, "offset does not go with radius");
    FuzzCheck(request.k == limits.k + 1, "k shows a radius that holds more");
    return;
  }
  FuzzCheck(request.offset < request.k, "k holds the offset");
  FuzzCheck(request.k <= limits.k, "k keeps its limit");
  FuzzCheck(static_cast<int64_t>(request.queries.size()) * request.k <=
                limits.queries_times_k,
            "queries x k keeps its limit");
}

void CheckStrategy(const Strategy& strategy) {
  if (const auto* tree = std::get_if<TreeStrategy>(&strategy)) {
    FuzzCheck(tree->max_leaves >= 0, "max_leaves is not negative");
    FuzzCheck(std::isfinite(tree->epsilon) && tree->epsilon >= 0,
              "epsilon is a finite number, not negative");
    FuzzCheck(tree->target_recall > 0 && tree->target_recall <= 1,
              "a tree's target is in (0, 1]");
  } else if (const auto* lsh = std::get_if<LshStrategy>(&strategy)) {
    FuzzCheck(lsh->target_recall >= 0 && lsh->target_recall <= 1,
              "a target is in [0, 1]");
    FuzzCheck(lsh->max_candidates >= 0, "max_candidates is not negative");
  } else if (const auto* automatic = std::get_if<AutoStrategy>(&strategy)) {
    FuzzCheck(automatic->target_recall > 0 && automatic->target_recall <= 1,
              "a target is in (0, 1]");
  }
}

void CheckRequest(const SearchRequest& request, const Limits& limits) {
  CheckStrategy(request.strategy);
  FuzzCheck(!request.collection.empty(), "a collection is named");
  FuzzCheck(static_cast<int64_t>(request.collection.size()) <=
                limits.collection_name_bytes,
            "the collection's name keeps its limit");
  FuzzCheck(!request.queries.empty(), "there are queries");
  FuzzCheck(static_cast<int64_t>(request.queries.size()) <= limits.queries,
            "queries keep their limit");
  CheckExtent(request, limits);
  size_t dimension = 0;
  for (const SearchRequest::Query& query : request.queries) {
    const auto* vector = std::get_if<std::vector<float>>(&query);
    if (vector == nullptr) continue;
    CheckVector(*vector, limits);
    if (dimension == 0) dimension = vector->size();
    FuzzCheck(vector->size() == dimension, "vectors have one length");
  }
  FuzzCheck(static_cast<int64_t>(request.with_attributes.names.size()) <=
                limits.attributes_per_point,
            "names keep their limit");
  FuzzCheck(static_cast<int64_t>(
                request.filter.must.size() + request.filter.should.size() +
                request.filter.must_not.size()) <= limits.filter_conditions,
            "conditions keep their limit");
  const double ratio = request.partial_policy.min_ratio;
  FuzzCheck(ratio > 0 && ratio <= 1, "min_ratio is in (0, 1]");
}

}  // namespace
}  // namespace coterie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Text that is not UTF-8 is expected here, not news.
  static const bool quiet = (google::protobuf::SetLogHandler(nullptr), true);
  (void)quiet;
  if (size == 0) return 0;
  const coterie::Limits limits = coterie::FuzzLimits((data[0] & 1) != 0);
  coterie::v1::SearchRequest request;
  if (!request.ParseFromArray(data + 1, static_cast<int>(size - 1))) return 0;
  const auto decoded = coterie::DecodeSearch(request, limits);
  if (decoded.ok()) {
    coterie::CheckRequest(*decoded, limits);
  } else {
    coterie::CheckRefusal(decoded.status());
  }
  return 0;
}
