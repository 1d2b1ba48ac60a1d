// One attribute's key or value: proto -> domain. For api/points_convert only.
// Stateless; any thread.

#ifndef COTERIE_API_ATTRIBUTE_CONVERT_H_
#define COTERIE_API_ATTRIBUTE_CONVERT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/limits.h"
#include "api/point.h"
#include "api/v1/types.pb.h"

namespace coterie {

// INVALID_ARGUMENT unless `key` has 1..attribute_key_bytes bytes of UTF-8.
absl::Status CheckAttributeKey(absl::string_view key, absl::string_view field,
                               const Limits& limits);

// Refuses a value without kind, NaN, and text that is not UTF-8.
absl::StatusOr<AttributeValue> DecodeAttributeValue(
    const v1::AttributeValue& value, absl::string_view field);

void EncodeAttributeValue(const AttributeValue& value, v1::AttributeValue* out);

}  // namespace coterie

#endif  // COTERIE_API_ATTRIBUTE_CONVERT_H_
