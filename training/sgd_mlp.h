// The two halves of the MLP of training/sgd_model.h, up to the hidden
// activations and from them, over at most four rows at a time: what one process
// computes in turn and two stages of a pipeline on two machines.
//
// Values that cross the cut are float32, so both compute the same bits. Pure
// functions; any thread.

#ifndef COTERIE_TRAINING_SGD_MLP_H_
#define COTERIE_TRAINING_SGD_MLP_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "index/simd.h"
#include "training/sgd_kernels.h"
#include "training/sgd_model.h"

namespace coterie::internal_sgd {

const Kernels& KernelsFor(SimdTarget target);

// At most 4 rows of `all`, from `first` on, and as many to fetch meanwhile,
// `ahead` rows later. `all` has to stay.
struct RowGroup {
  RowGroup(absl::Span<const float* const> all, size_t first, size_t ahead = 4);
  const float* const* rows;
  const float* const* next;
  int count;
};

// Where a part's parameters are in the whole model's vector.
int64_t FrontParameters(const SgdModel& model);  // W1, b1: first
int64_t BackParameters(const SgdModel& model);   // W2, b2: after them

// activations[r][u] = float(relu(W1_u x_r + b1_u)), h a row.
// `front`: W1, b1.
void FrontForward(const SgdModel& model, const Kernels& kernels,
                  absl::Span<const double> front, const RowGroup& rows,
                  float* activations);

// Adds d loss / d (W1, b1) given `back_gradient` (h a row), the gradients with
// respect to the activations.
void FrontBackward(const SgdModel& model, const Kernels& kernels,
                   const RowGroup& rows, const float* activations,
                   const float* back_gradient, absl::Span<double> gradient);

// Outputs z of each row (C a row). `back`: W2, b2.
void BackOutputs(const SgdModel& model, const Kernels& kernels,
                 absl::Span<const double> back, const RowGroup& activations,
                 double* outputs);

// Adds loss, rows and rows predicted right to `sums`, and, unless its gradient
// is empty, d loss / d (W2, b2) to `gradient`; fills back_gradient (h a row).
void BackBackward(const SgdModel& model, const Kernels& kernels,
                  absl::Span<const double> back, const RowGroup& activations,
                  const double* labels, SgdSums& sums,
                  absl::Span<double> gradient, float* back_gradient);

// Outputs to probabilities, in place; returns log of the sum of e^z.
double Softmax(absl::Span<double> outputs);

// Adds the loss of a row whose outputs are z to `sums`, and turns z into
// d loss / d z.
void SoftmaxLoss(absl::Span<double> outputs, int64_t label, SgdSums& sums);

}  // namespace coterie::internal_sgd

#endif  // COTERIE_TRAINING_SGD_MLP_H_
