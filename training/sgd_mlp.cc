#include "training/sgd_mlp.h"

#include <algorithm>
#include <cstddef>

#include "training/sgd_math.h"

namespace coterie::internal_sgd {

const Kernels& KernelsFor(SimdTarget target) {
  switch (target) {
    case SimdTarget::kAvx512:
      return kAvx512Kernels;
    case SimdTarget::kAvx2:
      return kAvx2Kernels;
    case SimdTarget::kScalar:
      break;
  }
  return kScalarKernels;
}

RowGroup::RowGroup(absl::Span<const float* const> all, size_t first,
                   size_t ahead)
    : rows(&all[first]),
      count(static_cast<int>(std::min<size_t>(4, all.size() - first))) {
  next = &all[std::min(first + ahead, all.size() - static_cast<size_t>(count))];
}

int64_t FrontParameters(const SgdModel& model) {
  return model.hidden * model.dimension + model.hidden;
}

int64_t BackParameters(const SgdModel& model) {
  return model.classes * model.hidden + model.classes;
}

void FrontForward(const SgdModel& model, const Kernels& kernels,
                  absl::Span<const double> front, const RowGroup& rows,
                  float* activations) {
  const int64_t d = model.dimension;
  const double* bias = front.data() + model.hidden * d;
  for (int64_t u = 0; u < model.hidden; ++u) {
    double dot[4];
    kernels.dots(front.data() + u * d, rows.rows,
                 u == 0 ? rows.next : rows.rows, rows.count, d, dot);
    for (int r = 0; r < rows.count; ++r) {
      const double z = dot[r] + bias[u];
      // Written so that NaN goes on.
      activations[r * model.hidden + u] = static_cast<float>(z < 0 ? 0.0 : z);
    }
  }
}

void FrontBackward(const SgdModel& model, const Kernels& kernels,
                   const RowGroup& rows, const float* activations,
                   const float* back_gradient, absl::Span<double> gradient) {
  const int64_t d = model.dimension;
  double* bias = gradient.data() + model.hidden * d;
  for (int64_t u = 0; u < model.hidden; ++u) {
    double factor[4] = {};
    bool any = false;
    for (int r = 0; r < rows.count; ++r) {
      if (activations[r * model.hidden + u] == 0) continue;  // relu is flat
      factor[r] = static_cast<double>(back_gradient[r * model.hidden + u]);
      bias[u] += factor[r];
      any = true;
    }
    if (any)
      kernels.add(factor, rows.rows, rows.count, d, gradient.data() + u * d);
  }
}

void BackOutputs(const SgdModel& model, const Kernels& kernels,
                 absl::Span<const double> back, const RowGroup& activations,
                 double* outputs) {
  const int64_t h = model.hidden;
  const double* bias = back.data() + model.classes * h;
  for (int64_t c = 0; c < model.classes; ++c) {
    double dot[4];
    kernels.dots(back.data() + c * h, activations.rows, activations.rows,
                 activations.count, h, dot);
    for (int r = 0; r < activations.count; ++r) {
      outputs[r * model.classes + c] = dot[r] + bias[c];
    }
  }
}

double Softmax(absl::Span<double> outputs) {
  const double largest = *std::max_element(outputs.begin(), outputs.end());
  double sum = 0;
  for (double& z : outputs) {
    // NaN and differences of infinities are kept from SgdExp.
    const double shifted = z - largest;
    z = shifted == shifted ? SgdExp(shifted) : shifted;
    sum += z;
  }
  for (double& z : outputs) z /= sum;
  return sum == sum ? largest + SgdLog(sum) : sum;
}

void SoftmaxLoss(absl::Span<double> outputs, int64_t label, SgdSums& sums) {
  const auto best = std::max_element(outputs.begin(), outputs.end());
  if (best - outputs.begin() == label) ++sums.correct;
  const size_t right = static_cast<size_t>(label);
  const double z = outputs[right];
  sums.loss += Softmax(outputs) - z;
  ++sums.rows;
  outputs[right] -= 1;
}

void BackBackward(const SgdModel& model, const Kernels& kernels,
                  absl::Span<const double> back, const RowGroup& activations,
                  const double* labels, SgdSums& sums,
                  absl::Span<double> gradient, float* back_gradient) {
  const int64_t h = model.hidden;
  const int64_t classes = model.classes;
  std::vector<double> outputs(static_cast<size_t>(4 * classes));
  BackOutputs(model, kernels, back, activations, outputs.data());
  for (int r = 0; r < activations.count; ++r) {
    SoftmaxLoss(absl::MakeSpan(outputs.data() + r * classes,
                               static_cast<size_t>(classes)),
                static_cast<int64_t>(labels[r]), sums);
  }
  if (gradient.empty()) return;
  double* bias = gradient.data() + classes * h;
  std::vector<double> to_hidden(static_cast<size_t>(4 * h));
  for (int64_t c = 0; c < classes; ++c) {
    double factor[4] = {};
    for (int r = 0; r < activations.count; ++r) {
      factor[r] = outputs[static_cast<size_t>(r * classes + c)];
      bias[c] += factor[r];
      double* sum = to_hidden.data() + r * h;
      const double* w = back.data() + c * h;
      for (int64_t u = 0; u < h; ++u) sum[u] += factor[r] * w[u];
    }
    kernels.add(factor, activations.rows, activations.count, h,
                gradient.data() + c * h);
  }
  for (int64_t i = 0; i < activations.count * h; ++i) {
    back_gradient[i] = static_cast<float>(to_hidden[static_cast<size_t>(i)]);
  }
}

}  // namespace coterie::internal_sgd
