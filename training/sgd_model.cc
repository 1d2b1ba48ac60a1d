#include "training/sgd_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "index/distance.h"
#include "training/draw.h"
#include "training/sgd_draw.h"
#include "training/sgd_kernels.h"
#include "training/sgd_math.h"
#include "training/sgd_mlp.h"

namespace coterie {
namespace {

using internal_sgd::Kernels;
using internal_sgd::KernelsFor;
using internal_sgd::kLogisticRows;
using internal_sgd::RowGroup;

constexpr int64_t kMaxWidth = 65'536;

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is ", value, "; must be in [", low, ", ", high, "]"));
}

absl::Status CheckWeight(absl::string_view name, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, "; must be finite and >= 0"));
}

bool HasClasses(const SgdModel& model) {
  return model.kind == SgdModelKind::kSoftmax ||
         model.kind == SgdModelKind::kMlp;
}

// Runs of parameters that are weights: the first, and for the MLP W2.
template <typename Body>
void ForWeights(const SgdModel& model, Body body) {
  if (model.kind != SgdModelKind::kMlp) {
    const int64_t outputs = SgdOutputs(model);
    body(int64_t{0}, outputs * model.dimension);
    return;
  }
  const int64_t front = internal_sgd::FrontParameters(model);
  body(int64_t{0}, model.hidden * model.dimension);
  body(front, front + model.classes * model.hidden);
}

// Losses and factors of kLinear for rows that came to z; a row's gradient is
// its factor times (x, 1).
void LinearFactors(const double* z, const double* labels, int count,
                   double* factor, SgdSums& sums) {
  for (int r = 0; r < count; ++r) {
    factor[r] = z[r] - labels[r];
    sums.loss += 0.5 * factor[r] * factor[r];
  }
}

// The same of kLogistic. The logarithms of a run of rows are those of one
// product: `product` takes 1 + e^-|m| of each row, which is at most 2.
void LogisticFactors(const Kernels& kernels, const double* z,
                     const double* labels, int count, double* factor,
                     double& product, SgdSums& sums) {
  double linear[kLogisticRows], growth[kLogisticRows];
  kernels.logistic(z, labels, count, factor, linear, growth);
  double loss = sums.loss;
  for (int r = 0; r < count; ++r) {
    loss += linear[r];
    product *= growth[r];
    // One row at a time, whatever the grouping of calls.
    if (product > 0x1p900) {
      loss += SgdLog(product);
      product = 1;
    }
    sums.correct += labels[r] > 0 ? z[r] > 0 : z[r] < 0;
  }
  sums.loss = loss;
}

// kLinear and kLogistic.
void AddOneOutput(const SgdModel& model, const Kernels& kernels,
                  absl::Span<const double> w,
                  absl::Span<const float* const> rows,
                  absl::Span<const double> labels, SgdSums& sums) {
  const int64_t d = model.dimension;
  // Rows that stay in the first-level cache for the second time that they are
  // read, beside 16 KiB fetched for later; at least four, for which weights and
  // sums are read once.
  const size_t tile =
      static_cast<size_t>(std::clamp<int64_t>(4096 / d, 4, kLogisticRows));
  const size_t ahead =
      static_cast<size_t>(std::clamp<int64_t>(4096 / d, 1, 64));
  double z[kLogisticRows] = {}, label[kLogisticRows] = {};
  double factor[kLogisticRows], product = 1;
  for (size_t first = 0; first < rows.size(); first += tile) {
    const size_t size = std::min(tile, rows.size() - first);
    const int count = static_cast<int>(size);
    const float* const* group = &rows[first];
    kernels.dots(w.data(), group,
                 &rows[std::min(first + ahead, rows.size() - size)], count, d,
                 z);
    for (size_t r = 0; r < size; ++r) {
      if (model.intercept) z[r] += w[static_cast<size_t>(d)];
      label[r] = labels[first + r];
    }
    if (model.kind == SgdModelKind::kLinear) {
      LinearFactors(z, label, count, factor, sums);
    } else {
      LogisticFactors(kernels, z, label, count, factor, product, sums);
    }
    sums.rows += count;
    if (sums.gradient.empty()) continue;
    kernels.add(factor, group, count, d, sums.gradient.data());
    for (size_t r = 0; model.intercept && r < size; ++r) {
      sums.gradient[static_cast<size_t>(d)] += factor[r];
    }
  }
  // NaN goes on.
  sums.loss += product == product ? SgdLog(product) : product;
}

void AddSoftmax(const SgdModel& model, const Kernels& kernels,
                absl::Span<const double> w, const RowGroup& rows,
                const double* labels, std::vector<double>& outputs,
                SgdSums& sums) {
  const int64_t d = model.dimension;
  const int64_t classes = model.classes;
  const double* bias = model.intercept ? w.data() + classes * d : nullptr;
  for (int64_t c = 0; c < classes; ++c) {
    double z[4];
    kernels.dots(w.data() + c * d, rows.rows, c == 0 ? rows.next : rows.rows,
                 rows.count, d, z);
    for (int r = 0; r < rows.count; ++r) {
      outputs[static_cast<size_t>(r * classes + c)] =
          z[r] + (bias != nullptr ? bias[c] : 0.0);
    }
  }
  for (int r = 0; r < rows.count; ++r) {
    internal_sgd::SoftmaxLoss(absl::MakeSpan(outputs.data() + r * classes,
                                             static_cast<size_t>(classes)),
                              static_cast<int64_t>(labels[r]), sums);
  }
  if (sums.gradient.empty()) return;
  for (int64_t c = 0; c < classes; ++c) {
    double factor[4] = {};
    for (int r = 0; r < rows.count; ++r) {
      factor[r] = outputs[static_cast<size_t>(r * classes + c)];
      if (bias != nullptr) {
        sums.gradient[static_cast<size_t>(classes * d + c)] += factor[r];
      }
    }
    kernels.add(factor, rows.rows, rows.count, d, sums.gradient.data() + c * d);
  }
}

void AddMlp(const SgdModel& model, const Kernels& kernels,
            absl::Span<const double> w, const RowGroup& rows,
            const double* labels, SgdSums& sums) {
  const size_t front =
      static_cast<size_t>(internal_sgd::FrontParameters(model));
  const size_t h = static_cast<size_t>(model.hidden);
  std::vector<float> activations(4 * h);
  std::vector<float> back(4 * h);
  internal_sgd::FrontForward(model, kernels, w.first(front), rows,
                             activations.data());
  std::vector<const float*> hidden;
  for (int r = 0; r < rows.count; ++r) {
    hidden.push_back(activations.data() + static_cast<size_t>(r) * h);
  }
  const RowGroup group(hidden, 0);
  const absl::Span<double> gradient = absl::MakeSpan(sums.gradient);
  const bool wanted = !gradient.empty();
  internal_sgd::BackBackward(model, kernels, w.subspan(front), group, labels,
                             sums, wanted ? gradient.subspan(front) : gradient,
                             back.data());
  if (wanted) {
    internal_sgd::FrontBackward(model, kernels, rows, activations.data(),
                                back.data(), gradient.first(front));
  }
}

}  // namespace

absl::Status ValidateSgdModel(const SgdModel& model) {
  if (model.kind < SgdModelKind::kLinear || model.kind > SgdModelKind::kMlp) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model kind ", static_cast<int>(model.kind), " is not known"));
  }
  const bool classes = HasClasses(model);
  const bool mlp = model.kind == SgdModelKind::kMlp;
  for (const absl::Status& s :
       {CheckRange("dimension", model.dimension, 1, kMaxDimension),
        CheckRange("classes", model.classes, classes ? 2 : 0,
                   classes ? kMaxWidth : 0),
        CheckRange("hidden", model.hidden, mlp ? 1 : 0, mlp ? kMaxWidth : 0),
        CheckWeight("l2", model.l2), CheckWeight("l1", model.l1)}) {
    if (!s.ok()) return s;
  }
  return CheckRange("number of parameters", SgdParameters(model), 1,
                    kMaxSgdParameters);
}

int64_t SgdParameters(const SgdModel& model) {
  if (model.kind == SgdModelKind::kMlp) {
    return internal_sgd::FrontParameters(model) +
           internal_sgd::BackParameters(model);
  }
  return SgdOutputs(model) * (model.dimension + (model.intercept ? 1 : 0));
}

int64_t SgdOutputs(const SgdModel& model) {
  return HasClasses(model) ? model.classes : 1;
}

absl::Status CheckSgdLabel(const SgdModel& model, double label) {
  if (HasClasses(model)) {
    if (label >= 0 && label < static_cast<double>(model.classes) &&
        label == std::floor(label)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("label is ", label, "; must be an integer in [0, ",
                     model.classes, ")"));
  }
  if (model.kind == SgdModelKind::kLogistic) {
    if (label == 1 || label == -1 || label == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("label is ", label, "; must be 1, -1 or 0"));
  }
  if (std::isfinite(label)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("label is ", label, "; must be finite"));
}

void AddSgdSums(const SgdModel& model, absl::Span<const double> parameters,
                absl::Span<const float* const> rows,
                absl::Span<const double> labels, SgdSums& sums,
                SimdTarget target) {
  const Kernels& kernels = KernelsFor(target);
  if (model.kind == SgdModelKind::kLinear ||
      model.kind == SgdModelKind::kLogistic) {
    AddOneOutput(model, kernels, parameters, rows, labels, sums);
    return;
  }
  std::vector<double> outputs(static_cast<size_t>(4 * SgdOutputs(model)));
  for (size_t i = 0; i < rows.size(); i += 4) {
    const RowGroup group(rows, i);
    if (model.kind == SgdModelKind::kSoftmax) {
      AddSoftmax(model, kernels, parameters, group, &labels[i], outputs, sums);
    } else {
      AddMlp(model, kernels, parameters, group, &labels[i], sums);
    }
  }
}

double SgdRowFactor(const SgdModel& model, absl::Span<const double> parameters,
                    const float* row, double label, double& loss) {
  const Kernels& kernels = KernelsFor(ActiveSimdTarget());
  double z[kLogisticRows] = {};
  kernels.dots(parameters.data(), &row, &row, 1, model.dimension, z);
  if (model.intercept) z[0] += parameters.back();
  if (model.kind == SgdModelKind::kLinear) {
    const double factor = z[0] - label;
    loss += 0.5 * factor * factor;
    return factor;
  }
  const double labels[kLogisticRows] = {label};
  double factor[kLogisticRows], linear[kLogisticRows], growth[kLogisticRows];
  kernels.logistic(z, labels, 1, factor, linear, growth);
  loss += linear[0] + SgdLog(growth[0]);
  return factor[0];
}

void AddSgdWeights(const SgdModel& model, absl::Span<const double> parameters,
                   double factor, absl::Span<double> out) {
  if (factor == 0) return;
  ForWeights(model, [&](int64_t begin, int64_t end) {
    for (size_t j = static_cast<size_t>(begin); j < static_cast<size_t>(end);
         ++j) {
      out[j] += factor * parameters[j];
    }
  });
}

double SgdPenalty(const SgdModel& model, absl::Span<const double> parameters) {
  double squares = 0, sizes = 0;
  ForWeights(model, [&](int64_t begin, int64_t end) {
    for (size_t j = static_cast<size_t>(begin); j < static_cast<size_t>(end);
         ++j) {
      squares += parameters[j] * parameters[j];
      sizes += std::abs(parameters[j]);
    }
  });
  return 0.5 * model.l2 * squares + model.l1 * sizes;
}

void ShrinkSgdWeights(const SgdModel& model, double step,
                      absl::Span<double> parameters) {
  const double by = step * model.l1;
  if (by == 0) return;
  ForWeights(model, [&](int64_t begin, int64_t end) {
    for (size_t j = static_cast<size_t>(begin); j < static_cast<size_t>(end);
         ++j) {
      double& w = parameters[j];
      w = w > by ? w - by : w < -by ? w + by : 0.0;
    }
  });
}

void PredictSgd(const SgdModel& model, absl::Span<const double> parameters,
                VectorView row, absl::Span<double> out) {
  const float* const rows[1] = {row.data()};
  const RowGroup group(rows, 0);
  const Kernels& kernels = KernelsFor(ActiveSimdTarget());
  if (model.kind == SgdModelKind::kMlp) {
    const size_t front =
        static_cast<size_t>(internal_sgd::FrontParameters(model));
    std::vector<float> hidden(static_cast<size_t>(model.hidden));
    internal_sgd::FrontForward(model, kernels, parameters.first(front), group,
                               hidden.data());
    const float* const activations[1] = {hidden.data()};
    internal_sgd::BackOutputs(model, kernels, parameters.subspan(front),
                              RowGroup(activations, 0), out.data());
    internal_sgd::Softmax(out);
    return;
  }
  const int64_t outputs = SgdOutputs(model);
  for (int64_t c = 0; c < outputs; ++c) {
    double& z = out[static_cast<size_t>(c)];
    kernels.dots(parameters.data() + c * model.dimension, rows, rows, 1,
                 model.dimension, &z);
    if (model.intercept) {
      z += parameters[static_cast<size_t>(outputs * model.dimension + c)];
    }
  }
  if (model.kind == SgdModelKind::kSoftmax) internal_sgd::Softmax(out);
  if (model.kind == SgdModelKind::kLogistic) {
    const double z = out[0];
    const double rest = z == z ? SgdExp(-std::abs(z)) : z;
    out[0] = (z < 0 ? rest : 1.0) / (1 + rest);
  }
}

std::vector<double> InitialSgdParameters(const SgdModel& model, uint64_t seed) {
  std::vector<double> w(static_cast<size_t>(SgdParameters(model)));
  if (model.kind != SgdModelKind::kMlp) return w;
  ForWeights(model, [&](int64_t begin, int64_t end) {
    const int64_t in = begin == 0 ? model.dimension : model.hidden;
    const int64_t out = begin == 0 ? model.hidden : model.classes;
    const double range = std::sqrt(6.0 / static_cast<double>(in + out));
    for (int64_t j = begin; j < end; ++j) {
      const uint64_t hash =
          SgdHash(SgdDraw::kStart, {seed, static_cast<uint64_t>(j)});
      w[static_cast<size_t>(j)] = range * (2 * UniformOf(hash) - 1);
    }
  });
  return w;
}

double SgdCurvature(const SgdModel& model) {
  switch (model.kind) {
    case SgdModelKind::kLinear:
      return 1;
    case SgdModelKind::kLogistic:
      return 0.25;
    case SgdModelKind::kSoftmax:
      return 0.5;
    case SgdModelKind::kMlp:
      break;
  }
  return 0;
}

int64_t FindNonFinite(absl::Span<const double> values) {
  const auto at = std::find_if(values.begin(), values.end(),
                               [](double v) { return !std::isfinite(v); });
  return at == values.end() ? -1 : at - values.begin();
}

}  // namespace coterie
