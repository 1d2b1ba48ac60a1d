#include "index/certified_guess.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/numeric/bits.h"
#include "index/certified_bound.h"
#include "index/certified_codes.h"
#include "index/certified_dispatch.h"
#include "index/certified_kernels.h"

namespace coterie {

using internal_certified::BatchKernelFor;
using internal_certified::CodeHit;
using internal_certified::CodeTile;
using internal_certified::FineKernelFor;
using internal_certified::kTileQueries;

namespace {

constexpr int64_t kGroupRows = CertifiedCodes::kGroupRows;
// Of the k nearest so many are expected among the rows looked at.
constexpr int64_t kExpected = 12;
// How far above that the rank lies that is taken, in standard deviations of a
// Poisson variable.
constexpr double kDeviations = 4;
// With fewer, a scan passes few rows anyway, and 12 / k of all would be many.
constexpr int64_t kLeastNeighbors = 64;
constexpr int64_t kLeastNeighborsAlone = 512;
// Of 64 rows; more are not worth their time, and nobody can stop this.
constexpr int64_t kMostGroups = 2048;
// With fewer rows for each neighbour there is little to be ruled out.
constexpr int64_t kRowsForEach = 16;

// The `rank` least upper bounds of one query's rows.
class Sample {
 public:
  explicit Sample(int64_t rank) : rank_(static_cast<size_t>(rank)) {
    uppers_.reserve(2 * rank_);
  }

  // No row that lies above matters.
  double bar() const { return bar_; }

  void Add(double upper) {
    if (!(upper < bar_)) return;
    uppers_.push_back(upper);
    if (uppers_.size() == 2 * rank_) Cut();
  }

  // Infinite if there were fewer.
  double Take() {
    if (uppers_.size() >= rank_) Cut();
    return bar_;
  }

 private:
  void Cut() {
    const auto at = uppers_.begin() + static_cast<std::ptrdiff_t>(rank_ - 1);
    std::nth_element(uppers_.begin(), at, uppers_.end());
    bar_ = *at;
    uppers_.resize(rank_);
  }

  const size_t rank_;
  double bar_ = std::numeric_limits<double>::infinity();
  std::vector<double> uppers_;
};

// Scores groups of rows for a few queries, at most a tile of them.
class Sampler {
 public:
  Sampler(const CertifiedQueries& queries, const ScanRows& rows, int64_t first,
          int64_t count)
      : queries_(queries), rows_(rows), first_(first), count_(count) {}

  // Of the k least among live_rows rows.
  static int64_t RankOf(int64_t k, int64_t sampled, int64_t live_rows) {
    const double expected = static_cast<double>(k) *
                            static_cast<double>(sampled) /
                            static_cast<double>(live_rows);
    return static_cast<int64_t>(
        std::ceil(expected + kDeviations * std::sqrt(expected)));
  }

  void Look(int64_t group, std::vector<Sample>& samples) {
    const CertifiedCodes& codes = queries_.codes();
    const int64_t row = group * kGroupRows;
    const CertifiedPanel& panel = codes.panel(row / CertifiedCodes::kPanelRows);
    const uint64_t live = LiveOf(group);
    float a[kTileQueries];
    float b[kTileQueries];
    float k[kTileQueries];
    for (int64_t i = 0; i < count_; ++i) {
      const CertifiedCut cut = CutFor(codes, queries_.query(first_ + i), panel,
                                      samples[static_cast<size_t>(i)].bar());
      a[i] = cut.a;
      b[i] = cut.b;
      k[i] = cut.k;
    }
    const bool fine = queries_.depth() == CertifiedQueries::Depth::kFine;
    const CodeTile tile = {
        .codes = codes.block(row),
        .groups = 1,
        .quads = codes.quads(),
        .a = codes.a(row),
        .b = codes.b(row),
        .live = &live,
        .queries = queries_.quads(first_),
        .query_stride = queries_.quad_stride(),
        .starts = queries_.starts(first_),
        .cut_a = a,
        .cut_b = b,
        .cut_k = k,
        .ahead = nullptr,
    };
    const int64_t found =
        fine
            ? FineKernelFor(queries_.kernel())(tile, queries_.low_bits(), hits_)
            : BatchKernelFor(queries_.kernel())(tile, count_, hits_);
    for (int64_t i = 0; i < found; ++i) {
      const CodeHit& hit = hits_[i];
      // The bound that confirms guesses, too.
      const CertifiedRange range(codes, queries_.query(first_ + hit.query));
      const CertifiedScore score = {*codes.a(row + hit.row),
                                    *codes.b(row + hit.row), hit.ip};
      samples[hit.query].Add(range.Of(panel, score).upper);
    }
  }

  uint64_t LiveOf(int64_t group) const {
    uint64_t word = ~uint64_t{0};
    if (rows_.live != nullptr) word = rows_.live[group];
    const int64_t rows = rows_.rows.n - group * kGroupRows;
    if (rows < kGroupRows) word &= ~(~uint64_t{0} << rows);
    return word;
  }

 private:
  const CertifiedQueries& queries_;
  const ScanRows& rows_;
  const int64_t first_;
  const int64_t count_;
  CodeHit hits_[kGroupRows * kTileQueries];
};

}  // namespace

bool GuessPays(int64_t k, int64_t live_rows, bool alone) {
  return k >= (alone ? kLeastNeighborsAlone : kLeastNeighbors) &&
         live_rows / kRowsForEach >= k;
}

void GuessThresholds(const CertifiedQueries& queries, const ScanRows& rows,
                     int64_t live_rows, int64_t first,
                     absl::Span<const int64_t> ks,
                     absl::Span<GuessedThreshold> guesses) {
  const int64_t groups = (rows.rows.n + kGroupRows - 1) / kGroupRows;
  const int64_t most =
      queries.depth() == CertifiedQueries::Depth::kFine ? 1 : kTileQueries;
  for (size_t at = 0; at < ks.size();) {
    // Neighbours of one request have one k.
    size_t end = at + 1;
    while (end < ks.size() && ks[end] == ks[at] &&
           static_cast<int64_t>(end - at) < most) {
      ++end;
    }
    const int64_t k = ks[at];
    if (GuessPays(k, live_rows, queries.size() == 1)) {
      Sampler sampler(queries, rows, first + static_cast<int64_t>(at),
                      static_cast<int64_t>(end - at));
      const int64_t wanted =
          std::min(kExpected * (rows.rows.n / k) / kGroupRows + 1, kMostGroups);
      int64_t sampled = 0;
      for (int64_t i = 0; i < wanted; ++i) {
        sampled += absl::popcount(sampler.LiveOf(i * groups / wanted));
      }
      const int64_t rank = Sampler::RankOf(k, sampled, live_rows);
      std::vector<Sample> samples;
      samples.reserve(end - at);
      for (size_t q = at; q < end; ++q) {
        samples.emplace_back(std::max<int64_t>(1, rank));
      }
      for (int64_t i = 0; i < wanted && rank > 0; ++i) {
        sampler.Look(i * groups / wanted, samples);
      }
      for (size_t q = at; q < end; ++q) {
        const double guess = samples[q - at].Take();
        if (guess < std::numeric_limits<double>::infinity()) {
          guesses[q].Set(guess);
        }
      }
    }
    at = end;
  }
}

}  // namespace coterie
