// The coordinator's side of distributed k-means: a state machine that says what
// to send to the shards and takes what they answer. No clock, thread or socket.
//
//   while (!job.Done()) {
//     send job.NextStep() to every shard; for each answer:
//     job.Accept(shard, partial);
//   }
//
// Not thread-safe. The result is a function of options and rows alone: the same
// bits for any number of shards, any placement of rows, order of arrival,
// thread and CPU, except under KMeansSumForm::kFloat32. It minimises
//
//   J = sum of w |x - c|^2            (COSINE: sum of w (1 - cos(x, c)))
//
// with centres that are float32 vectors: the mean of a cluster (COSINE: its
// direction) rounded to float32, which is what J and labels are computed from,
// so that searching for the nearest centre later gives the training labels.
//
// Order of one run: seeding, then assignments until one of the rules of
// KMeansStop fires, then, unless labels fit the centres already, one more
// assignment. J never rises from one assignment to the next: should rounding of
// centres make it, the job returns to the better centres and stops (kStalled).
//
// Empty clusters: see KMeansEmptyPolicy. Fewer distinct rows than k leave
// centres without rows: inactive or with weight 0, never NaN.
//
// Lloyd, "Least squares quantization in PCM", 1982. Seeding: Arthur and
// Vassilvitskii, "k-means++", SODA 2007; Bahmani et al., "Scalable k-means++",
// VLDB 2012.

#ifndef COTERIE_TRAINING_KMEANS_JOB_H_
#define COTERIE_TRAINING_KMEANS_JOB_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "index/metric.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_quality.h"

namespace coterie {

enum class KMeansSeeding : uint8_t {
  // k-means||: 2 (rounds + 1) steps whatever k, then weighted k-means++ over
  // the sampled rows here.
  kParallel = 1,
  // Greedy k-means++: 2 k steps, 2 + floor(ln k) candidates each.
  kPlusPlus = 2,
  // k rows without replacement, by weight.
  kRandom = 3,
  kGiven = 4,
};

enum class KMeansEmptyPolicy : uint8_t {
  // Moves it to the row farthest from its own centre. Rows at distance 0,
  // equal rows and the last row of a cluster do not move; a centre for which
  // there is none stays where it is.
  kRelocate = 1,
  // Stays where it is, and may get rows again.
  kKeep = 2,
  // Becomes inactive for good.
  kDrop = 3,
  // The job fails.
  kError = 4,
};

// Why a run ended.
enum class KMeansStop : uint8_t {
  kNone = 0,
  kConverged = 1,  // no row moved, or no centre did
  kTolerance = 2,  // squared movement of centres <= tolerance * variance
  kRelative = 3,   // J fell by <= relative_tolerance * J
  kMaxIterations = 4,
  kStalled = 5,    // rounding of centres outweighs what is left to gain
  kRequested = 6,  // Stop()
};

// What follows Lloyd's iterations. Squared distances and exact sums only.
enum class KMeansPolish : uint8_t {
  kNone = 1,
  // Hartigan and Wong's algorithm (kmeans_sweep.h): the token visits one shard
  // after the other. The result then depends on the order of rows, by shard,
  // then id.
  kHartiganWong = 2,
  // The best single moves of all rows at once, as many as lower J, verified by
  // sums (kmeans_sweep.h): the same bits for any placement of rows.
  kHartigan = 3,
};

struct KMeansOptions {
  Metric metric = Metric::kSquaredL2;
  int64_t dimension = 0;
  int64_t k = 0;
  uint64_t seed = 0;

  KMeansSeeding seeding = KMeansSeeding::kParallel;
  std::vector<float> given;  // k x d, for kGiven
  double oversampling = 2;   // k-means||: rows a round, in units of k
  int32_t rounds = 5;
  // Runs from different seeds; the best is kept. With kGiven only 1.
  int32_t runs = 1;

  int64_t max_iterations = 300;
  // Of the mean variance of the columns, as scikit-learn's tol; 0: until no row
  // moves.
  double tolerance = 1e-4;
  double relative_tolerance = 0;
  KMeansEmptyPolicy empty = KMeansEmptyPolicy::kRelocate;
  KMeansAlgorithm algorithm = KMeansAlgorithm::kHamerly;
  KMeansSumForm form = KMeansSumForm::kInt64;
  // Above 0: mini-batches of about this many rows instead of all; then
  // max_iterations counts epochs, and a last assignment of all rows follows.
  // Every row is in one batch of each epoch, by a hash of its id, so a batch
  // is the same set of rows for any number of shards. `tolerance` then applies
  // to the movement by one batch.
  int64_t batch_rows = 0;
  // Batches without a new least average J before a mini-batch run ends.
  int64_t patience = 10;
  // Centres with fewer rows than this part of the largest are moved onto random
  // rows; 0: never.
  double reassignment_ratio = 0.01;

  KMeansPolish polish = KMeansPolish::kNone;
  int64_t polish_passes = 100;  // optimal stages, or rounds of moves, at most

  // Whether to measure the result, and how many rows (about, by a hash of
  // their ids) the silhouette takes: each costs k distances.
  bool measure = false;
  int64_t silhouette_rows = 0;

  friend bool operator==(const KMeansOptions&, const KMeansOptions&) = default;
};

// OK, or INVALID_ARGUMENT naming the option, its value and its range.
absl::Status ValidateKMeansOptions(const KMeansOptions& options);

// One assignment, or one epoch of mini-batches: J of each batch before the
// centres move, added up.
struct KMeansProgress {
  int32_t run = 0;
  int64_t iteration = 0;  // from 1
  double objective = 0;
  int64_t moved = 0;
  double shift_squared = 0;  // of the centres after it
  int64_t empty = 0;         // active centres without rows
  int64_t relocated = 0;
  int64_t evaluated = 0;
  int64_t skipped = 0;
  // Of this assignment and what came before it since the last one (relocation,
  // polish), all shards, headers included.
  int64_t bytes_down = 0;
  int64_t bytes_up = 0;

  friend bool operator==(const KMeansProgress&,
                         const KMeansProgress&) = default;
};

// Centres with all that belongs to them.
struct KMeansCentres {
  std::vector<float> rows;      // k x d
  std::vector<uint8_t> active;  // k
  std::vector<int64_t> sums;    // k x d, in units; of the last assignment
  std::vector<int64_t> weights;
  absl::int128 objective = 0;

  friend bool operator==(const KMeansCentres&, const KMeansCentres&) = default;
};

enum class KMeansPhase : uint8_t {
  kExtent = 1,
  kTotals,
  kPick,
  kFirstDraw,
  kPlusDraw,
  kPlusTry,
  kPotential,
  kSample,
  kWeigh,
  kAssign,
  kRelocate,
  kBatch,
  kReassign,
  kPolish,
  kFinal,  // labels that fit a run's final centres
  kLast,   // labels that fit the best run's
  kMeasure,
  kSilhouette,
  kDone,
  kFailed,
};

// Where a mini-batch run stands.
struct KMeansBatchState {
  int64_t number = 0;             // of the batch in progress
  std::vector<double> counts;     // k: weight that each centre ever got
  std::vector<int64_t> reassign;  // centres to move
  int64_t rows_since = 0;         // the last reassignment
  double average = 0;             // exponentially weighted J a unit of weight
  double least = 0;               // of the averages so far
  int64_t averaged = 0;
  int64_t worse = 0;  // batches since the least
  double epoch_objective = 0;
  int64_t epoch_rows = 0;
  int64_t evaluated = 0;

  friend bool operator==(const KMeansBatchState&,
                         const KMeansBatchState&) = default;
};

// All that a job knows between steps.
struct KMeansCheckpoint {
  KMeansOptions options;
  KMeansPhase phase = KMeansPhase::kExtent;
  int64_t number = 0;  // of the step in progress
  KMeansExtent extent;
  KMeansScale scale;
  double mean_variance = 0;

  int32_t run = 0;
  int64_t round = 0;
  std::vector<float> seeds;
  std::vector<float> candidates;
  absl::int128 potential = 0;

  int64_t iteration = 0;
  KMeansStop stop = KMeansStop::kNone;
  bool stop_requested = false;
  // Those in progress, and those that labels on the shards belong to (none
  // while `rows` is empty).
  KMeansCentres centres;
  KMeansCentres assigned;
  int64_t relocated = 0;
  // (previous J - J) / previous J at the last assignment.
  double fall = 0;

  KMeansBatchState batch;

  // Before the polish; kept until its gain is known.
  KMeansCentres unpolished;
  bool polished = false;

  KMeansCentres best;
  int32_t best_run = -1;
  int64_t best_iterations = 0;
  KMeansStop best_stop = KMeansStop::kNone;
  KMeansQuality quality;
  std::vector<KMeansProgress> progress;

  friend bool operator==(const KMeansCheckpoint&,
                         const KMeansCheckpoint&) = default;
};

struct KMeansResult {
  std::vector<float> centres;  // k x d
  std::vector<double> weights;
  // 0: flagged, dropped or never had a row; its values are those of another.
  std::vector<uint8_t> active;
  int64_t non_empty = 0;  // centres with a weight above 0
  double objective = 0;
  int64_t iterations = 0;  // of the best run, as scikit-learn counts
  int32_t run = 0;
  KMeansStop stop = KMeansStop::kNone;
  KMeansQuality quality;  // if asked for
};

// OK, or INVALID_ARGUMENT: sizes, flags and numbers that no job produces.
absl::Status ValidateKMeansCheckpoint(const KMeansCheckpoint& checkpoint);

class KMeansJob {
 public:
  // INVALID_ARGUMENT for bad options or shards < 1.
  static absl::StatusOr<KMeansJob> Create(const KMeansOptions& options,
                                          int32_t shards);

  // Goes on from a checkpoint, with any number of shards that hold the same
  // rows: the result has the same bits as without the interruption. The first
  // steps restore what shards keep. FAILED_PRECONDITION later if the rows turn
  // out to be others. INVALID_ARGUMENT for a checkpoint that makes no sense.
  static absl::StatusOr<KMeansJob> Resume(KMeansCheckpoint checkpoint,
                                          int32_t shards);

  // What every shard (`shard` >= 0: that one) has to answer now. The same until
  // all have. REQUIRES: !Done().
  const KMeansStep& NextStep() const { return step_; }

  // Takes the answer of shard `shard`. One for another step, or a second one
  // for this, is ignored. INVALID_ARGUMENT for one that does not fit the step;
  // it changes nothing.
  absl::Status Accept(int32_t shard, const KMeansPartial& partial);

  // Ends the run after the assignment in progress, and the job with it.
  void Stop() { state_.stop_requested = true; }

  bool Done() const;
  // Why the job failed: FAILED_PRECONDITION (no rows; other rows than before;
  // an empty cluster under kError), INVALID_ARGUMENT (k above the number of
  // rows, all weights 0).
  const absl::Status& status() const { return status_; }
  // REQUIRES: Done() and status().ok().
  KMeansResult Result() const;
  absl::Span<const KMeansProgress> progress() const { return state_.progress; }
  // Of this moment. Answers to the step in progress are not in it.
  const KMeansCheckpoint& Checkpoint() const { return state_; }
  const KMeansExtent& extent() const { return state_.extent; }

 private:
  // What has to be brought back to shards before the phase goes on.
  enum class Restore : uint8_t { kNone, kExtent, kTotals, kLabels };

  KMeansJob(KMeansCheckpoint state, int32_t shards);

  // kmeans_job.cc
  void Issue();
  void FillStep();
  void FillSeedStep();
  void FillAssignStep(const KMeansCentres& centres);
  void Advance();
  void Restored();
  void FinishExtent();
  void FinishTotals();
  void Fail(absl::Status status);

  // kmeans_job_seed.cc
  void StartRun();
  uint64_t RunSeed() const;
  void AdvanceSeeding();
  void FinishPick();
  void FinishDraw();
  void FinishTry();
  void FinishPotential();
  void FinishSample();
  void FinishWeigh();
  void Recluster(const std::vector<int64_t>& weights);
  void SortPicks();
  void SeedsAreCentres();
  void AddSeed(absl::Span<const float> row);

  // kmeans_job_iterate.cc
  void FinishAssign();
  void FinishRelocate();
  void TakeSums();
  KMeansProgress MakeProgress();
  void UpdateCentres();
  bool SetMean(int64_t j);
  void FinishRun();
  void GoToFinal(KMeansStop stop);

  // kmeans_job_batch.cc
  int64_t BatchesPerEpoch() const;
  void StartBatches();
  int32_t BatchCoarseness() const;
  std::vector<double> MiddleOfCentres() const;
  void FillShortRows();
  void FillBatchStep();
  void FinishBatch();
  double MoveTowardsBatch();
  void EndBatch(double shift, KMeansStop stop);
  bool WantsReassignment();
  void FinishReassign();

  // kmeans_job_measure.cc
  void Finish();
  void FillSilhouetteStep();
  void FinishMeasure();
  void FinishSilhouette();
  std::vector<double> BestWeights() const;

  // kmeans_job_polish.cc
  bool WantsPolish() const;
  void StartPolish();
  void FillPolishStep();
  void FinishPolish();
  void FillMovesStep();
  void FinishPropose();
  void FinishApply();
  void EndPolish();

  KMeansCheckpoint state_;
  const int32_t shards_;
  absl::Status status_;

  // Not in the checkpoint: what shards are known to hold.
  Restore restore_ = Restore::kNone;
  int64_t assigned_number_ = 0;  // step of state_.assigned, 0: not there
  int64_t seeds_known_ = 0;
  // The polish in progress: after an interruption it begins again.
  KMeansToken token_;
  int32_t token_shard_ = 0;
  int64_t token_round_ = 0;
  int64_t token_passes_ = 0;
  std::vector<KMeansPick> moves_;  // proposed and not yet tried, best first
  int64_t moves_taken_ = 0;        // of them, in the step in progress
  int64_t moves_most_ = 0;
  // Bytes since the last assignment.
  int64_t between_down_ = 0;
  int64_t between_up_ = 0;

  // The step in progress.
  KMeansStep step_;
  std::vector<uint8_t> answered_;
  int32_t answers_ = 0;
  int32_t expected_ = 0;
  KMeansPartial merged_;
  int64_t bytes_down_ = 0;
  int64_t bytes_up_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_JOB_H_
