// One shard's part of a k-means job: answers the steps of a KMeansJob
// (kmeans_job.h) over the shard's rows.
//
// Not thread-safe: one step at a time. Within a step the work is shared out to
// the caller's workers; answers are the same bits for any number of them, for
// every algorithm and every SIMD target. Labels, distances and bounds stay
// here; only sums, counts and picked rows leave (Dhillon and Modha, "A
// data-clustering algorithm on distributed memory multiprocessors", 1999).
//
// State is a function of the steps answered. A shard that has lost it, or never
// had it, answers FAILED_PRECONDITION to a step that builds on it; the job is
// then resumed from its checkpoint, which begins with what restores it.
//
// Memory beside the rows: 12 bytes a row; for Hamerly 4 more and, while that is
// within budget and k is large, d + 16 for codes; 4 k for Elkan; 8 k d for sums
// and as much again for each worker during a step.

#ifndef COTERIE_TRAINING_KMEANS_SHARD_H_
#define COTERIE_TRAINING_KMEANS_SHARD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "training/coded_nearest.h"
#include "training/kmeans_bounds.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_workers.h"
#include "training/nearest_centre.h"

namespace coterie {

class KMeansShard {
 public:
  struct Options {
    // Elkan's bounds may take this much; 0: never.
    int64_t bound_bytes = int64_t{1} << 30;
    // So may 8-bit codes of the rows (coded_nearest.h), which Hamerly's
    // algorithm searches.
    int64_t code_bytes = int64_t{4} << 30;
  };

  KMeansShard(KMeansRows rows, const Options& options);
  explicit KMeansShard(KMeansRows rows)
      : KMeansShard(std::move(rows), Options()) {}

  // Answers `step`. The last step again gets the same answer again, so that a
  // request may be repeated. `stop` is asked every few hundred rows, by all
  // workers; once it says true the answer is CANCELLED, and the step may be
  // tried again.
  // INVALID_ARGUMENT for a step that makes no sense for these rows;
  // FAILED_PRECONDITION for one that builds on what is not here, and for one
  // older than the last.
  absl::StatusOr<KMeansPartial> Run(const KMeansStep& step,
                                    const KMeansWorkers& workers,
                                    absl::FunctionRef<bool()> stop);

  const KMeansRows& rows() const { return rows_; }
  // Of the last assignment, in the order of rows(); empty before the first.
  absl::Span<const int32_t> labels() const { return labels_; }
  // Canonical, to the row's own centre.
  absl::Span<const double> distances() const { return distances_; }

 private:
  struct Worker;  // what one worker gathers during a step

  // kmeans_shard.cc
  absl::Status Check(const KMeansStep& step) const;
  absl::StatusOr<KMeansPartial> Answer(const KMeansStep& step,
                                       const KMeansWorkers& workers,
                                       absl::FunctionRef<bool()> stop);
  absl::StatusOr<KMeansPartial> Totals(const KMeansStep& step);
  absl::Status CheckBase(const KMeansStep& step) const;
  KMeansPartial Farthest(const KMeansStep& step) const;
  // Calls body(worker, begin, end) for all rows in blocks; false if stopped.
  bool ForRows(const KMeansWorkers& workers, absl::FunctionRef<bool()> stop,
               absl::FunctionRef<void(int32_t, int64_t, int64_t)> body) const;
  void AddPick(const KMeansPick& pick, int64_t row,
               KMeansPartial& partial) const;

  // kmeans_shard_assign.cc
  absl::StatusOr<KMeansPartial> Assign(const KMeansStep& step,
                                       const KMeansWorkers& workers,
                                       absl::FunctionRef<bool()> stop);
  absl::StatusOr<std::unique_ptr<NearestCentre>> CentresOf(
      const KMeansStep& step) const;
  void FindMoved(const NearestCentre& centres);
  bool MayUseCodes(int64_t k) const;
  void PrepareCodes(const NearestCentre& centres);
  void AssignRows(const NearestCentre& centres, int64_t begin, int64_t end,
                  Worker& worker);
  void FindFirst(int64_t begin, int64_t end, Worker& worker);
  void FindPending(const NearestCentre& centres, Worker& worker);
  void FindCoded(Worker& worker);
  void TakeCoded(int64_t distances, Worker& worker);
  void FindNear(const NearestCentre& centres, Worker& worker);
  void StartFound(absl::Span<const int64_t> which, Worker& worker) const;
  NearestFound Nearer(Metric metric, size_t row, NearestFound apart) const;
  void Gather(int64_t begin, int64_t end, Worker& worker) const;
  void Count(const std::vector<Worker>& gathered, KMeansPartial& partial);
  void FillSums(const KMeansStep& step, const std::vector<Worker>& gathered,
                KMeansPartial& partial) const;
  void FillChanged(const std::vector<Worker>& gathered, size_t k,
                   KMeansPartial& partial) const;

  // kmeans_shard_bounds.cc
  void PrepareBounds(const KMeansStep& step, const NearestCentre& centres,
                     const KMeansWorkers& workers);
  void ChooseApart();
  // The row's label and distance, if its bounds settle them or it waits in one
  // of the worker's lists for what is left.
  bool KeepsLabel(const NearestCentre& centres, int64_t row, Worker& worker);
  bool KeepsBound(int64_t row, int32_t label, double radius, bool separate,
                  Worker& worker);
  void ScanByElkan(const NearestCentre& centres, int64_t row, Worker& worker);

  // kmeans_shard_seed.cc
  absl::StatusOr<KMeansPartial> Seed(const KMeansStep& step,
                                     const KMeansWorkers& workers,
                                     absl::FunctionRef<bool()> stop);
  absl::Status Know(const KMeansStep& step, const KMeansWorkers& workers,
                    absl::FunctionRef<bool()> stop);
  KMeansPartial Pick(const KMeansStep& step) const;
  KMeansPartial Draw(const KMeansStep& step,
                     const KMeansWorkers& workers) const;
  absl::StatusOr<KMeansPartial> Try(const KMeansStep& step,
                                    const KMeansWorkers& workers,
                                    absl::FunctionRef<bool()> stop) const;
  KMeansPartial Potential() const;
  KMeansPartial Sample(const KMeansStep& step) const;
  KMeansPartial Weigh() const;

  // kmeans_shard_batch.cc
  absl::StatusOr<KMeansStep> WholeBatch(const KMeansStep& step) const;
  void AddToBatch(const FixedPointAdder& adder,
                  const std::vector<double>& middle, int64_t row,
                  std::vector<float>& scratch, int64_t* sums) const;
  absl::StatusOr<KMeansPartial> Batch(const KMeansStep& step,
                                      const KMeansWorkers& workers,
                                      absl::FunctionRef<bool()> stop);
  absl::StatusOr<KMeansPartial> BatchPick(const KMeansStep& step);
  absl::StatusOr<absl::Span<const int64_t>> BatchRows(const KMeansStep& step,
                                                      int64_t batches);

  // kmeans_shard_measure.cc
  absl::StatusOr<KMeansPartial> Measure(const KMeansStep& step);
  absl::StatusOr<KMeansPartial> Silhouette(const KMeansStep& step,
                                           const KMeansWorkers& workers,
                                           absl::FunctionRef<bool()> stop);

  // kmeans_shard_sweep.cc
  absl::StatusOr<KMeansPartial> Sweep(const KMeansStep& step,
                                      absl::FunctionRef<bool()> stop);
  absl::StatusOr<KMeansPartial> Propose(const KMeansStep& step,
                                        const KMeansWorkers& workers,
                                        absl::FunctionRef<bool()> stop);
  absl::StatusOr<KMeansPartial> Apply(const KMeansStep& step);

  const KMeansRows rows_;
  const Options options_;
  const int64_t d_;

  KMeansScale scale_;
  std::optional<FixedPointAdder> adder_;

  int64_t last_number_ = 0;
  std::optional<KMeansPartial> last_answer_;

  // The last assignment: its step's number, 0 before the first.
  int64_t assigned_ = 0;
  std::unique_ptr<NearestCentre> centres_;
  std::vector<int32_t> labels_;
  std::vector<double> distances_;
  std::vector<int64_t> sums_;     // k x d
  std::vector<int64_t> weights_;  // k
  absl::int128 objective_ = 0;
  // One lower bound a row, or k; empty if none hold.
  std::vector<float> bounds_;
  KMeansAlgorithm bounds_kind_ = KMeansAlgorithm::kLloyd;
  // For the assignment in progress.
  std::vector<int32_t> next_labels_;
  std::vector<double> next_distances_;
  KMeansAlgorithm algorithm_ = KMeansAlgorithm::kLloyd;
  bool has_base_ = false;
  bool has_bounds_ = false;
  std::optional<CentreDrift> drift_;
  std::optional<CentreSeparation> separation_;
  std::unique_ptr<RowCodes> codes_;
  bool coding_ = false;  // in the assignment in progress
  bool codes_pay_ = true;
  bool separation_pays_ = true;
  std::optional<CodedNearest> coded_;
  std::vector<uint8_t> moved_;  // centres that are not what they were
  // Centres whose drift bounds leave out, and the search among them.
  std::vector<int32_t> apart_;
  std::optional<CodedNearest> near_coded_;
  std::optional<NearestCentre> near_;

  // Seeding: each row's nearest known row.
  int64_t known_ = 0;
  std::vector<double> seed_distances_;
  std::vector<int32_t> seed_labels_;

  // Rows by batch of the epoch that was last asked for.
  uint64_t epoch_hash_ = 0;
  std::vector<int64_t> batch_rows_;
  std::vector<int64_t> batch_begins_;

  // Hartigan and Wong: the assignment that it began with, each row's cluster
  // and the one that it would go to next [IC1, IC2].
  int64_t sweep_base_ = 0;
  std::vector<int32_t> sweep_labels_;
  std::vector<int32_t> sweep_others_;
  // Moves of the last kApply step: row and cluster.
  int64_t tentative_number_ = 0;
  std::vector<std::pair<int64_t, int32_t>> tentative_;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_SHARD_H_
