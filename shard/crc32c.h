// CRC-32C (Castagnoli, RFC 3720 appendix B.4) of bytes.
//
// Stateless; any thread. The same value on every CPU; those with SSE 4.2 take a
// cycle or less a byte.

#ifndef COTERIE_SHARD_CRC32C_H_
#define COTERIE_SHARD_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace coterie {

// Of what has checksum `before`, followed by `bytes`; 0 is that of nothing.
uint32_t ExtendCrc32c(uint32_t before, absl::string_view bytes);

inline uint32_t Crc32c(absl::string_view bytes) {
  return ExtendCrc32c(0, bytes);
}

}  // namespace coterie

#endif  // COTERIE_SHARD_CRC32C_H_
