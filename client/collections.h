// What several commands need to know about collections. Stateless.

#ifndef COTERIE_CLIENT_COLLECTIONS_H_
#define COTERIE_CLIENT_COLLECTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/v1/collections.pb.h"
#include "api/v1/types.pb.h"
#include "client/session.h"

namespace coterie {

// "cosine", "l2" (or "squared_l2") and "ip" (or "inner_product"), in any case.
// A usage error otherwise.
absl::StatusOr<v1::Metric> ParseMetric(absl::string_view text);

// The name that ParseMetric reads; "?" for a metric of a later release.
std::string MetricName(v1::Metric metric);

// "tree", "lsh[:BYTES[:RECALL]]" or "faiss:FACTORY[:RECALL]". A usage error
// otherwise.
absl::StatusOr<v1::IndexSpec> ParseIndex(absl::string_view text);

// ", index tree, index lsh:192:0.9"; empty if there is none.
std::string IndexesText(const v1::Collection& collection);

// NOT_FOUND gets advice how to create the collection, with its dimension when
// that is known; other statuses are unchanged.
absl::Status AdviseCreate(absl::Status status, absl::string_view collection,
                          std::optional<int64_t> dimension);

absl::StatusOr<v1::CreateCollectionResponse> CreateCollection(
    const Session& session, const v1::Collection& collection);

absl::StatusOr<v1::GetCollectionResponse> GetCollection(
    const Session& session, const std::string& name);

}  // namespace coterie

#endif  // COTERIE_CLIENT_COLLECTIONS_H_
