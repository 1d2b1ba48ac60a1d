// Models that SGD trains: losses, gradients and predictions over dense float32
// rows. Pure functions of their arguments; any thread.
//
// With z = W x + c, d = dimension, C = classes, h = hidden:
//
//   kLinear    one output; loss (z - y)^2 / 2
//   kLogistic  one output; loss log(1 + e^-yz), y = +1 or -1 (label 0 is -1)
//   kSoftmax   C outputs;  loss -log of the probability of class y
//   kMlp       z = W2 relu(W1 x + b1) + b2, loss as kSoftmax
//
// Parameters, one vector of doubles: W row after row (C x d; 1 x d), then with
// `intercept` c (C); for the MLP W1 (h x d), b1 (h), W2 (C x h), b2 (C). The
// objective over N rows is
//
//   f = (1/N) sum of losses + l2/2 |W|^2 + l1 |W|_1
//
// over weights alone, not c, b1, b2. l2 is part of every row's loss in what
// theory says of workers; l1 is for a proximal step.
//
// Sums, not means, are gathered, in double, rows added one after the other in
// the order given, so that a result depends on that order alone: not on SIMD
// target or, but for rounding of the loss of kLogistic, how calls group rows.
// Dot products add in the lane order of the canonical distance. Under kMlp
// hidden activations and the gradients that come back to them are rounded to
// float32, which is how they cross a cut between machines
// (training/sgd_pipeline.h): one process computes the same bits.
//
// Error: each sum over N rows at most N 2^-53 relative to the sum of absolute
// terms, plus 2^-48 of each term. The loss of kLogistic has an absolute error
// of at most 2^-52 (1 + loss) a row.
// Overflow gives infinities or NaN, which FindNonFinite finds; nothing is
// undefined. d = 0 is refused.

#ifndef COTERIE_TRAINING_SGD_MODEL_H_
#define COTERIE_TRAINING_SGD_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "index/simd.h"
#include "index/vectors.h"

namespace coterie {

enum class SgdModelKind : uint8_t {
  kLinear = 1,
  kLogistic = 2,
  kSoftmax = 3,
  kMlp = 4,
};

struct SgdModel {
  SgdModelKind kind = SgdModelKind::kLogistic;
  int64_t dimension = 0;   // d, 1 to kMaxDimension
  int64_t classes = 0;     // C for kSoftmax and kMlp: 2 to 65,536
  int64_t hidden = 0;      // h for kMlp: 1 to 65,536
  bool intercept = false;  // c; the MLP always has b1 and b2
  double l2 = 0;           // >= 0, finite
  double l1 = 0;           // >= 0, finite

  friend bool operator==(const SgdModel&, const SgdModel&) = default;
};

// Largest number of parameters: 2^27, 1 GiB of doubles.
inline constexpr int64_t kMaxSgdParameters = int64_t{1} << 27;

// INVALID_ARGUMENT naming the field, its value and its range.
absl::Status ValidateSgdModel(const SgdModel& model);

// REQUIRES, here and below: a valid model.
int64_t SgdParameters(const SgdModel& model);

// Outputs of a prediction: 1, or C.
int64_t SgdOutputs(const SgdModel& model);

// INVALID_ARGUMENT unless the label is finite (kLinear), 1, -1 or 0
// (kLogistic), an integer in [0, C) (kSoftmax, kMlp).
absl::Status CheckSgdLabel(const SgdModel& model, double label);

// What rows add up to.
struct SgdSums {
  int64_t rows = 0;
  double loss = 0;  // without l1 and l2
  // Rows predicted right; for kLinear 0.
  int64_t correct = 0;
  // Without l1 and l2; SgdParameters(model) values, or empty: not wanted.
  std::vector<double> gradient;
};

// Adds rows[i] with labels[i], in order of i. REQUIRES: parameters has
// SgdParameters(model) values, rows have d, labels pass CheckSgdLabel.
// O(rows x parameters); each row is read from memory once. `target` is for
// tests.
void AddSgdSums(const SgdModel& model, absl::Span<const double> parameters,
                absl::Span<const float* const> rows,
                absl::Span<const double> labels, SgdSums& sums,
                SimdTarget target = ActiveSimdTarget());

// kLinear and kLogistic: a row's gradient is this times (x, 1). Adds its loss.
double SgdRowFactor(const SgdModel& model, absl::Span<const double> parameters,
                    const float* row, double label, double& loss);

// out[j] += factor W[j], for weights; 0 for the others: the gradient of l2.
void AddSgdWeights(const SgdModel& model, absl::Span<const double> parameters,
                   double factor, absl::Span<double> out);

// l2/2 |W|^2 + l1 |W|_1.
double SgdPenalty(const SgdModel& model, absl::Span<const double> parameters);

// The proximal step of `step` l1: weights move towards 0 by step * l1, at most
// to 0.
void ShrinkSgdWeights(const SgdModel& model, double step,
                      absl::Span<double> parameters);

// out: kLinear z; kLogistic the probability of +1; else C probabilities.
// REQUIRES: parameters and row as above, out has SgdOutputs(model) values.
void PredictSgd(const SgdModel& model, absl::Span<const double> parameters,
                VectorView row, absl::Span<double> out);

// Where to start: zeros, for the MLP uniform in +-sqrt(6 / (in + out)) by
// hashes of (seed, parameter) (Glorot and Bengio, AISTATS 2010), biases 0.
std::vector<double> InitialSgdParameters(const SgdModel& model, uint64_t seed);

// Smoothness in the rows: each row's loss has a gradient that is Lipschitz with
// at most curvature |x|^2 + l2, |x|^2 one more with an intercept. 1, 1/4, 1/2;
// 0 for kMlp, which has no such bound.
double SgdCurvature(const SgdModel& model);

// Index of the first value that is NaN or infinite, or -1.
int64_t FindNonFinite(absl::Span<const double> values);

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_MODEL_H_
