#include "api/point.h"

#include <type_traits>

namespace coterie {
namespace {

// A string in a list also counts its tag and length on the wire: a list of
// empty strings is not free.
constexpr int64_t kListedStringBytes = 2;

int64_t ValueBytes(const AttributeValue& value) {
  return std::visit(
      [](const auto& v) -> int64_t {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return static_cast<int64_t>(v.size());
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          int64_t bytes = 0;
          for (const std::string& s : v) {
            bytes += static_cast<int64_t>(s.size()) + kListedStringBytes;
          }
          return bytes;
        } else {
          return static_cast<int64_t>(sizeof(T));
        }
      },
      value);
}

}  // namespace

Attributes AttributeSelector::Select(const Attributes& attributes) const {
  if (all) return attributes;
  Attributes selected;
  for (const std::string& name : names) {
    const auto it = attributes.find(name);
    if (it != attributes.end()) selected.insert(*it);
  }
  return selected;
}

int64_t AttributeBytes(const Attributes& attributes) {
  int64_t bytes = 0;
  for (const auto& [key, value] : attributes) {
    bytes += static_cast<int64_t>(key.size()) + ValueBytes(value);
  }
  return bytes;
}

}  // namespace coterie
