#include "training/kmeans_merge.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_messages.h"

namespace coterie {
namespace {

absl::Status Misfit(const KMeansPartial& partial, absl::string_view what,
                    double value) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "answer to k-means step %d of kind %d: %s (%g)", partial.number,
      static_cast<int>(partial.kind), what, value));
}

template <typename Values>
bool SizeIs(const Values& values, int64_t size) {
  return static_cast<int64_t>(values.size()) == size;
}

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](float v) { return std::isfinite(v); });
}

absl::Status CheckSums(const KMeansStep& step, int64_t k, int64_t d,
                       const KMeansPartial& partial) {
  int64_t rows = k;
  if (!partial.touched.empty()) {
    if (!SizeIs(partial.touched, k) ||
        partial.form != KMeansSumForm::kChanged) {
      return Misfit(partial, "flags of touched centres",
                    static_cast<double>(partial.touched.size()));
    }
    rows = std::count(partial.touched.begin(), partial.touched.end(), 1);
  }
  KMeansSumForm expected = step.form;
  if (step.base == 0 && expected == KMeansSumForm::kChanged) {
    expected = KMeansSumForm::kInt64;
  }
  if (step.kind == KMeansStepKind::kBatch ||
      step.kind == KMeansStepKind::kApply) {
    expected = KMeansSumForm::kChanged;
  }
  if (partial.form != expected) {
    return Misfit(partial, "form of sums", static_cast<double>(partial.form));
  }
  if (partial.form == KMeansSumForm::kFloat32) {
    if (!SizeIs(partial.float_sums, k * d) ||
        !SizeIs(partial.float_weights, k) || !AllFinite(partial.float_sums) ||
        !AllFinite(partial.float_weights)) {
      return Misfit(partial, "float sums",
                    static_cast<double>(partial.float_sums.size()));
    }
    return absl::OkStatus();
  }
  if (!SizeIs(partial.sums, rows * d) || !SizeIs(partial.weights, rows)) {
    return Misfit(partial, "number of sums",
                  static_cast<double>(partial.sums.size()));
  }
  if (partial.form == KMeansSumForm::kInt64 ||
      step.kind == KMeansStepKind::kBatch) {
    for (int64_t w : partial.weights) {
      if (w < 0) {
        return Misfit(partial, "weight of a centre", static_cast<double>(w));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPicks(const KMeansStep& step, int64_t k, int64_t d,
                        const KMeansPartial& partial) {
  const int64_t count = static_cast<int64_t>(partial.picks.size());
  const int64_t columns = step.kind == KMeansStepKind::kPropose ? 0 : d;
  if (!SizeIs(partial.pick_rows, count * columns) ||
      !AllFinite(partial.pick_rows)) {
    return Misfit(partial, "rows picked",
                  static_cast<double>(partial.pick_rows.size()));
  }
  if (step.kind != KMeansStepKind::kSample && count > step.count) {
    return Misfit(partial, "number of rows picked", static_cast<double>(count));
  }
  int64_t slots = 1;
  if (step.kind == KMeansStepKind::kDraw) slots = step.count;
  if (step.kind == KMeansStepKind::kFarthest ||
      step.kind == KMeansStepKind::kPropose) {
    slots = k;
  }
  for (const KMeansPick& pick : partial.picks) {
    if (pick.slot < 0 || pick.slot >= slots) {
      return Misfit(partial, "slot of a row", pick.slot);
    }
    if (!std::isfinite(pick.key) || !std::isfinite(pick.weight) ||
        pick.weight < 0) {
      return Misfit(partial, "key of a row", pick.key);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckToken(const KMeansStep& step, int64_t k, int64_t d,
                        const KMeansPartial& partial) {
  const KMeansToken& token = partial.token;
  const KMeansToken& sent = step.token;
  const bool valid =
      SizeIs(token.sums, k * d) && SizeIs(token.weights, k) &&
      SizeIs(token.live, k) && SizeIs(token.changed, k) &&
      SizeIs(token.quick, k) && token.rows == sent.rows &&
      token.in_quick == sent.in_quick && token.offset >= sent.offset &&
      token.offset <= token.rows && token.unmoved >= 0 && token.quiet >= 0 &&
      token.step >= sent.step && token.moves >= sent.moves &&
      std::all_of(token.weights.begin(), token.weights.end(),
                  [](int64_t w) { return w >= 0; });
  return valid ? absl::OkStatus()
               : Misfit(partial, "token", static_cast<double>(token.rows));
}

absl::Status CheckExtent(int64_t d, const KMeansPartial& partial) {
  const KMeansExtent& extent = partial.extent;
  bool valid = extent.rows >= 0 && extent.positive_rows >= 0 &&
               extent.positive_rows <= extent.rows &&
               extent.rows < int64_t{1} << 48 &&
               std::isfinite(extent.max_weight) && extent.max_weight >= 0 &&
               SizeIs(extent.max_value, d) && SizeIs(extent.max_product, d);
  for (size_t j = 0; valid && j < extent.max_value.size(); ++j) {
    valid = extent.max_value[j] >= 0 && extent.max_product[j] >= 0 &&
            std::isfinite(extent.max_value[j]) &&
            std::isfinite(extent.max_product[j]);
  }
  return valid ? absl::OkStatus()
               : Misfit(partial, "extent of the rows",
                        static_cast<double>(extent.rows));
}

absl::Status CheckPotentials(int64_t count, const KMeansPartial& partial) {
  const bool valid =
      SizeIs(partial.potentials, count) &&
      std::all_of(partial.potentials.begin(), partial.potentials.end(),
                  [](absl::int128 p) { return p >= 0; });
  return valid ? absl::OkStatus()
               : Misfit(partial, "potentials",
                        static_cast<double>(partial.potentials.size()));
}

int64_t WrappingSum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) +
                              static_cast<uint64_t>(b));
}

absl::int128 WrappingSum128(absl::int128 a, absl::int128 b) {
  return static_cast<absl::int128>(static_cast<absl::uint128>(a) +
                                   static_cast<absl::uint128>(b));
}

void AddTo(const std::vector<int64_t>& from, std::vector<int64_t>& into) {
  into.resize(std::max(into.size(), from.size()), 0);
  for (size_t i = 0; i < from.size(); ++i) {
    into[i] = WrappingSum(into[i], from[i]);
  }
}

// To the nearest unit; what no sum can reach stays below 2^62.
int64_t FixedFromFloat(float value, int32_t exponent) {
  const double scaled = std::ldexp(static_cast<double>(value), exponent);
  return std::llrint(std::clamp(scaled, -0x1p62, 0x1p62));
}

void AddFloatSums(const KMeansPartial& partial, size_t d,
                  const KMeansScale& scale, KMeansPartial& merged) {
  std::vector<int64_t> sums;
  for (size_t i = 0; i < partial.float_sums.size(); ++i) {
    sums.push_back(
        FixedFromFloat(partial.float_sums[i], scale.sum_exponents[i % d]));
  }
  std::vector<int64_t> weights;
  for (float w : partial.float_weights) {
    weights.push_back(
        std::max<int64_t>(0, FixedFromFloat(w, scale.weight_exponent)));
  }
  AddTo(sums, merged.sums);
  AddTo(weights, merged.weights);
}

void AddTouchedSums(const KMeansPartial& partial, size_t d,
                    KMeansPartial& merged) {
  const size_t k = partial.touched.size();
  merged.sums.resize(k * d, 0);
  merged.weights.resize(k, 0);
  size_t at = 0;
  for (size_t j = 0; j < k; ++j) {
    if (partial.touched[j] == 0) continue;
    merged.weights[j] = WrappingSum(merged.weights[j], partial.weights[at]);
    for (size_t i = 0; i < d; ++i) {
      merged.sums[j * d + i] =
          WrappingSum(merged.sums[j * d + i], partial.sums[at * d + i]);
    }
    ++at;
  }
}

}  // namespace

absl::Status CheckKMeansPartial(const KMeansStep& step, int64_t k, int64_t d,
                                const KMeansPartial& partial) {
  if (partial.number != step.number || partial.kind != step.kind) {
    return Misfit(partial, "does not answer the step",
                  static_cast<double>(step.number));
  }
  if (partial.objective < 0 || partial.moved < 0 || partial.evaluated < 0 ||
      partial.skipped < 0) {
    return Misfit(partial, "a negative count",
                  static_cast<double>(partial.moved));
  }
  const int64_t rows = static_cast<int64_t>(step.rows.size()) / d;
  switch (step.kind) {
    case KMeansStepKind::kExtent:
      return CheckExtent(d, partial);
    case KMeansStepKind::kTotals:
      return SizeIs(partial.sums, d) && SizeIs(partial.weights, 1) &&
                     partial.weights[0] >= 0
                 ? absl::OkStatus()
                 : Misfit(partial, "number of sums",
                          static_cast<double>(partial.sums.size()));
    case KMeansStepKind::kPick:
    case KMeansStepKind::kDraw:
    case KMeansStepKind::kSample:
    case KMeansStepKind::kFarthest:
    case KMeansStepKind::kBatchPick:
    case KMeansStepKind::kPropose:
      return CheckPicks(step, k, d, partial);
    case KMeansStepKind::kTry:
      return CheckPotentials(rows, partial);
    case KMeansStepKind::kPotential:
      return CheckPotentials(1, partial);
    case KMeansStepKind::kWeigh:
      return SizeIs(partial.weights, step.first_row + rows)
                 ? absl::OkStatus()
                 : Misfit(partial, "number of weights",
                          static_cast<double>(partial.weights.size()));
    case KMeansStepKind::kAssign:
    case KMeansStepKind::kBatch:
    case KMeansStepKind::kApply:
      return CheckSums(step, k, d, partial);
    case KMeansStepKind::kMeasure:
      return CheckPotentials(2 * k, partial);
    case KMeansStepKind::kSilhouette:
      return SizeIs(partial.potentials, 2) && partial.potentials[1] >= 0
                 ? absl::OkStatus()
                 : Misfit(partial, "potentials",
                          static_cast<double>(partial.potentials.size()));
    case KMeansStepKind::kSweep:
      return CheckToken(step, k, d, partial);
  }
  return Misfit(partial, "unknown kind", static_cast<double>(step.kind));
}

void MergeKMeansPartial(const KMeansStep& step, int64_t dimension,
                        const KMeansScale& scale, const KMeansPartial& partial,
                        KMeansPartial& merged) {
  const size_t d = static_cast<size_t>(dimension);
  if (step.kind == KMeansStepKind::kExtent) {
    MergeExtent(partial.extent, merged.extent);
  }
  if (partial.form == KMeansSumForm::kFloat32) {
    AddFloatSums(partial, d, scale, merged);
  } else if (!partial.touched.empty()) {
    AddTouchedSums(partial, d, merged);
  } else {
    AddTo(partial.sums, merged.sums);
    AddTo(partial.weights, merged.weights);
  }
  if (step.kind == KMeansStepKind::kSweep) merged.token = partial.token;
  merged.objective = WrappingSum128(merged.objective, partial.objective);
  merged.moved = WrappingSum(merged.moved, partial.moved);
  merged.evaluated = WrappingSum(merged.evaluated, partial.evaluated);
  merged.skipped = WrappingSum(merged.skipped, partial.skipped);
  merged.potentials.resize(
      std::max(merged.potentials.size(), partial.potentials.size()), 0);
  for (size_t i = 0; i < partial.potentials.size(); ++i) {
    merged.potentials[i] =
        WrappingSum128(merged.potentials[i], partial.potentials[i]);
  }
  merged.picks.insert(merged.picks.end(), partial.picks.begin(),
                      partial.picks.end());
  merged.pick_rows.insert(merged.pick_rows.end(), partial.pick_rows.begin(),
                          partial.pick_rows.end());
}

}  // namespace coterie
