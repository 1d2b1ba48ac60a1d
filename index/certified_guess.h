// A guess of the k-th distance of a query, from a few rows of a segment.
//
// A valid threshold falls to its last value only while rows are scanned: until
// then k (1 + ln(n / k)) rows or more pass and have to be bounded. Where k is
// large most of a scan's time goes into them. A guess that is likely to be a
// little too large lets pass about twice k from the first row on; once k rows
// turn out to lie within it, it is valid. If they do not the scan was in vain,
// for about one query of 3,000 whose rows come in no order.

#ifndef COTERIE_INDEX_CERTIFIED_GUESS_H_
#define COTERIE_INDEX_CERTIFIED_GUESS_H_

#include <atomic>
#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "index/certified_query.h"
#include "index/exact_scan.h"

namespace coterie {

// The guess of one query and what has become of it. Shared by the scanners of a
// query, each of other rows.
//
// Thread-safe but for Set. Once confirmed or failed it stays so.
class GuessedThreshold {
 public:
  // Before scanners have it. Without, there is nothing to be confirmed.
  void Set(double value) {
    value_ = value;
    state_.store(State::kOpen);
  }

  double value() const { return value_; }
  bool open() const { return state() == State::kOpen; }
  bool confirmed() const { return state() == State::kConfirmed; }
  bool failed() const { return state() == State::kFailed; }

  // REQUIRES: a valid threshold of the query is <= value(). Whether it is
  // confirmed then: it may have failed before.
  bool Confirm() { return Decide(State::kConfirmed); }
  // Nobody may rule out rows by it any more, and what was found by it is to be
  // forgotten. Whether it has failed then: it may have been confirmed before.
  bool Fail() { return Decide(State::kFailed); }

  // Rows known to lie within, by scanner; together they confirm a guess for k
  // neighbours if they are as many.
  void AddWithin(int64_t rows) { within_.fetch_add(rows); }
  int64_t within() const { return within_.load(); }

 private:
  enum class State { kNone, kOpen, kConfirmed, kFailed };

  State state() const { return state_.load(std::memory_order_acquire); }
  bool Decide(State state) {
    State expected = State::kOpen;
    return state_.compare_exchange_strong(expected, state) || expected == state;
  }

  double value_ = std::numeric_limits<double>::infinity();
  std::atomic<int64_t> within_{0};
  std::atomic<State> state_{State::kNone};
};

// Whether a guess costs little beside a scan of `live_rows` for k neighbours,
// and saves much. A query alone waits for memory, not for bounds, and may have
// a head to look at, which cannot confirm a guess.
bool GuessPays(int64_t k, int64_t live_rows, bool alone);

// Sets guesses[i] of query first + i for ks[i] neighbours where GuessPays, from
// rows spread evenly over all. REQUIRES: as CertifiedScanner; `live_rows` of
// `rows` are live; guesses.size() == ks.size(). Queries apart may be guessed by
// several threads. O(n / k * d) time
// a query.
void GuessThresholds(const CertifiedQueries& queries, const ScanRows& rows,
                     int64_t live_rows, int64_t first,
                     absl::Span<const int64_t> ks,
                     absl::Span<GuessedThreshold> guesses);

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_GUESS_H_
