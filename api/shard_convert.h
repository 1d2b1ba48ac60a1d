// ShardService's messages: proto <-> domain, both ways.
//
// Stateless; any thread. O(size of message). Neither end trusts the other.
// Requests that decode satisfy the REQUIRES of domain code, or the status is
// INVALID_ARGUMENT naming field, value and limit (api/points_convert.h).
// Replies that decode are of the shape that was asked for: lists fit each
// other and the request, numbers are finite, counts are not negative; or the
// status is INTERNAL saying what does not fit. What a reply claims beyond that
// is for coordinator/merge_replies to check. Sizes of attributes in replies are
// bounded by the message alone: the shard may have had other limits when it
// took them.
//
// Headers are separate: encoders leave them alone.

#ifndef COTERIE_API_SHARD_CONVERT_H_
#define COTERIE_API_SHARD_CONVERT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/collection.h"
#include "api/limits.h"
#include "api/search.h"
#include "api/shard_messages.h"
#include "api/v1/shard.pb.h"

namespace coterie {

// FAILED_PRECONDITION naming both sides unless the request is for this shard;
// UNAVAILABLE if it is, but on another store: what it is for is not here.
absl::Status CheckShardRequestHeader(const v1::ShardRequestHeader& header,
                                     int32_t shard_id,
                                     absl::string_view cluster_uuid,
                                     absl::string_view store_id);
// FAILED_PRECONDITION naming both shards unless `expected` (if any) answered;
// INTERNAL if its time is not finite or negative.
absl::Status CheckShardReplyHeader(const v1::ShardReplyHeader& header,
                                   std::optional<int32_t> expected);

// REQUIRES: queries are vectors of one length. What shards do not look at
// (offset, partial_policy) stays behind.
void EncodeShardRequest(const SearchRequest& request,
                        v1::ShardSearchRequest* out);
void EncodeShardRequest(const WriteBatch& batch, v1::ShardWriteRequest* out);
void EncodeShardRequest(const GetRequest& request, v1::ShardGetRequest* out);
void EncodeShardRequest(const CountRequest& request,
                        v1::ShardCountRequest* out);
void EncodeShardRequest(const ScanRequest& request, v1::ShardScanRequest* out);

// Refuses: no queries, bytes that are not whole vectors, k < 1, a radius or
// component that is not finite, and what is over a limit. -0 becomes +0.
absl::StatusOr<SearchRequest> DecodeShardRequest(
    const v1::ShardSearchRequest& request, const Limits& limits);
// A batch may be empty; ids may repeat, as far as lengths go.
absl::StatusOr<WriteBatch> DecodeShardRequest(
    const v1::ShardWriteRequest& request, const Limits& limits);
absl::StatusOr<GetRequest> DecodeShardRequest(
    const v1::ShardGetRequest& request, const Limits& limits);
absl::StatusOr<CountRequest> DecodeShardRequest(
    const v1::ShardCountRequest& request, const Limits& limits);
absl::StatusOr<ScanRequest> DecodeShardRequest(
    const v1::ShardScanRequest& request, const Limits& limits);

// Not encoded: round trip and link, which the caller knows. Vectors of hits
// have one length, or none has a vector.
void EncodeShardReply(const ShardSearchReply& reply,
                      v1::ShardSearchResponse* out);
void EncodeShardReply(const WriteReply& reply, v1::ShardWriteResponse* out);
void EncodeShardReply(const GetReply& reply, v1::ShardGetResponse* out);
void EncodeShardReply(const CountReply& reply, v1::ShardCountResponse* out);
void EncodeShardReply(const ScanPage& page, v1::ShardScanResponse* out);
void EncodeShardReply(const ShardCollectionStats& stats,
                      v1::CollectionStatsResponse* out);
void EncodeShardReply(const ShardDescription& shard,
                      v1::DescribeShardResponse* out);

// `asked` is the request of the reply. The reply's shard_id is the header's.
absl::StatusOr<ShardSearchReply> DecodeShardReply(
    const v1::ShardSearchResponse& response, const SearchRequest& asked);
absl::StatusOr<WriteReply> DecodeShardReply(
    const v1::ShardWriteResponse& response);
// Each id asked for is a point or missing, in order.
absl::StatusOr<GetReply> DecodeShardReply(const v1::ShardGetResponse& response,
                                          const GetRequest& asked);
absl::StatusOr<CountReply> DecodeShardReply(
    const v1::ShardCountResponse& response);
absl::StatusOr<ScanPage> DecodeShardReply(const v1::ShardScanResponse& response,
                                          bool with_vectors);
absl::StatusOr<ShardCollectionStats> DecodeShardReply(
    const v1::CollectionStatsResponse& response);
absl::StatusOr<ShardDescription> DecodeShardReply(
    const v1::DescribeShardResponse& response);

// The record says the same in a request and in a reply. Refuses, as
// INVALID_ARGUMENT naming the entry: a negative version, names out of order or
// repeated, a schema no collection can have, a number not below next_number,
// other than one owner for each slot, a negative owner. Whether the owners
// exist is for others to say.
void EncodeCatalogue(const Catalogue& catalogue, v1::CatalogueRecord* out);
absl::StatusOr<Catalogue> DecodeCatalogue(const v1::CatalogueRecord& record);
// As above, but INTERNAL.
absl::StatusOr<Catalogue> DecodeShardReply(
    const v1::ReadCatalogueResponse& response);
absl::StatusOr<int64_t> DecodeShardReply(
    const v1::PutCatalogueResponse& response);

}  // namespace coterie

#endif  // COTERIE_API_SHARD_CONVERT_H_
