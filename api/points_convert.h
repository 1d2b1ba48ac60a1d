// Points, vectors, attributes and filters: proto <-> domain.
//
// Decoding is validating: what comes out satisfies the REQUIRES of domain
// code, or the status is INVALID_ARGUMENT naming the field by its path, the
// value and the limit. Dimension and metric are the collection's business and
// are checked by whoever knows it. Stateless; any thread. O(size of message).

#ifndef COTERIE_API_POINTS_CONVERT_H_
#define COTERIE_API_POINTS_CONVERT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/limits.h"
#include "api/point.h"
#include "api/shard_messages.h"
#include "api/v1/points.pb.h"
#include "api/v1/types.pb.h"

namespace coterie {

// Exact float32 value of each component; -0 becomes +0. Refuses: no encoding,
// no components or more than limits.dimension, NaN or Inf, unknown dtype,
// packed bytes that are not a multiple of the element size. `field` is the
// path for messages.
absl::StatusOr<std::vector<float>> DecodeVector(const v1::Vector& vector,
                                                absl::string_view field,
                                                const Limits& limits);
// As packed F32.
void EncodeVector(VectorView vector, v1::Vector* out);

// Refuses: more attributes or bytes than the limits, a key that is empty, too
// long or not UTF-8, a value without kind, NaN, text that is not UTF-8. Of
// several faults the one with the least key is named.
absl::StatusOr<Attributes> DecodeAttributes(
    const google::protobuf::Map<std::string, v1::AttributeValue>& attributes,
    absl::string_view field, const Limits& limits);
void EncodeAttributes(
    const Attributes& attributes,
    google::protobuf::Map<std::string, v1::AttributeValue>* out);

// The inverse of DecodeFilter and DecodeSelector below.
void EncodeFilter(const Filter& filter, v1::Filter* out);
void EncodeSelector(const AttributeSelector& selector,
                    v1::AttributeSelector* out);

// Refuses more names than a point may have attributes. `all: false` is none.
absl::StatusOr<AttributeSelector> DecodeSelector(
    const v1::AttributeSelector& selector, absl::string_view field,
    const Limits& limits);

// Refuses: too many conditions, values or ids; a condition without kind, a
// match without values or with one that is neither string, int nor bool; a
// range without bounds or with NaN; an attribute that no point can have. Ids
// come out sorted and distinct. An empty list of ids admits no point.
absl::StatusOr<Filter> DecodeFilter(const v1::Filter& filter,
                                    absl::string_view field,
                                    const Limits& limits);

// Each refuses a collection name that is empty or over its limit; whether it
// exists is for others to say. Lists of points or ids are neither empty nor
// over their limit; in a batch of writes the same id twice is refused naming
// both positions, and so is a request id that is none.
absl::StatusOr<WriteBatch> DecodeUpsert(const v1::UpsertRequest& request,
                                        const Limits& limits);
absl::StatusOr<WriteBatch> DecodeDelete(const v1::DeleteRequest& request,
                                        const Limits& limits);
absl::StatusOr<WriteBatch> DecodeSetAttributes(
    const v1::SetAttributesRequest& request, const Limits& limits);
absl::StatusOr<GetRequest> DecodeGet(const v1::GetRequest& request,
                                     const Limits& limits);
absl::StatusOr<CountRequest> DecodeCount(const v1::CountRequest& request,
                                         const Limits& limits);
absl::StatusOr<ScanRequest> DecodeScan(const v1::ScanRequest& request,
                                       const Limits& limits);

// As DecodeUpsert of one point. `field` is the path for messages.
absl::StatusOr<Point> DecodePoint(const v1::Point& point,
                                  const std::string& field,
                                  const Limits& limits);
// The vector is written when it is not empty.
void EncodePoint(const Point& point, v1::Point* out);
// REQUIRES: `missing` is in the order of the request already.
v1::SetAttributesResponse EncodeSetAttributesReply(const WriteReply& reply);
v1::GetResponse EncodeGetReply(const GetReply& reply);

}  // namespace coterie

#endif  // COTERIE_API_POINTS_CONVERT_H_
