// Rows and queries chosen against the bounds of the certified scan: each kind
// aims at one slack or one step of the proofs. Pure functions of the
// generator's state; not thread-safe in it.

#ifndef COTERIE_INDEX_CERTIFIED_TEST_DATA_H_
#define COTERIE_INDEX_CERTIFIED_TEST_DATA_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {

struct CertifiedTestData {
  std::string kind;
  int64_t d = 0;
  std::vector<float> rows;     // n x d
  std::vector<float> queries;  // m x d
  // Centre and clip that make the kind hard; else the usual ones.
  std::optional<std::vector<float>> centre;
  double clip = 1;

  RowsView rows_view() const;
  RowsView queries_view() const;
};

// All kinds that MakeCertifiedTestData knows.
const std::vector<std::string>& CertifiedTestKinds();

// n rows and m queries that pass ValidateVector(metric, .).
// REQUIRES: a known kind; n, m, d >= 1.
CertifiedTestData MakeCertifiedTestData(const std::string& kind, Metric metric,
                                        int64_t n, int64_t m, int64_t d,
                                        std::mt19937_64& random);

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_TEST_DATA_H_
