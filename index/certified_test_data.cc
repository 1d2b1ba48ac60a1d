#include "index/certified_test_data.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {
namespace {

using Random = std::mt19937_64;

double Normal(Random& random) {
  return std::normal_distribution<double>()(random);
}

double Uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

// An integer in [low, high].
int64_t Integer(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

double Sign(Random& random) { return Integer(random, 0, 1) == 0 ? -1 : 1; }

// What a kind fills in: sizes are set, values are zero.
struct Draft {
  CertifiedTestData& data;
  int64_t n;
  int64_t m;
  Random& random;

  int64_t d() const { return data.d; }
  float& Row(int64_t i, int64_t j) const {
    return data.rows[static_cast<size_t>(i * data.d + j)];
  }
  float& Query(int64_t i, int64_t j) const {
    return data.queries[static_cast<size_t>(i * data.d + j)];
  }
  void ZeroCentre() const {
    data.centre = std::vector<float>(static_cast<size_t>(data.d));
  }
  void FillRows(const std::function<double(int64_t, int64_t)>& value) const {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < d(); ++j) Row(i, j) = Cast(value(i, j));
    }
  }
  void FillQueries(const std::function<double(int64_t, int64_t)>& value) const {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < d(); ++j) Query(i, j) = Cast(value(i, j));
    }
  }
  void FillBoth(const std::function<double(int64_t, int64_t)>& value) const {
    FillRows(value);
    FillQueries(value);
  }
  // Query i becomes a copy of a random row, for every `step`-th i.
  void CopyRows(int64_t step) const {
    for (int64_t i = 0; i < m; i += step) {
      const int64_t row = Integer(random, 0, n - 1);
      for (int64_t j = 0; j < d(); ++j) Query(i, j) = Row(row, j);
    }
  }

 private:
  static float Cast(double v) {
    constexpr double kMax = std::numeric_limits<float>::max();
    return static_cast<float>(std::clamp(v, -kMax, kMax));
  }
};

std::vector<float> OneVector(int64_t d, Random& random, double scale) {
  std::vector<float> v(static_cast<size_t>(d));
  for (float& x : v) x = static_cast<float>(scale * Normal(random));
  return v;
}

void Gaussian(const Draft& t) {
  t.FillBoth([&](int64_t, int64_t) { return Normal(t.random); });
}

void HeavyTail(const Draft& t) {
  t.FillBoth([&](int64_t, int64_t) {
    return Normal(t.random) / std::pow(Uniform(t.random, 1e-3, 1), 1.5);
  });
}

void Identical(const Draft& t) {
  const std::vector<float> v = OneVector(t.d(), t.random, 3);
  t.FillRows([&](int64_t, int64_t j) { return v[static_cast<size_t>(j)]; });
  t.FillQueries([&](int64_t i, int64_t j) {
    const double scale = std::pow(10.0, -static_cast<double>(i % 9));
    return v[static_cast<size_t>(j)] + scale * Normal(t.random);
  });
  t.CopyRows(5);
}

void ExactCodes(const Draft& t) {
  t.ZeroCentre();
  t.FillBoth([&](int64_t, int64_t j) {
    return j == 0 ? 127 * 0.03125 * Sign(t.random)
                  : 0.03125 * static_cast<double>(Integer(t.random, -127, 127));
  });
}

void Offset(const Draft& t) {
  t.FillBoth([&](int64_t, int64_t) { return 1000 + Uniform(t.random, 0, 1); });
}

void Norms(const Draft& t) {
  double scale = 1;
  t.FillBoth([&](int64_t, int64_t j) {
    if (j == 0) scale = std::pow(10.0, Uniform(t.random, -30, 30));
    return scale * Normal(t.random);
  });
}

// Norms within a few powers of two, so that many rows matter to each query.
void LogNormal(const Draft& t) {
  double scale = 1;
  t.FillBoth([&](int64_t, int64_t j) {
    if (j == 0) scale = std::exp(Normal(t.random));
    return scale * Normal(t.random);
  });
}

void Subnormals(const Draft& t) {
  t.FillBoth([&](int64_t, int64_t) {
    return 0x1p-149 * static_cast<double>(Integer(t.random, -1000, 1000));
  });
}

void Extremes(const Draft& t) {
  t.FillBoth([&](int64_t, int64_t) {
    return 3.4e38 * static_cast<double>(Integer(t.random, -1, 1));
  });
}

// Magnitudes of coordinates anywhere in the range of float32.
void AllBinades(const Draft& t) {
  t.FillBoth([&](int64_t, int64_t) {
    return Sign(t.random) *
           std::ldexp(Uniform(t.random, 1, 2),
                      static_cast<int>(Integer(t.random, -149, 126)));
  });
}

void Outlier(const Draft& t) {
  t.FillBoth([&](int64_t, int64_t j) {
    return Normal(t.random) * (j == t.d() / 2 ? 1e4 : 1);
  });
}

void Clipped(const Draft& t) {
  t.ZeroCentre();
  t.data.clip = 0.5;
  int64_t spike = 0;
  t.FillBoth([&](int64_t, int64_t j) {
    if (j == 0) spike = Integer(t.random, 0, t.d() - 1);
    return Sign(t.random) * (j == spike ? 2 : 1);
  });
}

// Residuals of all rows point along the query.
void Aligned(const Draft& t) {
  t.ZeroCentre();
  std::vector<double> sign(static_cast<size_t>(t.d()));
  for (double& s : sign) s = Sign(t.random);
  t.FillQueries([&](int64_t, int64_t j) {
    return sign[static_cast<size_t>(j)] * Uniform(t.random, 0.5, 1);
  });
  t.FillRows([&](int64_t i, int64_t j) {
    if (j == 0) return 127.0 / 64;
    const double side = i % 2 == 0 ? 0.49 : -0.49;
    return (static_cast<double>(Integer(t.random, -126, 126)) +
            side * sign[static_cast<size_t>(j)]) /
           64;
  });
}

void Among(const Draft& t) {
  Gaussian(t);
  t.CopyRows(1);
}

void Zeros(const Draft& t) {
  t.FillRows(
      [&](int64_t i, int64_t) { return i % 3 == 0 ? 0 : Normal(t.random); });
  std::vector<double> mean(static_cast<size_t>(t.d()));
  for (int64_t i = 0; i < t.n; ++i) {
    for (int64_t j = 0; j < t.d(); ++j) {
      mean[static_cast<size_t>(j)] += t.Row(i, j) / static_cast<double>(t.n);
    }
  }
  t.FillQueries([&](int64_t i, int64_t j) {
    if (i % 3 == 0) return 0.0;
    return i % 3 == 1 ? mean[static_cast<size_t>(j)] : Normal(t.random);
  });
}

void Tiny(const Draft& t) {
  t.ZeroCentre();
  t.FillRows([&](int64_t, int64_t) { return 1e-17 * Normal(t.random); });
  t.FillQueries([&](int64_t, int64_t) { return Normal(t.random); });
}

void FarQuery(const Draft& t) {
  Gaussian(t);
  t.FillQueries([&](int64_t i, int64_t) {
    return std::pow(10.0, static_cast<double>(i % 8)) * Normal(t.random);
  });
}

void NearCentre(const Draft& t) {
  const std::vector<float> v = OneVector(t.d(), t.random, 1);
  t.data.centre = v;
  t.FillBoth([&](int64_t, int64_t j) {
    return v[static_cast<size_t>(j)] + 1e-6 * Normal(t.random);
  });
}

void Clusters(const Draft& t) {
  const std::vector<float> centres = OneVector(4 * t.d(), t.random, 10);
  t.FillBoth([&](int64_t i, int64_t j) {
    return centres[static_cast<size_t>(i % 4 * t.d() + j)] +
           0.01 * Normal(t.random);
  });
}

// <q, x> cancels to a value far below |q||x| * 2^-53.
void Cancelling(const Draft& t) {
  const int64_t half = t.d() / 2;
  std::vector<float> big(static_cast<size_t>(t.d()));
  for (int64_t j = 0; j < half; ++j) {
    big[static_cast<size_t>(j)] =
        static_cast<float>(0x1p30 + 64.0 * Integer(t.random, -999, 999));
  }
  t.data.centre = big;
  t.FillRows([&](int64_t, int64_t j) {
    return j < half
               ? big[static_cast<size_t>(j)]
               : 0x1p-6 * static_cast<double>(Integer(t.random, -127, 127));
  });
  double factor = 1;
  t.FillQueries([&](int64_t, int64_t j) {
    if (j == 0) {
      factor = static_cast<double>(2 * Integer(t.random, 1 << 14, 1 << 15) + 1);
    }
    return factor * static_cast<double>(Integer(t.random, -100, 100));
  });
}

// Directions that canonical cosine cannot tell apart.
void OneUlp(const Draft& t) {
  const std::vector<float> v = OneVector(t.d(), t.random, 1);
  t.FillBoth([&](int64_t i, int64_t j) {
    const float x = v[static_cast<size_t>(j)];
    if (i == 0 || Integer(t.random, 0, t.d()) > 1) return x;
    return std::nextafterf(x, Sign(t.random) > 0 ? 1e9f : -1e9f);
  });
}

void Grid(const Draft& t) {
  t.FillBoth([&](int64_t, int64_t) {
    return static_cast<double>(Integer(t.random, 0, 2));
  });
}

const std::vector<std::pair<std::string, void (*)(const Draft&)>>& Kinds() {
  static const auto& kinds =
      *new std::vector<std::pair<std::string, void (*)(const Draft&)>>{
          {"gaussian", Gaussian},    {"heavy_tail", HeavyTail},
          {"identical", Identical},  {"exact_codes", ExactCodes},
          {"offset", Offset},        {"norms", Norms},
          {"log_normal", LogNormal}, {"subnormals", Subnormals},
          {"extremes", Extremes},    {"all_binades", AllBinades},
          {"outlier", Outlier},      {"clipped", Clipped},
          {"aligned", Aligned},      {"among", Among},
          {"zeros", Zeros},          {"tiny", Tiny},
          {"far_query", FarQuery},   {"near_centre", NearCentre},
          {"clusters", Clusters},    {"cancelling", Cancelling},
          {"one_ulp", OneUlp},       {"grid", Grid},
      };
  return kinds;
}

// COSINE refuses vectors of zeros: gives them a direction.
void AvoidZeros(int64_t d, std::vector<float>& vectors) {
  for (size_t i = 0; i < vectors.size(); i += static_cast<size_t>(d)) {
    const auto begin = vectors.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::all_of(begin, begin + d, [](float v) { return v == 0; })) {
      vectors[i + i / static_cast<size_t>(d) % static_cast<size_t>(d)] = 1;
    }
  }
}

}  // namespace

RowsView CertifiedTestData::rows_view() const {
  return {rows.data(), static_cast<int64_t>(rows.size()) / d, d, d};
}

RowsView CertifiedTestData::queries_view() const {
  return {queries.data(), static_cast<int64_t>(queries.size()) / d, d, d};
}

const std::vector<std::string>& CertifiedTestKinds() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> all;
    for (const auto& [name, fill] : Kinds()) all.push_back(name);
    return all;
  }());
  return names;
}

CertifiedTestData MakeCertifiedTestData(const std::string& kind, Metric metric,
                                        int64_t n, int64_t m, int64_t d,
                                        std::mt19937_64& random) {
  CertifiedTestData data;
  data.kind = kind;
  data.d = d;
  data.rows.resize(static_cast<size_t>(n * d));
  data.queries.resize(static_cast<size_t>(m * d));
  for (const auto& [name, fill] : Kinds()) {
    if (name == kind) fill({data, n, m, random});
  }
  if (metric == Metric::kCosine) {
    AvoidZeros(d, data.rows);
    AvoidZeros(d, data.queries);
  }
  return data;
}

}  // namespace coterie
