// What one thread of this machine can do at most: the yardsticks of a scan.
// Any thread.

#ifndef COTERIE_BENCH_EXACT_MACHINE_LIMITS_H_
#define COTERIE_BENCH_EXACT_MACHINE_LIMITS_H_

#include <cstdint>

namespace coterie {

// Reads `bytes` (a multiple of 64) from `data`, 64-byte aligned, once, in
// order, doing next to nothing with them. Returns what keeps the compiler from
// leaving the reads out.
uint64_t ReadOnce(const void* data, int64_t bytes);

// Products of two bytes, added up, that this thread does in the time of the
// call: `rounds` x 24 independent vpdpbusd of 64. 0 if the CPU has none.
int64_t MultiplyBytes(int64_t rounds);

}  // namespace coterie

#endif  // COTERIE_BENCH_EXACT_MACHINE_LIMITS_H_
