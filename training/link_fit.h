// Learns the latency and the bandwidth of a link from transfers as they
// happen. Not thread-safe: one writer, or a lock outside.
//
// The model is T = alpha q + c M with c = 1 / beta (training/cost_model.h),
// alpha >= 0 and c >= 0. The estimate is Huber's M-estimate for noise that is
// proportional to the expected time (a standard deviation of, say, 5 % for
// small and large messages alike):
//
//   minimise  sum_i a_i rho((T_i - That_i) / (sigma That_i)),
//
// where rho is quadratic up to 1.345 and linear beyond, so that a straggler
// pulls with the strength of one slightly late message, however late it is
// (Huber, "Robust Statistics", 1981, ch. 7; 1.345: 95 % efficiency for normal
// noise, Holland & Welsch, 1977). It is found by iteratively reweighted least
// squares; That_i in the denominator comes from the previous iteration
// (Carroll & Ruppert, "Transformation and Weighting in Regression", 1988,
// ch. 2), sigma is the median absolute residual with the small-sample factor
// of Rousseeuw & Leroy, "Robust Regression and Outlier Detection", 1987,
// p. 44. Each least-squares problem is reduced row by row with Givens
// rotations (Gentleman, Algorithm AS 75, Applied Statistics 23, 1974): normal
// equations would square a condition number that is bad already when sizes
// hardly differ. The bounds are imposed by comparing the edges of the quadrant
// (Lawson & Hanson, "Solving Least Squares Problems", 1974, ch. 23, for two
// unknowns).
//
// Forgetting: a_i = max(forgetting^age, 1e-6), age counted in observations.
// Kept are the last 64 observations of every power-of-two class of bytes per
// message. So a link that changes is followed within about 64 observations,
// while hours of equally sized messages neither grow the state nor erase what
// other sizes once told: old observations then only decide how the time of a
// message splits into latency and bytes, which the new ones cannot.
//
// What it does not do: delays are one-sided, so stragglers still push the
// estimate up a little: by about 1 % if one message in ten is late and noise is
// 5 %. If half of the messages are late, then late is the link.

#ifndef COTERIE_TRAINING_LINK_FIT_H_
#define COTERIE_TRAINING_LINK_FIT_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "training/cost_model.h"

namespace coterie {

// One measured transfer, or several measured as one.
struct TransferObservation {
  int64_t messages = 1;  // >= 1
  int64_t bytes = 0;     // >= 0, of all messages together
  double seconds = 0;    // in [0, 1e9], without the receiver's computing
};

// How much the observations tell.
enum class LinkKnowledge : uint8_t {
  // Bytes per message are all within 1 % of one another: only the mean time of
  // such a message is known, not how it splits into latency and bytes.
  kMeanOnly,
  kAlphaAndBeta,
};

// "MEAN_ONLY" or "ALPHA_AND_BETA".
absl::string_view LinkKnowledgeName(LinkKnowledge knowledge);

struct LinkEstimate {
  LinkKnowledge knowledge = LinkKnowledge::kMeanOnly;

  // With kMeanOnly, half of the mean time is called latency and half bytes:
  // for no size of message is that less than half of what the true split would
  // give (nor, between half and twice the size seen, more than 1.5 times). If
  // no message had bytes, all of it is latency and beta is +infinity.
  // With kAlphaAndBeta, beta is +infinity when more bytes took no more time.
  LinkModel model;

  // One standard deviation of the estimates due to noise, from the sandwich
  // form for M-estimates (Huber 1981, section 7.6) with the weights of
  // forgetting in it. As if there were no bounds on alpha and beta. Seconds,
  // and bytes per second by the delta method. +infinity with kMeanOnly, with
  // fewer than 3 effective observations, and for an infinite beta.
  double alpha_standard_error = 0;
  double beta_standard_error = 0;

  // A message of average size: its bytes, its time by the model, and the
  // standard error of that, which kMeanOnly has as well (from 2 effective
  // observations on).
  double bytes_per_message = 0;
  double seconds_per_message = 0;
  double seconds_standard_error = 0;

  // Scale of the residuals relative to the expected time (sigma above).
  // +infinity while the fit is exact for want of observations.
  double relative_noise = 0;
  // Share of the observations, after forgetting, that count less than half
  // because they are far off (2.7 sigma). 0.7 % of normal noise does.
  double outlier_fraction = 0;
  // (sum a)^2 / sum a^2 over the observations kept.
  double effective_observations = 0;
  int64_t observations_kept = 0;
  int64_t observations_seen = 0;
};

// The fit of one link. Not thread-safe. At most 64 classes of 64 observations
// of 32 bytes; in practice a few classes.
class LinkFit {
 public:
  static constexpr double kDefaultForgetting = 0.98;
  static constexpr int64_t kKeptPerClass = 64;

  LinkFit() = default;

  // INVALID_ARGUMENT unless 0 < forgetting <= 1. With 1 nothing fades, but
  // still only the last observations of each class are kept.
  static absl::StatusOr<LinkFit> Create(double forgetting);

  // Takes one observation in. INVALID_ARGUMENT naming a field out of its
  // range; then nothing changes. A time of 0 is legal (a coarse timer).
  // O(1).
  absl::Status Add(const TransferObservation& observation);

  // The estimate from what was added. FAILED_PRECONDITION before the first
  // observation. Deterministic. Times below 100 ns are taken to be as noisy as
  // 100 ns. O(n log n) for n kept observations, up to 50 times; about 1 us for
  // each: now and then, not for every message.
  absl::StatusOr<LinkEstimate> Estimate() const;

 private:
  // Bit widths of an int64_t >= 0.
  static constexpr int kClasses = 64;

  struct Kept {
    TransferObservation observation;
    int64_t order = 0;  // number of observations before it
  };

  explicit LinkFit(double forgetting) : forgetting_(forgetting) {}

  double forgetting_ = kDefaultForgetting;
  int64_t seen_ = 0;
  // By class, each a ring: oldest_[c] is overwritten next once full.
  std::array<std::vector<Kept>, kClasses> kept_;
  std::array<int32_t, kClasses> oldest_ = {};
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_LINK_FIT_H_
