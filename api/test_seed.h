// The seed of randomised tests: from the environment's SEED, else fixed, so
// that a failure can be repeated. Any thread.

#ifndef COTERIE_API_TEST_SEED_H_
#define COTERIE_API_TEST_SEED_H_

#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace coterie {

inline uint64_t TestSeed() {
  uint64_t seed = 0;
  const char* text = std::getenv("SEED");
  return text != nullptr && absl::SimpleAtoi(text, &seed) ? seed : 20240229;
}

}  // namespace coterie

#endif  // COTERIE_API_TEST_SEED_H_
