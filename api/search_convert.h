// Search: proto <-> domain. Decoding is validating (api/points_convert.h).

#ifndef COTERIE_API_SEARCH_CONVERT_H_
#define COTERIE_API_SEARCH_CONVERT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "api/limits.h"
#include "api/search.h"
#include "api/v1/search.pb.h"
#include "api/v1/shard.pb.h"

namespace coterie {

// Refuses: no queries; no extent; k <= 0; k, offset + k, queries or
// queries x (offset + k) over their limits; a radius that is NaN or +-Inf;
// offset < 0 or with radius; a vector of other length than the first's;
// a strategy's number out of range; min_ratio outside (0, 1]; a query without
// kind; a filter as DecodeFilter. The result's k is offset + k, or limits.k + 1
// for a radius.
absl::StatusOr<SearchRequest> DecodeSearch(const v1::SearchRequest& request,
                                           const Limits& limits);

// Exact if none is set. INVALID_ARGUMENT naming the field.
absl::StatusOr<Strategy> DecodeStrategy(const v1::SearchRequest& request);
absl::StatusOr<Strategy> DecodeStrategy(const v1::ShardSearchRequest& request);
void EncodeStrategy(const Strategy& strategy, v1::ShardSearchRequest* out);

// Parts of certificate and profile.
void EncodeSlots(const std::vector<SlotState>& slots,
                 google::protobuf::RepeatedPtrField<v1::SlotState>* out);
void EncodeAccounts(const std::vector<QueryAccount>& accounts,
                    google::protobuf::RepeatedPtrField<v1::QueryAccount>* out);
void EncodeShardTimes(int32_t shard_id, const ShardTimes& times,
                      v1::ShardProfile* out);

// `profile`: also certificate, profile and cost.
v1::SearchResponse EncodeSearchReply(const SearchReply& reply, bool profile);

void EncodeCost(const CommunicationCost& cost, v1::CommunicationCost* out);

}  // namespace coterie

#endif  // COTERIE_API_SEARCH_CONVERT_H_
