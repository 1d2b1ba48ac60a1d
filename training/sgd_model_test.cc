#include "training/sgd_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "training/sgd_kernels.h"
#include "training/sgd_math.h"
#include "training/sgd_mlp.h"
#include "training/sgd_rows.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

// n random rows with labels that the model takes, and parameters.
struct Problem {
  Problem(const SgdModel& m, int64_t n, uint64_t seed) : model(m) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    values.resize(static_cast<size_t>(n * m.dimension));
    for (float& v : values) v = static_cast<float>(normal(random));
    for (int64_t i = 0; i < n; ++i) {
      rows.push_back(values.data() + i * m.dimension);
      if (m.kind == SgdModelKind::kLinear) {
        labels.push_back(normal(random));
      } else if (m.kind == SgdModelKind::kLogistic) {
        labels.push_back(random() % 2 == 0 ? 1 : -1);
      } else {
        labels.push_back(
            static_cast<double>(random() % static_cast<uint64_t>(m.classes)));
      }
    }
    parameters.resize(static_cast<size_t>(SgdParameters(m)));
    for (double& w : parameters) w = 0.5 * normal(random);
  }

  SgdSums Sums(SimdTarget target = ActiveSimdTarget()) const {
    SgdSums sums;
    sums.gradient.resize(parameters.size());
    AddSgdSums(model, parameters, rows, labels, sums, target);
    return sums;
  }

  double Loss(const std::vector<double>& at) const {
    SgdSums sums;
    AddSgdSums(model, at, rows, labels, sums);
    return sums.loss;
  }

  SgdModel model;
  std::vector<float> values;
  std::vector<const float*> rows;
  std::vector<double> labels;
  std::vector<double> parameters;
};

SgdModel Model(SgdModelKind kind, int64_t d, bool intercept = false) {
  SgdModel model;
  model.kind = kind;
  model.dimension = d;
  model.intercept = intercept;
  if (kind == SgdModelKind::kSoftmax || kind == SgdModelKind::kMlp) {
    model.classes = 3;
  }
  if (kind == SgdModelKind::kMlp) model.hidden = 5;
  return model;
}

std::vector<SgdModel> AllModels() {
  std::vector<SgdModel> models;
  for (SgdModelKind kind : {SgdModelKind::kLinear, SgdModelKind::kLogistic,
                            SgdModelKind::kSoftmax, SgdModelKind::kMlp}) {
    for (int64_t d : {1, 3, 8, 13, 20, 31, 59}) {
      models.push_back(Model(kind, d, d % 2 == 1));
    }
  }
  return models;
}

// The definition, with the C library's functions in long double.
long double SlowLoss(const Problem& p, int64_t i) {
  const SgdModel& m = p.model;
  const auto affine = [](const double* w, double bias, auto x, int64_t d) {
    long double z = bias;
    for (int64_t j = 0; j < d; ++j) z += static_cast<long double>(w[j]) * x[j];
    return z;
  };
  std::vector<double> input(p.rows[i], p.rows[i] + m.dimension);
  const double* w = p.parameters.data();
  int64_t in = m.dimension;
  bool bias = m.intercept;
  if (m.kind == SgdModelKind::kMlp) {
    std::vector<double> hidden;
    for (int64_t u = 0; u < m.hidden; ++u) {
      const long double z =
          affine(w + u * in, w[m.hidden * in + u], input.data(), in);
      hidden.push_back(static_cast<float>(std::max(z, 0.0L)));
    }
    w += m.hidden * (in + 1);
    in = m.hidden;
    input = hidden;
    bias = true;
  }
  std::vector<long double> z;
  for (int64_t c = 0; c < SgdOutputs(m); ++c) {
    z.push_back(affine(w + c * in, bias ? w[SgdOutputs(m) * in + c] : 0.0,
                       input.data(), in));
  }
  const double y = p.labels[i];
  if (m.kind == SgdModelKind::kLinear) return (z[0] - y) * (z[0] - y) / 2;
  if (m.kind == SgdModelKind::kLogistic) return std::log1p(std::exp(-y * z[0]));
  long double sum = 0;
  for (long double v : z) sum += std::exp(v);
  return std::log(sum) - z[static_cast<size_t>(y)];
}

TEST(SgdModel, LossIsTheDefinition) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  for (const SgdModel& model : AllModels()) {
    const Problem p(model, 37, TestSeed());
    long double loss = 0;
    for (int64_t i = 0; i < 37; ++i) loss += SlowLoss(p, i);
    EXPECT_NEAR(p.Sums().loss / static_cast<double>(loss), 1, 1e-12);
    EXPECT_EQ(p.Sums().rows, 37);
  }
}

TEST(SgdModel, GradientIsTheSlopeOfTheLoss) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  for (const SgdModel& model : AllModels()) {
    const Problem p(model, 21, TestSeed() + 1);
    const std::vector<double> gradient = p.Sums().gradient;
    // Hidden activations are float32, so the MLP's loss has steps of 1e-7.
    const double h = model.kind == SgdModelKind::kMlp ? 1e-4 : 1e-5;
    const double tolerance = model.kind == SgdModelKind::kMlp ? 2e-2 : 1e-6;
    double size = 1;
    for (double g : gradient) size = std::max(size, std::abs(g));
    for (size_t j = 0; j < gradient.size(); ++j) {
      std::vector<double> at = p.parameters;
      at[j] += h;
      const double above = p.Loss(at);
      at[j] -= 2 * h;
      EXPECT_NEAR(gradient[j], (above - p.Loss(at)) / (2 * h), tolerance * size)
          << "parameter " << j;
    }
  }
}

TEST(SgdModel, EveryTargetAndGroupingGivesTheSameBits) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  for (const SgdModel& model : AllModels()) {
    const Problem p(model, 23, TestSeed() + 2);
    const SgdSums scalar = p.Sums(SimdTarget::kScalar);
    for (SimdTarget target : SupportedSimdTargets()) {
      const SgdSums sums = p.Sums(target);
      EXPECT_EQ(sums.gradient, scalar.gradient);
      EXPECT_EQ(sums.loss, scalar.loss);
      SgdSums apart;
      apart.gradient.resize(p.parameters.size());
      const absl::Span<const float* const> rows(p.rows);
      const absl::Span<const double> labels(p.labels);
      for (size_t at = 0; at < rows.size(); at += 1 + at % 3) {
        const size_t count = std::min(1 + at % 3, rows.size() - at);
        AddSgdSums(model, p.parameters, rows.subspan(at, count),
                   labels.subspan(at, count), apart, target);
      }
      EXPECT_EQ(apart.gradient, scalar.gradient);
      EXPECT_EQ(apart.correct, scalar.correct);
      EXPECT_NEAR(apart.loss, scalar.loss, 1e-13 * scalar.loss);
    }
  }
}

// Bit by bit, but that any NaN is like another.
void ExpectSameBits(double a, double b, double margin) {
  if (std::isnan(a) && std::isnan(b)) return;
  EXPECT_EQ(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b)) << margin;
}

TEST(SgdModel, EveryTargetGivesTheSameBitsForAnyMargin) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  constexpr int kRows = internal_sgd::kLogisticRows;
  std::mt19937_64 random(TestSeed());
  std::vector<double> margins = {0.0,   1e-320, 1e-300, 0x1p-53, 1,    36.7,
                                 707.9, 708,    708.1,  745.2,   1e308};
  margins.push_back(std::numeric_limits<double>::infinity());
  for (int i = 0; i < 1000; ++i) {
    margins.push_back(std::exponential_distribution<>(0.01)(random));
  }
  for (size_t i = margins.size(); i-- > 0;) margins.push_back(-margins[i]);
  margins.push_back(std::nan(""));
  for (size_t at = 0; at < margins.size(); ++at) {
    // One to sixteen rows, of all signs of labels.
    const int count = 1 + static_cast<int>(at % kRows);
    double z[kRows] = {}, labels[kRows] = {};
    for (int r = 0; r < count; ++r) {
      z[r] = margins[(at + static_cast<size_t>(r)) % margins.size()];
      labels[r] = static_cast<double>(static_cast<int>(random() % 3) - 1);
    }
    double factor[kRows], linear[kRows], growth[kRows];
    internal_sgd::kScalarKernels.logistic(z, labels, count, factor, linear,
                                          growth);
    for (SimdTarget target : SupportedSimdTargets()) {
      double factors[kRows], linears[kRows], growths[kRows];
      internal_sgd::KernelsFor(target).logistic(z, labels, count, factors,
                                                linears, growths);
      for (int r = 0; r < count; ++r) {
        ExpectSameBits(factors[r], factor[r], z[r]);
        ExpectSameBits(linears[r], linear[r], z[r]);
        ExpectSameBits(growths[r], growth[r], z[r]);
      }
    }
  }
}

TEST(SgdModel, RowFactorIsTheGradientOfARow) {
  for (SgdModelKind kind : {SgdModelKind::kLinear, SgdModelKind::kLogistic}) {
    Problem p(Model(kind, 11, true), 1, TestSeed());
    double loss = 0;
    const double factor =
        SgdRowFactor(p.model, p.parameters, p.rows[0], p.labels[0], loss);
    const SgdSums sums = p.Sums();
    EXPECT_NEAR(loss, sums.loss, 1e-15);
    for (size_t j = 0; j < 11; ++j) {
      EXPECT_EQ(sums.gradient[j], factor * static_cast<double>(p.rows[0][j]));
    }
    EXPECT_EQ(sums.gradient[11], factor);
  }
}

TEST(SgdModel, ExtremeMarginsNeitherOverflowNorVanish) {
  const SgdModel model = Model(SgdModelKind::kLogistic, 1);
  const float x = 1;
  const std::vector<const float*> rows = {&x};
  for (double z : {0.0, 1e-9, 20.0, 40.0, 800.0, 1e30}) {
    for (double y : {1.0, -1.0}) {
      SgdSums sums;
      sums.gradient.resize(1);
      AddSgdSums(model, {z}, rows, {y}, sums);
      const long double m = static_cast<long double>(y) * z;
      const long double truth =
          m < 0 ? -m + std::log1p(std::exp(m)) : std::log1p(std::exp(-m));
      EXPECT_NEAR(sums.loss, static_cast<double>(truth),
                  1e-15 * (1 + std::abs(sums.loss)));
      double out = 0;
      PredictSgd(model, {z}, {x}, absl::MakeSpan(&out, 1));
      EXPECT_NEAR(out, 1 / (1 + std::exp(-z)), 1e-15);
      EXPECT_NEAR(sums.gradient[0], out - (y > 0), 1e-15);
    }
  }
}

TEST(SgdModel, ExpAndLogAreAccurate) {
  for (double x = -708; x <= 709; x += 0.37) {
    EXPECT_NEAR(SgdExp(x) / std::exp(x), 1, 0x1p-50) << x;
  }
  EXPECT_EQ(SgdExp(0), 1);
  for (double x = 1e-300; x < 1e300; x *= 1.7) {
    EXPECT_NEAR(SgdLog(x), std::log(x), 0x1p-50 * (1 + std::abs(std::log(x))));
  }
  EXPECT_EQ(SgdLog(1), 0);
}

TEST(SgdModel, PenaltySparesIntercepts) {
  SgdModel model = Model(SgdModelKind::kLinear, 2, true);
  model.l2 = 2;
  model.l1 = 3;
  const std::vector<double> w = {1, -4, 100};
  EXPECT_DOUBLE_EQ(SgdPenalty(model, w), 17 + 15);
  std::vector<double> gradient(3);
  AddSgdWeights(model, w, 2, absl::MakeSpan(gradient));
  EXPECT_THAT(gradient, testing::ElementsAre(2, -8, 0));
  std::vector<double> shrunk = w;
  ShrinkSgdWeights(model, 0.5, absl::MakeSpan(shrunk));
  EXPECT_THAT(shrunk, testing::ElementsAre(0, -2.5, 100));
}

TEST(SgdModel, ProbabilitiesAddUpToOne) {
  for (SgdModelKind kind : {SgdModelKind::kSoftmax, SgdModelKind::kMlp}) {
    const Problem p(Model(kind, 6), 4, TestSeed());
    std::vector<double> out(3);
    PredictSgd(p.model, p.parameters, VectorView(p.rows[0], 6),
               absl::MakeSpan(out));
    EXPECT_NEAR(out[0] + out[1] + out[2], 1, 1e-15);
    const double y = p.labels[0];
    SgdSums sums;
    AddSgdSums(p.model, p.parameters, {p.rows[0]}, {y}, sums);
    EXPECT_NEAR(-std::log(out[static_cast<size_t>(y)]), sums.loss, 1e-13);
  }
}

TEST(SgdModel, InfinitiesAreFound) {
  Problem p(Model(SgdModelKind::kLogistic, 4), 5, TestSeed());
  p.parameters[2] = std::numeric_limits<double>::quiet_NaN();
  const SgdSums sums = p.Sums();
  EXPECT_EQ(FindNonFinite(sums.gradient), 0);
  EXPECT_FALSE(std::isfinite(sums.loss));
  EXPECT_EQ(FindNonFinite({1, 2, std::numeric_limits<double>::infinity()}), 2);
  EXPECT_EQ(FindNonFinite({1, 2}), -1);
  for (SgdModelKind kind : {SgdModelKind::kSoftmax, SgdModelKind::kMlp}) {
    Problem bad(Model(kind, 4), 5, TestSeed());
    bad.parameters[0] = std::numeric_limits<double>::infinity();
    EXPECT_GE(FindNonFinite(bad.Sums().gradient), 0);
  }
}

TEST(SgdModel, BadFieldsAndLabelsAreNamed) {
  const auto message = [](const SgdModel& model) {
    return std::string(ValidateSgdModel(model).message());
  };
  SgdModel model = Model(SgdModelKind::kLogistic, 0);
  EXPECT_THAT(message(model), HasSubstr("dimension is 0"));
  model.dimension = 3;
  EXPECT_TRUE(ValidateSgdModel(model).ok());
  model.classes = 2;
  EXPECT_THAT(message(model), HasSubstr("classes is 2"));
  model = Model(SgdModelKind::kLogistic, 3);
  model.l2 = -1;
  EXPECT_THAT(message(model), HasSubstr("l2 is -1"));
  model = Model(SgdModelKind::kMlp, 16'384);
  model.hidden = 65'536;
  EXPECT_THAT(message(model), HasSubstr("number of parameters"));
  EXPECT_FALSE(CheckSgdLabel(Model(SgdModelKind::kLogistic, 1), 2).ok());
  EXPECT_FALSE(CheckSgdLabel(Model(SgdModelKind::kSoftmax, 1), 3).ok());
  EXPECT_FALSE(CheckSgdLabel(Model(SgdModelKind::kSoftmax, 1), 0.5).ok());
  EXPECT_FALSE(
      CheckSgdLabel(Model(SgdModelKind::kSoftmax, 1), std::nan("")).ok());
  EXPECT_TRUE(CheckSgdLabel(Model(SgdModelKind::kSoftmax, 1), 2).ok());
  EXPECT_FALSE(
      CheckSgdLabel(Model(SgdModelKind::kLinear, 1), std::nan("")).ok());
}

TEST(SgdRows, AreOrderedByWorkerAndIdWhereverTheyAreStored) {
  const SgdModel model = Model(SgdModelKind::kLinear, 1);
  const std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<PointId> ids = {70, 3, 11, 5, 1, 90, 2, 8};
  const std::vector<double> labels = {0, 1, 2, 3, 4, 5, 6, 7};
  const uint64_t live[1] = {0xfe};  // not the first
  SgdSplit split;
  split.workers = 3;
  const SgdBlockOfRows whole = {
      {values.data(), 8, 1, 1}, ids.data(), labels.data(), live};
  const auto rows = SgdRows::Create(model, split, {whole});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->end(3), 7);
  for (int32_t w = 0; w < 3; ++w) {
    for (int64_t i = rows->begin(w); i < rows->end(w); ++i) {
      EXPECT_EQ(*rows->row(i), static_cast<float>(rows->label(i)));
      EXPECT_EQ(ids[static_cast<size_t>(rows->label(i))], rows->id(i));
      if (i > rows->begin(w)) {
        EXPECT_LT(rows->id(i - 1), rows->id(i));
      }
    }
  }
  EXPECT_EQ(rows->max_squared_norm(), 49);
  const auto twice = SgdRows::Create(model, split, {whole, whole});
  EXPECT_THAT(std::string(twice.status().message()), HasSubstr("twice"));
}

TEST(SgdRows, HeldOutRowsAreTheSameForAnyWorkers) {
  const SgdModel model = Model(SgdModelKind::kLinear, 1);
  const std::vector<float> values(1000, 1.0F);
  std::vector<PointId> ids(1000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i * i;
  const std::vector<double> labels(1000);
  std::vector<std::vector<PointId>> held;
  for (int32_t workers : {1, 4, 9}) {
    const auto rows = SgdRows::Create(
        model, {workers, 7, 0.2},
        {{{values.data(), 1000, 1, 1}, ids.data(), labels.data(), nullptr}});
    ASSERT_TRUE(rows.ok());
    held.emplace_back();
    for (int64_t i = rows->begin(workers); i < rows->end(workers); ++i) {
      held.back().push_back(rows->id(i));
    }
  }
  EXPECT_EQ(held[0], held[1]);
  EXPECT_EQ(held[0], held[2]);
  EXPECT_NEAR(static_cast<double>(held[0].size()), 200, 50);
}

}  // namespace
}  // namespace coterie
