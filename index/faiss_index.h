// An index of FAISS as a source of candidates: rows that it holds for near,
// which are then re-scored canonically (index/faiss_search.h). Which rows
// become candidates is FAISS's affair; nothing found this way is certified.
//
// What it takes to find a part of the neighbours is measured when the index is
// built: up to 256 rows, spread over the data, are held back, asked for at
// rising effort while they are not yet in it, and compared with a scan.
//
// All finite rows are accepted: FAISS gets them times a power of two, so that
// its float32 distances stay finite, as its training asserts.
//
// FAISS's exceptions become Status. It works on the calling thread alone.

#ifndef COTERIE_INDEX_FAISS_INDEX_H_
#define COTERIE_INDEX_FAISS_INDEX_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "index/exact_scan.h"
#include "index/faiss_factory.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace faiss {
struct Index;
}

namespace coterie {

// How hard to look.
struct FaissEffort {
  int64_t effort = 0;    // of lists: nprobe, to be read; of a graph: efSearch
  int64_t rescored = 0;  // candidates
};

// Immutable; any number of threads may share it. Rows are known by number.
class FaissIndex {
 public:
  // For these k it is measured what part is found.
  static constexpr int64_t kTrainedK[] = {1, 10, 100};
  static constexpr int64_t kLeastMeasured = 1024;  // rows
  // More candidates are not measured.
  static constexpr int64_t kMostMeasured = 1024;

  // What was measured at one effort and `times` k candidates: the part found
  // for each trained k, less 1.65 standard errors; negative: not measured.
  struct Measured {
    float effort = 0;
    float times = 0;
    float found[3] = {};
  };

  // The index as plain memory: what to write to disk and to read back.
  struct Parts {
    Metric metric = Metric::kSquaredL2;
    int64_t n = 0;
    int64_t d = 0;
    int64_t shift = 0;          // FAISS has rows times 2^shift
    std::string factory;        // lists as they are
    std::vector<float> turn;    // matrix, then offset if it has one
    std::vector<float> means;   // of lists
    std::vector<float> code;    // what codes are made by
    std::vector<uint8_t> data;  // codes, of lists list after list
    // Lists: their lengths, then their labels. A graph: levels of rows, then
    // links, then where to start.
    std::vector<int32_t> links;
    std::vector<float> measured;
  };

  // Under COSINE rows are scaled to length 1. The same index whatever the CPU
  // has for threads. INVALID_ARGUMENT if the factory is not for these rows,
  // CANCELLED if `stop` says true, RESOURCE_EXHAUSTED or INTERNAL with FAISS's
  // words. REQUIRES: as ExactScan, fewer than 2^31 rows. Of rows.live, nothing
  // is heeded. Time is FAISS's, and of 256 scans.
  static absl::StatusOr<FaissIndex> Build(Metric metric, const ScanRows& rows,
                                          const FaissFactory& factory,
                                          absl::FunctionRef<bool()> stop);

  // INVALID_ARGUMENT if sizes or references do not fit together: then no
  // search reads beyond the arrays. Values are taken on trust: check a sum.
  static absl::StatusOr<FaissIndex> FromParts(const Parts& parts);
  // Copies. INTERNAL with FAISS's words.
  absl::StatusOr<Parts> parts() const;

  FaissIndex(FaissIndex&&) noexcept;
  FaissIndex& operator=(FaissIndex&&) noexcept;
  ~FaissIndex();

  Metric metric() const { return metric_; }
  int64_t size() const { return n_; }
  int64_t dimension() const { return d_; }
  const FaissFactory& factory() const { return factory_; }
  int64_t MemoryBytes() const;

  // The least work that was measured to find `share` of the k nearest, in
  // expectation; of k beyond the trained ones in proportion to the largest.
  // None: it was not measured, or does not reach so far.
  std::optional<FaissEffort> EffortFor(double k, double share) const;
  // What is re-scored at an effort that is given, if nothing is said.
  int64_t DefaultRescored(int64_t k) const;
  // What it costs, in float32 components that FAISS compares in the same time.
  double Work(const FaissEffort& effort) const;

  // Rows that FAISS holds for near, nearest first, at most effort.rescored,
  // without those that `live` leaves out (as ScanRows::live). CANCELLED if
  // `stop` says true, INTERNAL with FAISS's words. REQUIRES: effort >= 1,
  // rescored >= 1.
  absl::StatusOr<std::vector<int64_t>> Candidates(
      VectorView query, const FaissEffort& effort, const uint64_t* live,
      absl::FunctionRef<bool()> stop) const;

 private:
  class Builder;
  class Measurer;

  FaissIndex(Metric metric, int64_t n, int64_t d, const FaissFactory& factory);

  // Powers of two that rows of finite floats ask for.
  static constexpr int64_t kLeastShift = -128;
  static constexpr int64_t kMostShift = 149;

  // Makes an untrained index_.
  void Make();
  // Adds a vector as FAISS wants it.
  void Append(VectorView vector, std::vector<float>* out) const;
  // Rows are added in this order, each far from the one before.
  int64_t RowOf(int64_t label) const { return label * step_ % n_; }

  Metric metric_;
  int64_t n_;
  int64_t d_;
  FaissFactory factory_;
  int64_t step_;
  int64_t shift_ = 0;
  std::unique_ptr<faiss::Index> index_;
  std::vector<Measured> measured_;
};

}  // namespace coterie

#endif  // COTERIE_INDEX_FAISS_INDEX_H_
