#include "index/faiss_index.h"

#include <faiss/Index.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVF.h>
#include <faiss/IndexIVFPQ.h>
#include <faiss/IndexPreTransform.h>
#include <faiss/IndexScalarQuantizer.h>
#include <faiss/impl/IDSelector.h>
#include <faiss/index_factory.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "index/distance.h"
#include "index/faiss_guard.h"
#include "index/faiss_inner.h"
#include "index/top_k.h"
#include "index/tree_unit.h"

namespace coterie {
namespace {

using internal_faiss::GraphOf;
using internal_faiss::Guarded;
using internal_faiss::ListsOf;

constexpr int64_t kHeld = 256;
constexpr int64_t kTimes[] = {1, 2, 4, 8, 16, 32};
constexpr double kErrors = 1.65;
// What is measured where 256 rows miss nothing.
constexpr float kAll = 0.996F;

// A number near n / golden ratio that has no divisor in common with n.
int64_t StepOf(int64_t n) {
  int64_t step = std::max<int64_t>(1, n * 618 / 1000);
  while (std::gcd(step, n) != 1) ++step;
  return step;
}

// Squares of such components, over all dimensions, are finite.
constexpr double kMostComponent = 1e15;

// The rows of labels that are wanted, as FAISS asks for them.
class LiveLabels final : public faiss::IDSelector {
 public:
  LiveLabels(const uint64_t* live, int64_t step, int64_t n)
      : live_(live), step_(step), n_(n) {}
  bool is_member(faiss::Index::idx_t label) const override {
    const int64_t row = label * step_ % n_;
    return ((live_[row / 64] >> (row % 64)) & 1) != 0;
  }

 private:
  const uint64_t* const live_;
  const int64_t step_;
  const int64_t n_;
};

// What FAISS is told of one search.
class Parameters {
 public:
  Parameters(const faiss::Index& index, int64_t effort, LiveLabels* live) {
    if (GraphOf(index) != nullptr) {
      // Dead rows are part of the way: they are left out afterwards.
      graph_.efSearch = static_cast<int>(effort);
      inner_ = &graph_;
    } else {
      lists_.nprobe = static_cast<size_t>(effort);
      lists_.sel = live;
      inner_ = &lists_;
    }
    turned_.index_params = inner_;
    if (internal_faiss::TurnOf(index) != nullptr) inner_ = &turned_;
  }
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  const faiss::SearchParameters* get() const { return inner_; }

 private:
  faiss::SearchParameters* inner_ = nullptr;
  faiss::SearchParametersIVF lists_;
  faiss::SearchParametersHNSW graph_;
  faiss::SearchParametersPreTransform turned_;
};

}  // namespace

FaissIndex::FaissIndex(Metric metric, int64_t n, int64_t d,
                       const FaissFactory& factory)
    : metric_(metric), n_(n), d_(d), factory_(factory), step_(StepOf(n)) {}

FaissIndex::FaissIndex(FaissIndex&&) noexcept = default;
FaissIndex& FaissIndex::operator=(FaissIndex&&) noexcept = default;
FaissIndex::~FaissIndex() = default;

void FaissIndex::Append(VectorView vector, std::vector<float>* out) const {
  out->insert(out->end(), vector.begin(), vector.end());
  float* const made = out->data() + out->size() - vector.size();
  if (metric_ == Metric::kCosine) {
    internal_tree::ToUnit(vector, made);
    return;
  }
  // Only a query is beyond: its neighbours then are as good as any.
  const double factor = std::ldexp(1.0, static_cast<int>(shift_));
  for (size_t i = 0; i < vector.size(); ++i) {
    made[i] = static_cast<float>(
        std::clamp(vector[i] * factor, -kMostComponent, kMostComponent));
  }
}

void FaissIndex::Make() {
  index_.reset(faiss::index_factory(
      static_cast<int>(d_), factory_.Text().c_str(),
      metric_ == Metric::kInnerProduct ? faiss::METRIC_INNER_PRODUCT
                                       : faiss::METRIC_L2));
  // The sample is chosen here; small ones are no cause for alarm.
  if (faiss::IndexIVF* const lists = ListsOf(*index_)) {
    lists->cp.min_points_per_centroid = 1;
    lists->cp.max_points_per_centroid = FaissFactory::kTrainedPerMean;
    if (auto* const product = dynamic_cast<faiss::IndexIVFPQ*>(lists)) {
      product->pq.cp.min_points_per_centroid = 1;
      // An order of the codes that nothing here uses, and takes minutes.
      product->do_polysemous_training = false;
    }
  }
}

// Finds out what part of the neighbours is found at which effort.
class FaissIndex::Measurer {
 public:
  // `held` rows with the last labels are not in the index yet.
  Measurer(const FaissIndex& index, const ScanRows& rows, int64_t held,
           absl::FunctionRef<bool()> stop)
      : index_(index), rows_(rows), held_(held), stop_(stop) {}

  absl::Status Run(std::vector<Measured>* measured) {
    if (!FindTruth()) return absl::CancelledError("the build was stopped");
    float before = 0;
    for (const int64_t effort : Efforts()) {
      std::vector<Measured> at;
      const absl::Status status = MeasureAt(effort, &at);
      if (!status.ok()) return status;
      measured->insert(measured->end(), at.begin(), at.end());
      // More finds hardly more.
      const float best = LeastOfBest(at);
      if (best >= kAll || (best > 0.5F && best < before + 0.001F)) break;
      before = best;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kKs = std::size(kTrainedK);
  struct Sums {
    double sum[kKs] = {};
    double squares[kKs] = {};
  };

  // 1, 2, 3, 4, 6, 8, 12, ... as long as a scan does not cost less.
  std::vector<int64_t> Efforts() const {
    const bool graph = index_.factory_.graph();
    const int64_t least = graph ? 8 : 1;
    const int64_t most = graph ? std::min<int64_t>(4096, index_.n_ / 8)
                               : std::max(1, index_.factory_.lists / 2);
    std::vector<int64_t> efforts;
    for (int64_t e = least; e <= most; e = (e & (e - 1)) == 0 && e > 1
                                               ? e + e / 2
                                               : (e == 1 ? 2 : e / 3 * 4)) {
      efforts.push_back(e);
    }
    return efforts;
  }

  // The part found for the k for which it is least.
  static float LeastOfBest(const std::vector<Measured>& at) {
    float least = 1;
    for (size_t i = 0; i < kKs; ++i) {
      float best = 0;
      for (const Measured& one : at) best = std::max(best, one.found[i]);
      least = std::min(least, best);
    }
    return least;
  }

  int64_t HeldRow(int64_t i) const {
    return index_.RowOf(index_.n_ - held_ + i);
  }

  // The farthest neighbour of each held row, for each k, among the others.
  bool FindTruth() {
    std::vector<PointId> ids(static_cast<size_t>(index_.n_));
    std::iota(ids.begin(), ids.end(), PointId{0});
    std::vector<uint64_t> live((ids.size() + 63) / 64, ~uint64_t{0});
    std::vector<float> data;
    for (int64_t i = 0; i < held_; ++i) {
      const int64_t row = HeldRow(i);
      live[static_cast<size_t>(row / 64)] &= ~(uint64_t{1} << (row % 64));
      const VectorView v = rows_.rows.row(row);
      data.insert(data.end(), v.begin(), v.end());
    }
    const ScanQueries queries(index_.metric_,
                              {data.data(), held_, index_.d_, index_.d_});
    std::vector<TopK> tops(static_cast<size_t>(held_),
                           TopK(kTrainedK[kKs - 1]));
    std::vector<ScanAccount> accounts(tops.size());
    ScanRows others = rows_;
    others.ids = ids.data();
    others.live = live.data();
    if (!ExactScan(queries, others, 0, index_.n_, absl::MakeSpan(tops),
                   absl::MakeSpan(accounts), stop_)) {
      return false;
    }
    for (TopK& top : tops) {
      std::vector<double>& farthest = farthest_.emplace_back();
      const std::vector<Neighbor> found = top.TakeSorted();
      for (const int64_t k : kTrainedK) {
        farthest.push_back(found[static_cast<size_t>(k - 1)].distance);
      }
    }
    return true;
  }

  absl::Status MeasureAt(int64_t effort,
                         std::vector<Measured>* measured) const {
    const bool plain = index_.factory_.code == FaissFactory::Code::kFloat;
    const int64_t most = index_.factory_.graph()
                             ? std::min(effort, kMostMeasured)
                             : kMostMeasured;
    const size_t tried = plain ? 1 : std::size(kTimes);
    std::vector<Sums> sums(tried);
    for (int64_t q = 0; q < held_; ++q) {
      auto candidates = index_.Candidates(
          rows_.rows.row(HeldRow(q)),
          {effort, plain ? std::min<int64_t>(most, 100) : most}, nullptr,
          stop_);
      if (!candidates.ok()) return candidates.status();
      if (stop_()) return absl::CancelledError("the build was stopped");
      Count(q, *candidates, absl::MakeSpan(sums));
    }
    for (size_t t = 0; t < tried; ++t) {
      Measured& one = measured->emplace_back();
      one.effort = static_cast<float>(effort);
      one.times = static_cast<float>(kTimes[t]);
      for (size_t i = 0; i < kKs; ++i) {
        one.found[i] = kTimes[t] * kTrainedK[i] > most
                           ? -1.0F
                           : LeastMean(sums[t].sum[i], sums[t].squares[i]);
      }
    }
    return absl::OkStatus();
  }

  // Adds what of the neighbours is among the first candidates.
  void Count(int64_t q, const std::vector<int64_t>& candidates,
             absl::Span<Sums> sums) const {
    const std::vector<double>& farthest = farthest_[static_cast<size_t>(q)];
    const VectorView query = rows_.rows.row(HeldRow(q));
    std::vector<double> distances;
    for (const int64_t row : candidates) {
      distances.push_back(
          CanonicalDistance(index_.metric_, query, rows_.rows.row(row)));
    }
    for (size_t t = 0; t < sums.size(); ++t) {
      for (size_t i = 0; i < kKs; ++i) {
        const auto seen = static_cast<std::ptrdiff_t>(std::min(
            distances.size(), static_cast<size_t>(kTimes[t] * kTrainedK[i])));
        const auto near = std::count_if(
            distances.begin(), distances.begin() + seen,
            [&](double distance) { return distance <= farthest[i]; });
        const double share = std::min(
            1.0, static_cast<double>(near) / static_cast<double>(kTrainedK[i]));
        sums[t].sum[i] += share;
        sums[t].squares[i] += share * share;
      }
    }
  }

  float LeastMean(double sum, double squares) const {
    const auto n = static_cast<double>(held_);
    const double mean = sum / n;
    // As if one half-found query more had been asked: none is never sure.
    const double variance = std::max(
        0.0, (squares + 0.25) / (n + 1) - std::pow((sum + 0.5) / (n + 1), 2));
    return static_cast<float>(
        std::max(0.0, mean - kErrors * std::sqrt(variance / n)));
  }

  const FaissIndex& index_;
  const ScanRows& rows_;
  const int64_t held_;
  const absl::FunctionRef<bool()> stop_;
  std::vector<std::vector<double>> farthest_;  // by held row and k
};

// Makes an index of rows.
class FaissIndex::Builder {
 public:
  Builder(FaissIndex* index, const ScanRows& rows,
          absl::FunctionRef<bool()> stop)
      : index_(*index), rows_(rows), stop_(stop) {}

  absl::Status Run() {
    absl::Status status = Guarded(absl::StatusCode::kInvalidArgument, stop_,
                                  [this] { index_.Make(); });
    if (!status.ok() || index_.n_ == 0) return status;
    const int64_t held =
        index_.n_ < kLeastMeasured ? 0 : std::min(kHeld, index_.n_ / 8);
    Pack();
    status = Guarded(absl::StatusCode::kInternal, stop_, [&] {
      if (!index_.index_->is_trained) {
        index_.index_->train(index_.factory_.TrainingRows(index_.n_),
                             packed_.data());
      }
      index_.index_->add(index_.n_ - held, packed_.data());
    });
    if (!status.ok() || held == 0) return status;
    status = Measurer(index_, rows_, held, stop_).Run(&index_.measured_);
    if (!status.ok()) return status;
    return Guarded(absl::StatusCode::kInternal, stop_, [&] {
      index_.index_->add(held, packed_.data() + (index_.n_ - held) * index_.d_);
    });
  }

 private:
  // By label, components of at most 1.
  void Pack() {
    float most = 0;
    for (int64_t i = 0; i < index_.n_; ++i) {
      for (const float x : rows_.rows.row(i)) {
        most = std::max(most, std::fabs(x));
      }
    }
    if (most > 0 && index_.metric_ != Metric::kCosine) {
      index_.shift_ = -(std::ilogb(most) + 1);
    }
    packed_.reserve(static_cast<size_t>(index_.n_ * index_.d_));
    for (int64_t label = 0; label < index_.n_; ++label) {
      index_.Append(rows_.rows.row(index_.RowOf(label)), &packed_);
    }
  }

  FaissIndex& index_;
  const ScanRows& rows_;
  const absl::FunctionRef<bool()> stop_;
  std::vector<float> packed_;
};

absl::StatusOr<FaissIndex> FaissIndex::Build(Metric metric,
                                             const ScanRows& rows,
                                             const FaissFactory& factory,
                                             absl::FunctionRef<bool()> stop) {
  const int64_t n = rows.rows.n;
  const int64_t d = rows.rows.d;
  absl::Status status = factory.Check(metric, d);
  if (status.ok() && n > 0) status = factory.CheckRows(d, n);
  if (!status.ok()) return status;
  FaissIndex index(metric, n, d, factory.For(n));
  status = Builder(&index, rows, stop).Run();
  if (!status.ok()) return status;
  return index;
}

int64_t FaissIndex::MemoryBytes() const {
  return factory_.KeptBytes(d_, n_) +
         static_cast<int64_t>(measured_.size() * sizeof(Measured));
}

int64_t FaissIndex::DefaultRescored(int64_t k) const {
  switch (factory_.code) {
    case FaissFactory::Code::kFloat:
      return k;
    case FaissFactory::Code::kHalf:
    case FaissFactory::Code::kScalar8:
      return 2 * k + 16;
    case FaissFactory::Code::kScalar6:
    case FaissFactory::Code::kScalar4:
      return 4 * k + 32;
    case FaissFactory::Code::kProduct:
      break;
  }
  return 16 * k + 64;
}

std::optional<FaissEffort> FaissIndex::EffortFor(double k, double share) const {
  size_t at = 0;
  while (at + 1 < std::size(kTrainedK) &&
         static_cast<double>(kTrainedK[at]) < k) {
    ++at;
  }
  // What a larger k than any measured takes, in proportion.
  const double more = std::max(1.0, k / static_cast<double>(kTrainedK[at]));
  std::optional<FaissEffort> best;
  double least = std::numeric_limits<double>::infinity();
  for (const Measured& one : measured_) {
    if (one.found[at] < share) continue;
    FaissEffort effort;
    effort.effort = static_cast<int64_t>(std::ceil(one.effort * more));
    if (!factory_.graph()) {
      effort.effort = std::min<int64_t>(effort.effort, factory_.lists);
    }
    effort.rescored =
        static_cast<int64_t>(std::ceil(one.times * std::max(k, 1.0)));
    const double work = Work(effort);
    if (work < least) {
      least = work;
      best = effort;
    }
  }
  return best;
}

double FaissIndex::Work(const FaissEffort& effort) const {
  const auto d = static_cast<double>(d_);
  const auto turned = static_cast<double>(factory_.dimension(d_));
  double work = factory_.turn == FaissFactory::Turn::kNone ? 0 : d * turned / 4;
  // Canonical distances, at random places.
  work += static_cast<double>(effort.rescored) * (d / 2 + 64);
  // A component of a code, unpacked.
  const double component =
      factory_.code == FaissFactory::Code::kFloat ? 1 : 1.5;
  if (factory_.graph()) {
    // Of 2 M links of each row passed, about half lead to rows seen before.
    return work + static_cast<double>(effort.effort * factory_.links) *
                      (component * turned + 32);
  }
  const auto lists = static_cast<double>(factory_.lists);
  const double rows =
      static_cast<double>(n_) * static_cast<double>(effort.effort) / lists;
  work += lists * turned;
  if (factory_.code != FaissFactory::Code::kProduct) {
    return work + rows * (component * turned + 4);
  }
  const double table = turned * static_cast<double>(1 << factory_.bits);
  return work + table + rows * (factory_.parts + 4) +
         static_cast<double>(effort.effort) * table / 8;
}

absl::StatusOr<std::vector<int64_t>> FaissIndex::Candidates(
    VectorView query, const FaissEffort& effort, const uint64_t* live,
    absl::FunctionRef<bool()> stop) const {
  std::vector<int64_t> found;
  int64_t count = std::min<int64_t>(effort.rescored, index_->ntotal);
  if (count == 0) return found;
  int64_t width = std::min(effort.effort, n_);
  if (factory_.graph()) {
    // FAISS 1.7.3 takes the width of the way from what is asked for, and heeds
    // efSearch only where it is to end.
    width = std::max(width, count);
    count = std::min<int64_t>(width, index_->ntotal);
  }
  LiveLabels wanted(live, step_, n_);
  std::vector<float> packed;
  Append(query, &packed);
  std::vector<float> values(static_cast<size_t>(count));
  std::vector<faiss::Index::idx_t> labels(values.size(), -1);
  const absl::Status status = Guarded(absl::StatusCode::kInternal, stop, [&] {
    const Parameters parameters(*index_, width,
                                live != nullptr ? &wanted : nullptr);
    index_->search(1, packed.data(), count, values.data(), labels.data(),
                   parameters.get());
  });
  if (!status.ok()) return status;
  for (const faiss::Index::idx_t label : labels) {
    if (static_cast<int64_t>(found.size()) == effort.rescored) break;
    if (label < 0 || label >= n_) continue;
    if (live == nullptr || wanted.is_member(label)) {
      found.push_back(RowOf(label));
    }
  }
  return found;
}

}  // namespace coterie
