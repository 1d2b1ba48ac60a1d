#include "training/link_fit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kHuber = 1.345;
// Times are not trusted relatively below this, in seconds.
constexpr double kTimerSeconds = 1e-7;
// Relative noise is never taken to be less: the data may fit exactly.
constexpr double kLeastNoise = 1e-6;
// No transfer takes 30 years; keeps every product below far from overflow.
constexpr double kMostSeconds = 1e9;
constexpr double kLeastWeight = 1e-6;
constexpr double kSameSize = 0.01;
constexpr int kMaxIterations = 50;
constexpr double kConverged = 1e-6;

struct Row {
  double messages;
  double bytes;
  double seconds;
  double weight;  // of forgetting
};

// alpha, and c = 1 / beta.
struct Costs {
  double per_message = 0;
  double per_byte = 0;

  double Seconds(const Row& row) const {
    return per_message * row.messages + per_byte * row.bytes;
  }
};

// Upper triangle R and Q'y of the rows seen (Gentleman 1974):
//   | r11 r12 | z1 |
//   |  0  r22 | z2 |
struct Triangle {
  double r11 = 0, r12 = 0, r22 = 0, z1 = 0, z2 = 0;

  void Add(double x1, double x2, double y) {
    const double h1 = std::hypot(r11, x1);
    if (h1 > 0) {
      const double c = r11 / h1;
      const double s = x1 / h1;
      r11 = h1;
      Rotate(c, s, r12, x2);
      Rotate(c, s, z1, y);
    }
    const double h2 = std::hypot(r22, x2);
    if (h2 > 0) {
      const double c = r22 / h2;
      const double s = x2 / h2;
      r22 = h2;
      Rotate(c, s, z2, y);
    }
  }

  static void Rotate(double c, double s, double& kept, double& eliminated) {
    const double rotated = c * kept + s * eliminated;
    eliminated = c * eliminated - s * kept;
    kept = rotated;
  }

  // Squared residual, less a part that does not depend on `x`.
  double Excess(const Costs& x) const {
    const double e1 = r11 * x.per_message + r12 * x.per_byte - z1;
    const double e2 = r22 * x.per_byte - z2;
    return e1 * e1 + e2 * e2;
  }

  // (R'R)^-1 (x1, x2). REQUIRES: r11, r22 > 0.
  Costs Influence(double x1, double x2) const {
    const double w1 = x1 / r11;
    const double w2 = (x2 - r12 * w1) / r22;
    Costs v;
    v.per_byte = w2 / r22;
    v.per_message = (w1 - r12 * v.per_byte) / r11;
    return v;
  }
};

// The least-squares solution with both costs >= 0; without a cost per byte if
// `mean_only`.
Costs SolveNonNegative(const Triangle& t, bool mean_only) {
  const Costs only_messages = {std::max(0.0, t.z1 / t.r11), 0};
  if (mean_only) return only_messages;
  if (t.r22 > 0) {
    Costs free;
    free.per_byte = t.z2 / t.r22;
    free.per_message = (t.z1 - t.r12 * free.per_byte) / t.r11;
    if (free.per_message >= 0 && free.per_byte >= 0) return free;
  }
  const double norm = t.r12 * t.r12 + t.r22 * t.r22;
  if (norm == 0) return only_messages;
  const Costs only_bytes = {
      0, std::max(0.0, (t.r12 * t.z1 + t.r22 * t.z2) / norm)};
  return t.Excess(only_bytes) < t.Excess(only_messages) ? only_bytes
                                                        : only_messages;
}

// The least value with at least half of the weight at or below it.
// REQUIRES: not empty.
double WeightedMedian(std::vector<std::pair<double, double>> value_weight) {
  std::sort(value_weight.begin(), value_weight.end());
  double total = 0;
  for (const auto& [value, weight] : value_weight) total += weight;
  double below = 0;
  for (const auto& [value, weight] : value_weight) {
    below += weight;
    if (below >= total / 2) return value;
  }
  return value_weight.back().first;
}

// Robust weighted regression of the rows' seconds on messages and bytes.
class HuberFit {
 public:
  HuberFit(const std::vector<Row>& rows, bool mean_only)
      : rows_(rows), mean_only_(mean_only) {
    double sum = 0;
    double squares = 0;
    for (const Row& row : rows) {
      sum += row.weight;
      squares += row.weight * row.weight;
    }
    effective_ = sum * sum / squares;
    Iterate();
  }

  const Costs& costs() const { return costs_; }
  double noise() const { return noise_; }
  double effective() const { return effective_; }

  // Weight of observations that count less than half, over all weight.
  double OutlierFraction() const {
    double far = 0;
    double all = 0;
    for (const Row& row : rows_) {
      all += row.weight;
      if (HuberWeight(Residual(row)) < 0.5) far += row.weight;
    }
    return far / all;
  }

  // Variance of `per_message * alpha + per_byte * c` for the vector given.
  double Variance(const Costs& of) const;

 private:
  // Degrees of freedom that remain. Two observations fit exactly.
  double Freedom() const { return effective_ - (mean_only_ ? 1 : 2); }
  double Scale(const Row& row) const {
    return std::max(costs_.Seconds(row), kTimerSeconds);
  }
  double Residual(const Row& row) const {
    return (row.seconds - costs_.Seconds(row)) / Scale(row);
  }
  double HuberWeight(double residual) const {
    const double limit = kHuber * noise_;
    const double size = std::abs(residual);
    return size <= limit ? 1 : limit / size;
  }

  void Iterate();
  Costs FirstGuess() const;
  double ResidualNoise() const;

  const std::vector<Row>& rows_;
  const bool mean_only_;
  double effective_ = 0;
  Costs costs_;
  double noise_ = kInfinity;
};

// Rows are divided by their own time, which takes away a straggler's pull.
Costs HuberFit::FirstGuess() const {
  Triangle triangle;
  for (const Row& row : rows_) {
    const double w =
        std::sqrt(row.weight) / std::max(row.seconds, kTimerSeconds);
    triangle.Add(w * row.messages, w * row.bytes, w * row.seconds);
  }
  return SolveNonNegative(triangle, mean_only_);
}

double HuberFit::ResidualNoise() const {
  if (Freedom() <= 0) return kInfinity;
  std::vector<std::pair<double, double>> sizes;
  sizes.reserve(rows_.size());
  for (const Row& row : rows_) {
    sizes.emplace_back(std::abs(Residual(row)), row.weight);
  }
  const double factor = 1.4826 * (1 + 5 / std::max(1.0, Freedom()));
  return std::max(factor * WeightedMedian(std::move(sizes)), kLeastNoise);
}

void HuberFit::Iterate() {
  costs_ = FirstGuess();
  for (int i = 0; i < kMaxIterations; ++i) {
    noise_ = ResidualNoise();
    Triangle triangle;
    for (const Row& row : rows_) {
      const double w =
          std::sqrt(row.weight * HuberWeight(Residual(row))) / Scale(row);
      triangle.Add(w * row.messages, w * row.bytes, w * row.seconds);
    }
    const Costs next = SolveNonNegative(triangle, mean_only_);
    double change = 0;
    for (const Row& row : rows_) {
      change =
          std::max(change, std::abs(next.Seconds(row) - costs_.Seconds(row)) /
                               Scale(row));
    }
    costs_ = next;
    if (change <= kConverged) break;
  }
  noise_ = ResidualNoise();
}

double HuberFit::Variance(const Costs& of) const {
  if (Freedom() < 1) return kInfinity;
  Triangle triangle;
  double weight = 0;
  double squared_psi = 0;
  double psi_slope = 0;
  for (const Row& row : rows_) {
    const double w = std::sqrt(row.weight) / Scale(row);
    triangle.Add(w * row.messages, mean_only_ ? 0 : w * row.bytes, 0);
    const double limit = kHuber * noise_;
    const double psi = std::clamp(Residual(row), -limit, limit);
    weight += row.weight;
    squared_psi += row.weight * psi * psi;
    if (std::abs(Residual(row)) <= limit) psi_slope += row.weight;
  }
  if (psi_slope == 0 || (!mean_only_ && triangle.r22 == 0)) return kInfinity;
  // One column only: the second is made to have no influence.
  if (mean_only_) triangle.r22 = kInfinity;
  double variance = 0;
  for (const Row& row : rows_) {
    const double s = Scale(row);
    const Costs v = triangle.Influence(row.messages / s, row.bytes / s);
    const double along = row.weight * (of.per_message * v.per_message +
                                       of.per_byte * v.per_byte);
    variance += along * along;
  }
  const double slope = psi_slope / weight;
  return variance * (squared_psi / weight) * (effective_ / Freedom()) /
         (slope * slope);
}

LinkModel ModelOf(const Costs& costs) {
  LinkModel model;
  model.alpha_seconds = costs.per_message;
  // Not 1 / 0: the solution may be -0.
  model.beta_bytes_per_second =
      costs.per_byte > 0 ? 1 / costs.per_byte : kInfinity;
  return model;
}

}  // namespace

absl::string_view LinkKnowledgeName(LinkKnowledge knowledge) {
  switch (knowledge) {
    case LinkKnowledge::kMeanOnly:
      return "MEAN_ONLY";
    case LinkKnowledge::kAlphaAndBeta:
      return "ALPHA_AND_BETA";
  }
  return "unknown";
}

absl::StatusOr<LinkFit> LinkFit::Create(double forgetting) {
  // Written so that NaN fails.
  if (!(forgetting > 0 && forgetting <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("forgetting is ", forgetting, "; must be in (0, 1]"));
  }
  return LinkFit(forgetting);
}

absl::Status LinkFit::Add(const TransferObservation& observation) {
  if (observation.messages < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("messages is ", observation.messages, "; must be >= 1"));
  }
  if (observation.bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes is ", observation.bytes, "; must be >= 0"));
  }
  // Written so that NaN fails.
  if (!(observation.seconds >= 0 && observation.seconds <= kMostSeconds)) {
    return absl::InvalidArgumentError(
        absl::StrCat("seconds is ", observation.seconds, "; must be in [0, ",
                     kMostSeconds, "]"));
  }
  const int c = std::bit_width(
      static_cast<uint64_t>(observation.bytes / observation.messages));
  std::vector<Kept>& ring = kept_[c];
  const Kept kept = {observation, seen_};
  if (static_cast<int64_t>(ring.size()) < kKeptPerClass) {
    ring.push_back(kept);
  } else {
    ring[oldest_[c]] = kept;
    oldest_[c] = (oldest_[c] + 1) % kKeptPerClass;
  }
  ++seen_;
  return absl::OkStatus();
}

absl::StatusOr<LinkEstimate> LinkFit::Estimate() const {
  if (seen_ == 0) {
    return absl::FailedPreconditionError(
        "no transfer was observed on this link, at least 1 is needed");
  }
  std::vector<Row> rows;
  double least_size = kInfinity;
  double most_size = 0;
  Row total = {};
  for (const std::vector<Kept>& ring : kept_) {
    for (const Kept& kept : ring) {
      const double age = static_cast<double>(seen_ - 1 - kept.order);
      const double weight = std::max(std::pow(forgetting_, age), kLeastWeight);
      rows.push_back({static_cast<double>(kept.observation.messages),
                      static_cast<double>(kept.observation.bytes),
                      kept.observation.seconds, weight});
      const double size = rows.back().bytes / rows.back().messages;
      least_size = std::min(least_size, size);
      most_size = std::max(most_size, size);
      total.messages += weight * rows.back().messages;
      total.bytes += weight * rows.back().bytes;
    }
  }
  const bool mean_only = most_size <= least_size * (1 + kSameSize);
  const HuberFit fit(rows, mean_only);

  LinkEstimate out;
  out.bytes_per_message = total.bytes / total.messages;
  Costs costs = fit.costs();
  // `costs` of a mean-only fit charge messages alone.
  out.seconds_per_message =
      costs.per_message + costs.per_byte * out.bytes_per_message;
  out.seconds_standard_error =
      std::sqrt(fit.Variance({1, mean_only ? 0 : out.bytes_per_message}));
  out.alpha_standard_error = kInfinity;
  out.beta_standard_error = kInfinity;
  if (mean_only) {
    out.knowledge = LinkKnowledge::kMeanOnly;
    if (out.bytes_per_message > 0) {
      costs.per_message /= 2;
      costs.per_byte = costs.per_message / out.bytes_per_message;
    }
  } else {
    out.knowledge = LinkKnowledge::kAlphaAndBeta;
    out.alpha_standard_error = std::sqrt(fit.Variance({1, 0}));
    if (costs.per_byte > 0) {
      // Divided twice, as the square may underflow.
      out.beta_standard_error =
          std::sqrt(fit.Variance({0, 1})) / costs.per_byte / costs.per_byte;
    }
  }
  out.model = ModelOf(costs);
  out.relative_noise = fit.noise();
  out.outlier_fraction = fit.OutlierFraction();
  out.effective_observations = fit.effective();
  out.observations_kept = static_cast<int64_t>(rows.size());
  out.observations_seen = seen_;
  return out;
}

}  // namespace coterie
