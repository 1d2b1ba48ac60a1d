// float32 arrays as little-endian bytes. Stateless; any thread. O(bytes).

#ifndef COTERIE_API_PACKED_FLOATS_H_
#define COTERIE_API_PACKED_FLOATS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "index/vectors.h"

namespace coterie {

inline void AppendFloats(VectorView values, std::string* out) {
  if constexpr (std::endian::native == std::endian::little) {
    out->append(reinterpret_cast<const char*>(values.data()),
                values.size() * sizeof(float));
  } else {
    for (const float x : values) {
      const auto bits = std::bit_cast<uint32_t>(x);
      for (int i = 0; i < 4; ++i) {
        out->push_back(static_cast<char>(bits >> (8 * i)));
      }
    }
  }
}

// REQUIRES: bytes.size() is a multiple of 4.
inline std::vector<float> ReadFloats(absl::string_view bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if constexpr (std::endian::native == std::endian::little) {
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits = 0;
      for (size_t j = 0; j < 4; ++j) {
        bits |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[4 * i + j]))
                << (8 * j);
      }
      values[i] = std::bit_cast<float>(bits);
    }
  }
  return values;
}

}  // namespace coterie

#endif  // COTERIE_API_PACKED_FLOATS_H_
