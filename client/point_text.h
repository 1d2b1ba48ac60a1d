// Points of replies, as cells of a table. Stateless; any thread.

#ifndef COTERIE_CLIENT_POINT_TEXT_H_
#define COTERIE_CLIENT_POINT_TEXT_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "api/v1/types.pb.h"

namespace coterie {

using AttributeMap = google::protobuf::Map<std::string, v1::AttributeValue>;

// king, 42, 0.5, true, [a, b]; empty when unset.
std::string AttributeText(const v1::AttributeValue& value);

// The value of an attribute as text; empty when the point has none.
std::string AttributeText(const AttributeMap& attributes,
                          const std::string& name);

// `wanted` as it is; when empty, all attributes of the points, sorted.
std::vector<std::string> AttributeColumns(
    const std::vector<std::string>& wanted,
    const std::vector<const AttributeMap*>& points);

// Names to ask for: those wanted, or all.
v1::AttributeSelector SelectAttributes(const std::vector<std::string>& wanted);

// As packed float32.
v1::Vector PackVector(absl::Span<const float> values);

// Components of a vector in a reply, comma-separated; says so when it is
// encoded in a way that servers do not reply in.
std::string VectorText(const v1::Vector& vector);

}  // namespace coterie

#endif  // COTERIE_CLIENT_POINT_TEXT_H_
