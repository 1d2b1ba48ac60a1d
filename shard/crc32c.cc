#include "shard/crc32c.h"

#include <nmmintrin.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace coterie {
namespace {

constexpr std::array<uint32_t, 256> Table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = value >> 1 ^ ((value & 1) != 0 ? 0x82f63b78u : 0u);
    }
    table[byte] = value;
  }
  return table;
}

uint32_t ByTable(uint32_t state, const char* at, size_t size) {
  static constexpr std::array<uint32_t, 256> kTable = Table();
  for (size_t i = 0; i < size; ++i) {
    state = state >> 8 ^ kTable[(state ^ static_cast<uint8_t>(at[i])) & 0xff];
  }
  return state;
}

__attribute__((target("sse4.2"))) uint32_t ByInstruction(uint32_t state,
                                                         const char* at,
                                                         size_t size) {
  uint64_t wide = state;
  for (; size >= 8; at += 8, size -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    wide = _mm_crc32_u64(wide, word);
  }
  state = static_cast<uint32_t>(wide);
  for (; size > 0; ++at, --size) {
    state = _mm_crc32_u8(state, static_cast<uint8_t>(*at));
  }
  return state;
}

}  // namespace

uint32_t ExtendCrc32c(uint32_t before, absl::string_view bytes) {
  static const bool kInstruction = __builtin_cpu_supports("sse4.2") != 0;
  return ~(kInstruction ? ByInstruction : ByTable)(~before, bytes.data(),
                                                   bytes.size());
}

}  // namespace coterie
