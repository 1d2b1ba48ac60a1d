#include "index/test_vectors.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "index/vectors.h"

namespace coterie {
namespace {

using Random = std::mt19937_64;

float Gaussian(Random& random) {
  return std::normal_distribution<float>()(random);
}

int64_t Below(int64_t n, Random& random) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

// One vector, whatever the others are.
std::vector<float> Independent(const std::string& kind, bool is_row, int64_t d,
                               Random& random) {
  std::vector<float> v(static_cast<size_t>(d));
  const float scale =
      kind == "norms"
          ? std::pow(10.0f, static_cast<float>(Below(61, random) - 30))
          : 1.0f;
  for (float& x : v) {
    const float gaussian = Gaussian(random);
    if (kind == "heavy tail") {
      x = gaussian / (std::fabs(Gaussian(random)) + 1e-6f);
    } else if (kind == "offset") {
      x = 1000 + std::uniform_real_distribution<float>(0, 1)(random);
    } else if (kind == "subnormals" || (kind == "subnormal rows" && is_row)) {
      x = static_cast<float>(Below(9, random) - 4) * 0x1p-149f;
    } else if (kind == "underflowing squares") {
      x = gaussian * 1e-21f;
    } else if (kind == "overflowing squares") {
      x = gaussian * 2e19f;
    } else if (kind == "extremes") {
      const float values[] = {3.4e38f, -3.4e38f, 0, -0.0f, 1};
      x = values[Below(5, random)];
    } else if (kind == "grid") {
      x = static_cast<float>(Below(3, random));
    } else if (kind == "signed zeros") {
      const float values[] = {0, -0.0f, 1, -1};
      x = values[Below(4, random)];
    } else {
      x = gaussian * scale;
    }
  }
  if (kind == "outlier coordinate") v[Below(d, random)] *= 1e8f;
  if (kind == "cancelling") {
    // Large equal parts hide small ones.
    for (int64_t j = 0; j < d / 2; ++j) v[j] = j % 2 == 0 ? 0x1p30f : -0x1p30f;
  }
  return v;
}

// A vector made from `centre`, for kinds about near and equal vectors.
std::vector<float> Near(const std::string& kind,
                        const std::vector<float>& centre, Random& random) {
  std::vector<float> v = centre;
  if (kind == "one-ulp neighbours") {
    float& x = v[Below(static_cast<int64_t>(v.size()), random)];
    x = std::nextafterf(x, random() % 2 == 0 ? 1e30f : -1e30f);
  } else if (kind == "scaled copies") {
    const float scale = std::ldexp(1.0f, static_cast<int>(Below(9, random)));
    for (float& x : v) x *= scale;
  } else if (kind == "tight far cluster") {
    for (float& x : v) x = 1e4f + x + 1e-3f * Gaussian(random);
  }
  return v;  // "identical": as it is
}

bool IsNear(const std::string& kind) {
  return kind == "identical" || kind == "one-ulp neighbours" ||
         kind == "scaled copies" || kind == "tight far cluster";
}

void Append(const std::vector<float>& v, std::vector<float>& all) {
  all.insert(all.end(), v.begin(), v.end());
}

void MakeNonzero(int64_t d, std::vector<float>& vectors) {
  for (size_t i = 0; i < vectors.size(); i += static_cast<size_t>(d)) {
    const auto begin = vectors.begin() + static_cast<int64_t>(i);
    if (std::all_of(begin, begin + d, [](float x) { return x == 0; })) {
      vectors[i] = 1;
    }
  }
}

}  // namespace

uint64_t TestSeed() {
  uint64_t seed = 0;
  const char* text = std::getenv("SEED");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr && absl::SimpleAtoi(text, &seed) ? seed : 20260417;
}

RowsView TestVectors::rows_view() const {
  return {rows.data(), static_cast<int64_t>(rows.size()) / d, d, d};
}

RowsView TestVectors::queries_view() const {
  return {queries.data(), static_cast<int64_t>(queries.size()) / d, d, d};
}

const std::vector<std::string>& TestVectorKinds() {
  static const auto& kinds = *new std::vector<std::string>{
      "gaussian",
      "heavy tail",
      "offset",
      "norms",
      "subnormals",
      "subnormal rows",
      "underflowing squares",
      "overflowing squares",
      "extremes",
      "grid",
      "signed zeros",
      "outlier coordinate",
      "cancelling",
      "identical",
      "one-ulp neighbours",
      "scaled copies",
      "tight far cluster",
      "queries among rows",
      "zero rows",
      "zero query",
      "far query",
      "tiny rows",
  };
  return kinds;
}

TestVectors MakeTestVectors(const std::string& kind, int64_t n, int64_t m,
                            int64_t d, bool nonzero, Random& random) {
  assert(d >= 1);
  assert(std::count(TestVectorKinds().begin(), TestVectorKinds().end(), kind) ==
         1);
  TestVectors made;
  made.kind = kind;
  made.d = d;
  const std::vector<float> centre = Independent("gaussian", true, d, random);
  for (int64_t i = 0; i < n + m; ++i) {
    const bool is_row = i < n;
    std::vector<float> v = IsNear(kind) ? Near(kind, centre, random)
                                        : Independent(kind, is_row, d, random);
    if (kind == "zero rows" && is_row && random() % 4 == 0) v.assign(d, 0);
    if (kind == "zero query" && !is_row) v.assign(d, 0);
    if (kind == "far query" && !is_row) v[0] += 1e6f;
    if (kind == "subnormal rows" && !is_row) {
      for (float& x : v) x *= 1e10f;
    }
    if (kind == "tiny rows" && is_row) {
      for (float& x : v) x *= 1e-17f;
    }
    if (kind == "queries among rows" && !is_row && n > 0) {
      const auto row = made.rows.begin() + Below(n, random) * d;
      v.assign(row, row + d);
    }
    Append(v, is_row ? made.rows : made.queries);
  }
  if (nonzero) {
    MakeNonzero(d, made.rows);
    MakeNonzero(d, made.queries);
  }
  return made;
}

}  // namespace coterie
