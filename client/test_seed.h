// The seed of randomised tests: the environment's SEED, else fixed.

#ifndef COTERIE_CLIENT_TEST_SEED_H_
#define COTERIE_CLIENT_TEST_SEED_H_

#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace coterie {

inline uint64_t TestSeed() {
  uint64_t seed = 0;
  const char* text = std::getenv("SEED");
  return text != nullptr && absl::SimpleAtoi(text, &seed) ? seed : 7600;
}

}  // namespace coterie

#endif  // COTERIE_CLIENT_TEST_SEED_H_
