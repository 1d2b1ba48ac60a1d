#include "bench/exact/machine_limits.h"

#include <immintrin.h>

#include <cstdint>

namespace coterie {
namespace {

constexpr int64_t kLine = 64;

__attribute__((target("avx512f"))) uint64_t ReadOnce512(const char* data,
                                                        int64_t bytes) {
  // As far ahead as the scan itself asks.
  constexpr int64_t kAhead = 2048;
  __m512i sum[4] = {};
  int64_t at = 0;
  for (; at + 4 * kLine <= bytes; at += 4 * kLine) {
    for (int i = 0; i < 4; ++i) {
      const char* line = data + at + i * kLine;
      _mm_prefetch(line + kAhead, _MM_HINT_T0);
      sum[i] = _mm512_xor_si512(sum[i], _mm512_load_si512(line));
    }
  }
  for (; at < bytes; at += kLine) {
    sum[0] = _mm512_xor_si512(sum[0], _mm512_load_si512(data + at));
  }
  return static_cast<uint64_t>(_mm512_reduce_add_epi64(_mm512_xor_si512(
      _mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3]))));
}

uint64_t ReadOnce64(const char* data, int64_t bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  uint64_t sum[8] = {};
  for (int64_t i = 0; i + 8 <= bytes / 8; i += 8) {
    for (int j = 0; j < 8; ++j) sum[j] ^= words[i + j];
  }
  uint64_t all = 0;
  for (const uint64_t s : sum) all ^= s;
  return all;
}

__attribute__((target("avx512f,avx512vnni"))) void Multiply(int64_t rounds) {
  constexpr int kSums = 24;
  // Unequal, or the compiler does the sums only once.
  __m512i sum[kSums];
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_epi32(i);
  __m512i a = _mm512_set1_epi32(1);
  __m512i b = _mm512_set1_epi32(2);
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 24
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], a, b);
  }
#pragma GCC unroll 24
  for (int i = 0; i < kSums; ++i) asm volatile("" : : "v"(sum[i]));
}

}  // namespace

uint64_t ReadOnce(const void* data, int64_t bytes) {
  const char* bytes_in = static_cast<const char*>(data);
  return __builtin_cpu_supports("avx512f") ? ReadOnce512(bytes_in, bytes)
                                           : ReadOnce64(bytes_in, bytes);
}

int64_t MultiplyBytes(int64_t rounds) {
  if (!__builtin_cpu_supports("avx512vnni")) return 0;
  Multiply(rounds);
  return rounds * 24 * 64;
}

}  // namespace coterie
