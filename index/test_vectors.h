// Vectors that are hard on distance arithmetic, for tests. Each kind yields
// rows and queries that belong together. Pure functions of the generator's
// state; not thread-safe in it.

#ifndef COTERIE_INDEX_TEST_VECTORS_H_
#define COTERIE_INDEX_TEST_VECTORS_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "index/vectors.h"

namespace coterie {

// The environment variable SEED if it is a number, else a fixed one. Print it
// when a test fails.
uint64_t TestSeed();

struct TestVectors {
  std::string kind;
  int64_t d = 0;
  std::vector<float> rows;     // n x d, no padding
  std::vector<float> queries;  // m x d

  RowsView rows_view() const;
  RowsView queries_view() const;
};

// "gaussian", "subnormals", ...: all kinds that MakeTestVectors knows.
const std::vector<std::string>& TestVectorKinds();

// n rows and m queries of d finite components. With `nonzero` no vector is all
// zero, as COSINE demands. REQUIRES: a known kind; n, m >= 0; d >= 1.
TestVectors MakeTestVectors(const std::string& kind, int64_t n, int64_t m,
                            int64_t d, bool nonzero, std::mt19937_64& random);

}  // namespace coterie

#endif  // COTERIE_INDEX_TEST_VECTORS_H_
