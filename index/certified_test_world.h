// A data set with ids, norms and live rows, and its canonical answers, for the
// tests of the certified scan. Not thread-safe while it is made.

#ifndef COTERIE_INDEX_CERTIFIED_TEST_WORLD_H_
#define COTERIE_INDEX_CERTIFIED_TEST_WORLD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "index/certified_codes.h"
#include "index/certified_plane.h"
#include "index/certified_test_data.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {

using Answers = std::vector<std::vector<Neighbor>>;

// A data set with ids, norms and live rows, and its canonical answers.
class CertifiedTestWorld {
 public:
  CertifiedTestWorld(const std::string& kind, Metric metric, int64_t n,
                     int64_t m, int64_t d, bool some_dead,
                     std::mt19937_64& random)
      : data_(MakeCertifiedTestData(kind, metric, n, m, d, random)),
        codes_(metric, data_.rows_view(), OptionsOf(data_)),
        plane_(codes_, data_.rows_view()),
        scan_queries_(metric, data_.queries_view()) {
    for (int64_t i = 0; i < n; ++i) {
      ids_.push_back(random());
      norms_.push_back(CanonicalSquaredNorm(data_.rows_view().row(i)));
    }
    if (some_dead) {
      for (int64_t i = 0; i < n; i += 64) {
        // Dense, sparse and empty words.
        const uint64_t kinds[] = {random() | random(), random() & random(), 0,
                                  ~uint64_t{0}};
        live_.push_back(kinds[random() % 4]);
      }
    }
  }

  const ScanQueries& scan_queries() const { return scan_queries_; }
  const CertifiedCodes& codes() const { return codes_; }
  const CertifiedPlane& plane() const { return plane_; }
  int64_t n() const { return data_.rows_view().n; }
  int64_t m() const { return scan_queries_.size(); }
  ScanRows rows() const {
    return {data_.rows_view(), ids_.data(), norms_.data(),
            live_.empty() ? nullptr : live_.data()};
  }
  bool Live(int64_t i) const {
    return live_.empty() ||
           (live_[static_cast<size_t>(i / 64)] >> (i % 64) & 1) != 0;
  }
  int64_t LiveRows(int64_t begin, int64_t end) const {
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) count += Live(i) ? 1 : 0;
    return count;
  }

  // The definition: every live row of [begin, end), in canonical order.
  Answers Canonical(int64_t begin, int64_t end, int64_t k) const {
    Answers answers;
    for (int64_t q = 0; q < m(); ++q) {
      std::vector<Neighbor> all;
      for (int64_t i = begin; i < end; ++i) {
        if (!Live(i)) continue;
        all.push_back(
            {ids_[static_cast<size_t>(i)],
             CanonicalDistance(scan_queries_.metric(), scan_queries_.query(q),
                               data_.rows_view().row(i))});
      }
      std::sort(all.begin(), all.end(), NeighborLess);
      all.resize(
          static_cast<size_t>(std::min(k, static_cast<int64_t>(all.size()))));
      answers.push_back(all);
    }
    return answers;
  }

 private:
  static CertifiedCodes::Options OptionsOf(const CertifiedTestData& data) {
    CertifiedCodes::Options options;
    options.clip = data.clip;
    options.centre = data.centre;
    return options;
  }

  CertifiedTestData data_;
  CertifiedCodes codes_;
  CertifiedPlane plane_;
  ScanQueries scan_queries_;
  std::vector<PointId> ids_;
  std::vector<double> norms_;
  std::vector<uint64_t> live_;
};

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_TEST_WORLD_H_
