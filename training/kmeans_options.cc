#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "index/distance.h"
#include "index/metric.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_job.h"

namespace coterie {
namespace {

absl::Status OutOfRange(absl::string_view name, double value, double least,
                        double greatest) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "k-means: %s is %g, outside [%g, %g]", name, value, least, greatest));
}

// NaN is outside.
absl::Status InRange(absl::string_view name, double value, double least,
                     double greatest) {
  if (value >= least && value <= greatest) return absl::OkStatus();
  return OutOfRange(name, value, least, greatest);
}

absl::Status ValidateGiven(const KMeansOptions& options) {
  const size_t d = static_cast<size_t>(options.dimension);
  if (options.given.size() != static_cast<size_t>(options.k) * d) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "k-means: %d values of given centres, not k d = %d x %d",
        options.given.size(), options.k, options.dimension));
  }
  for (int64_t j = 0; j < options.k; ++j) {
    const absl::Status valid = ValidateVector(
        options.metric, absl::MakeConstSpan(options.given)
                            .subspan(static_cast<size_t>(j) * d, d));
    if (!valid.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("k-means: given centre %d: %s", j, valid.message()));
    }
  }
  if (options.runs != 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "k-means: %d runs from the same given centres", options.runs));
  }
  return absl::OkStatus();
}

absl::Status ValidateCentres(const KMeansOptions& options,
                             const KMeansCentres& centres) {
  if (centres.rows.empty()) return absl::OkStatus();
  const size_t k = static_cast<size_t>(options.k);
  const size_t values = k * static_cast<size_t>(options.dimension);
  const bool valid = centres.rows.size() == values &&
                     centres.active.size() == k &&
                     (centres.sums.empty() || centres.sums.size() == values) &&
                     (centres.weights.empty() || centres.weights.size() == k) &&
                     std::all_of(centres.rows.begin(), centres.rows.end(),
                                 [](float v) { return std::isfinite(v); });
  return valid ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrFormat(
                     "k-means checkpoint: centres of %d values for k = %d",
                     centres.rows.size(), options.k));
}

}  // namespace

absl::Status ValidateKMeansOptions(const KMeansOptions& options) {
  constexpr double kMost = std::numeric_limits<int64_t>::max();
  const absl::Status checks[] = {
      InRange("dimension", static_cast<double>(options.dimension), 1,
              kMaxDimension),
      InRange("k", static_cast<double>(options.k), 1, 0x1p31 - 1),
      InRange("runs", options.runs, 1, 1e6),
      InRange("max_iterations", static_cast<double>(options.max_iterations), 1,
              kMost),
      InRange("tolerance", options.tolerance, 0, 1e300),
      InRange("relative_tolerance", options.relative_tolerance, 0, 1),
      InRange("oversampling", options.oversampling, 0x1p-10, 1024),
      InRange("rounds", options.rounds, 0, 1000),
      InRange("seeding", static_cast<double>(options.seeding), 1, 4),
      InRange("empty", static_cast<double>(options.empty), 1, 4),
      InRange("algorithm", static_cast<double>(options.algorithm), 1, 3),
      InRange("form", static_cast<double>(options.form), 1, 3),
      InRange("batch_rows", static_cast<double>(options.batch_rows), 0, kMost),
      InRange("patience", static_cast<double>(options.patience), 1, kMost),
      InRange("reassignment_ratio", options.reassignment_ratio, 0, 1),
      InRange("polish", static_cast<double>(options.polish), 1, 3),
      InRange("polish_passes", static_cast<double>(options.polish_passes), 1,
              kMost),
      InRange("silhouette_rows", static_cast<double>(options.silhouette_rows),
              0, kMost),
      InRange("metric", static_cast<double>(options.metric), 1, 3),
  };
  for (const absl::Status& check : checks) {
    if (!check.ok()) return check;
  }
  if (options.polish != KMeansPolish::kNone &&
      (options.metric == Metric::kCosine ||
       options.form == KMeansSumForm::kFloat32)) {
    return absl::InvalidArgumentError(
        "k-means: a polish needs squared distances and exact sums, not COSINE "
        "or float32 sums");
  }
  if (options.seeding == KMeansSeeding::kGiven) return ValidateGiven(options);
  if (!options.given.empty()) {
    return absl::InvalidArgumentError(
        "k-means: centres are given, but another seeding is asked for");
  }
  return absl::OkStatus();
}

absl::Status ValidateKMeansCheckpoint(const KMeansCheckpoint& checkpoint) {
  const KMeansOptions& options = checkpoint.options;
  const absl::Status valid = ValidateKMeansOptions(options);
  if (!valid.ok()) return valid;
  const size_t d = static_cast<size_t>(options.dimension);
  const bool started = checkpoint.phase > KMeansPhase::kTotals &&
                       checkpoint.phase <= KMeansPhase::kDone;
  const bool iterating = checkpoint.phase >= KMeansPhase::kAssign &&
                         checkpoint.phase <= KMeansPhase::kSilhouette;
  const bool measured = checkpoint.phase == KMeansPhase::kRelocate ||
                        (checkpoint.phase >= KMeansPhase::kLast &&
                         checkpoint.phase <= KMeansPhase::kSilhouette);
  if (checkpoint.phase < KMeansPhase::kExtent ||
      checkpoint.phase > KMeansPhase::kFailed || checkpoint.number < 0 ||
      checkpoint.run < 0 || checkpoint.iteration < 0 ||
      checkpoint.seeds.size() % d != 0 ||
      checkpoint.candidates.size() % d != 0 ||
      (checkpoint.phase > KMeansPhase::kExtent &&
       checkpoint.phase < KMeansPhase::kFailed &&
       checkpoint.scale.sum_exponents.size() != d) ||
      (started && checkpoint.extent.rows < options.k) ||
      (iterating && checkpoint.centres.rows.empty()) ||
      ((checkpoint.phase == KMeansPhase::kBatch ||
        checkpoint.phase == KMeansPhase::kReassign) &&
       (options.batch_rows < 1 ||
        checkpoint.batch.counts.size() != static_cast<size_t>(options.k))) ||
      (measured && checkpoint.assigned.sums.empty()) ||
      (checkpoint.phase >= KMeansPhase::kLast &&
       checkpoint.phase <= KMeansPhase::kDone &&
       checkpoint.best.weights.size() != static_cast<size_t>(options.k)) ||
      (checkpoint.phase == KMeansPhase::kSilhouette &&
       checkpoint.quality.objectives.size() !=
           static_cast<size_t>(options.k))) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "k-means checkpoint: phase %d at step %d does not fit the rest of it",
        static_cast<int>(checkpoint.phase), checkpoint.number));
  }
  for (const KMeansCentres* centres :
       {&checkpoint.centres, &checkpoint.assigned, &checkpoint.best}) {
    const absl::Status fits = ValidateCentres(options, *centres);
    if (!fits.ok()) return fits;
  }
  return absl::OkStatus();
}

}  // namespace coterie
