// A stored point and its attributes, in domain types.

#ifndef COTERIE_API_POINT_H_
#define COTERIE_API_POINT_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "index/vectors.h"

namespace coterie {

// string, int64, double, bool or list of strings. The alternatives' order is
// part of the storage format (shard/record_codec.h); do not reorder.
using AttributeValue =
    std::variant<std::string, int64_t, double, bool, std::vector<std::string>>;

// By key, so that encodings and replies have one order.
using Attributes = std::map<std::string, AttributeValue>;

// REQUIRES, kept by api/points_convert: components finite, no -0, attributes
// within limits.
struct Point {
  PointId id = 0;
  std::vector<float> vector;
  Attributes attributes;
};

// Which attributes to return. Neither set: none.
struct AttributeSelector {
  bool all = false;
  std::vector<std::string> names;

  bool none() const { return !all && names.empty(); }
  // The selected part of `attributes`.
  Attributes Select(const Attributes& attributes) const;
};

// Bytes the limit `attribute_set_bytes` counts: keys, and values as 8 bytes a
// number, 1 a bool, length a string; in a list 2 more a string.
int64_t AttributeBytes(const Attributes& attributes);

}  // namespace coterie

#endif  // COTERIE_API_POINT_H_
