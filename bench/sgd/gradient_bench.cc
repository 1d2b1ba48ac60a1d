// How fast one thread passes over rows that do not fit into the caches: a
// logistic gradient beside the same memory read and added up.
//
//   gradient_bench [ROWS [DIMENSION]]      prints one JSON object
//
// The two take turns; medians. CPU time of the process, so that other work on
// the machine is not counted.

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "index/simd.h"
#include "training/sgd_model.h"

namespace coterie {
namespace {

constexpr int kRuns = 9;

// Eight streams of additions: as fast as memory gives.
__attribute__((target("avx2"))) float ReadAll(const std::vector<float>& v) {
  __m256 sums[8];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  for (size_t i = 0; i + 64 <= v.size(); i += 64) {
    for (size_t s = 0; s < 8; ++s) {
      sums[s] = _mm256_add_ps(sums[s], _mm256_loadu_ps(v.data() + i + 8 * s));
    }
  }
  float total = 0;
  for (const __m256& sum : sums) {
    alignas(32) float lanes[8];
    _mm256_store_ps(lanes, sum);
    for (float lane : lanes) total += lane;
  }
  return total;
}

template <typename Body>
double Seconds(Body body) {
  const std::clock_t start = std::clock();
  body();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2),
                   v.end());
  return v[v.size() / 2];
}

int Run(int64_t n, int64_t d) {
  std::vector<float> values(static_cast<size_t>(n * d));
  std::minstd_rand random(7600);
  for (float& v : values) {
    v = static_cast<float>(random()) / 2147483648.0F - 0.5F;
  }
  std::vector<const float*> rows;
  std::vector<double> labels;
  for (int64_t i = 0; i < n; ++i) {
    rows.push_back(values.data() + i * d);
    labels.push_back(i % 3 == 0 ? 1 : -1);
  }
  SgdModel model;
  model.kind = SgdModelKind::kLogistic;
  model.dimension = d;
  const std::vector<double> w(static_cast<size_t>(d), 0.1);
  std::vector<double> read, pass;
  double check = 0;
  for (int run = 0; run < kRuns; ++run) {
    read.push_back(Seconds([&] { check += ReadAll(values); }));
    SgdSums sums;
    sums.gradient.resize(static_cast<size_t>(d));
    pass.push_back(Seconds([&] { AddSgdSums(model, w, rows, labels, sums); }));
    check += sums.gradient[0];
  }
  const double gigabytes = static_cast<double>(n * d) * 4e-9;
  std::printf(
      "{\"rows\": %lld, \"dimension\": %lld, \"gigabytes\": %.3g, \"target\": "
      "\"%s\", \"read_gb_per_s\": %.4g, \"logistic_gb_per_s\": %.4g, "
      "\"share\": %.3g, \"check\": %.6g}\n",
      static_cast<long long>(n), static_cast<long long>(d), gigabytes,
      std::string(SimdTargetName(ActiveSimdTarget())).c_str(),
      gigabytes / Median(read), gigabytes / Median(pass),
      Median(read) / Median(pass), check);
  return 0;
}

}  // namespace
}  // namespace coterie

int main(int argc, char** argv) {
  const int64_t n = argc > 1 ? std::atoll(argv[1]) : 400'000;
  const int64_t d = argc > 2 ? std::atoll(argv[2]) : 256;
  if (n < 1 || d < 1 || d > 16'384) {
    std::fprintf(stderr, "gradient_bench [ROWS [DIMENSION]]\n");
    return 2;
  }
  return coterie::Run(n, d);
}
