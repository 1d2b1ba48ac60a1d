#include "server/cluster_uuid.h"

#include <cstdint>
#include <random>

#include "absl/strings/str_format.h"

namespace coterie {
namespace {

std::string Format(uint64_t hi, uint64_t lo, uint64_t version) {
  hi = (hi & ~0xF000ULL) | (version << 12);
  lo = (lo & ~(0xC000ULL << 48)) | (0x8000ULL << 48);
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", hi >> 32,
                         (hi >> 16) & 0xFFFF, hi & 0xFFFF, lo >> 48,
                         lo & 0xFFFFFFFFFFFFULL);
}

// FNV-1a, finished as SplitMix64 finishes so that every bit depends on all.
uint64_t Hash(absl::string_view text, uint64_t seed) {
  uint64_t h = 0xCBF29CE484222325ULL ^ seed;
  for (const char c : text) {
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ULL;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBULL;
  return h ^ (h >> 31);
}

}  // namespace

std::string NewClusterUuid() {
  std::random_device device;
  const auto word = [&device] {
    const uint64_t high = device();
    return (high << 32) | device();
  };
  const uint64_t hi = word();
  return Format(hi, word(), 4);
}

std::string ClusterUuidOf(absl::string_view name) {
  return Format(Hash(name, 0), Hash(name, 0x9E3779B97F4A7C15ULL), 8);
}

bool IsClusterUuid(absl::string_view text) {
  if (text.size() != 36) {
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (dash ? c != '-' : !hex) {
      return false;
    }
  }
  return true;
}

}  // namespace coterie
