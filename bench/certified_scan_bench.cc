// Certified scan against the float32 exact scan, one thread, same answers.
//
//   certified_scan_bench [NAME ...]   names of the data sets below; default all
//
// Prints one JSON object a line. QUICK=1 runs each case once. Synthetic data
// are independent normal deviates: the least favourable case for pruning at a
// given dimension, and the same on every machine.

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/code_simd.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {
namespace {

struct DataSet {
  std::string name;
  int64_t n;
  int64_t d;
  Metric metric;
};

constexpr int64_t kNeighbors = 10;

const std::vector<DataSet>& DataSets() {
  static const auto& sets = *new std::vector<DataSet>{
      {"gauss-341k-100", 341'000, 100, Metric::kSquaredL2},
      {"gauss-70k-784", 70'000, 784, Metric::kSquaredL2},
      {"gauss-341k-100-ip", 341'000, 100, Metric::kInnerProduct},
      {"gauss-341k-100-cosine", 341'000, 100, Metric::kCosine},
  };
  return sets;
}

// CPU time of this thread: what else runs on the machine counts less.
double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
  return v[v.size() / 2];
}

std::vector<float> Normal(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = normal(random);
  return values;
}

struct Answer {
  std::vector<std::vector<Neighbor>> neighbors;
  int64_t evaluated = 0;
  double seconds = 0;
};

template <typename ScanFn>
Answer Measure(int64_t queries, ScanFn scan) {
  std::vector<TopK> tops(static_cast<size_t>(queries), TopK(kNeighbors));
  std::vector<ScanAccount> accounts(tops.size());
  const double start = Now();
  scan(absl::MakeSpan(tops), absl::MakeSpan(accounts));
  Answer answer;
  answer.seconds = Now() - start;
  for (TopK& top : tops) answer.neighbors.push_back(top.TakeSorted());
  for (const ScanAccount& a : accounts) answer.evaluated += a.evaluated;
  return answer;
}

// One data set, ready to search both ways.
class Case {
 public:
  explicit Case(const DataSet& set)
      : set_(set), data_(Normal(set.n * set.d, 1)), ids_(size()) {
    for (size_t i = 0; i < ids_.size(); ++i) ids_[i] = i;
    if (set.metric != Metric::kSquaredL2) {
      for (int64_t i = 0; i < set.n; ++i) {
        norms_.push_back(CanonicalSquaredNorm(View().row(i)));
      }
    }
    const double start = Now();
    codes_.emplace_back(set.metric, View());
    absl::PrintF(
        "{\"bench\":\"certified_scan\",\"case\":\"%s/build\",\"metric\":"
        "\"rows per second\",\"unit\":\"1/s\",\"ours\":%.4g,"
        "\"bytes_per_row\":%.4g}\n",
        set.name, set.n / (Now() - start),
        static_cast<double>(codes_[0].MemoryBytes()) / set.n);
  }

  // `runs` batches of `batch` queries, alternated with the peer.
  void Run(int64_t batch, int64_t runs) {
    std::vector<double> ours;
    std::vector<double> peer;
    bool same = true;
    int64_t evaluated = 0;
    for (int64_t run = 0; run < runs; ++run) {
      const std::vector<float> raw =
          Normal(batch * set_.d, static_cast<uint64_t>(1000 + run));
      const ScanQueries queries(set_.metric,
                                {raw.data(), batch, set_.d, set_.d});
      const ScanRows rows = {View(), ids_.data(), norms_.data(), nullptr};
      const auto never = [] { return false; };
      const Answer exact = Measure(batch, [&](auto tops, auto accounts) {
        ExactScan(queries, rows, 0, set_.n, tops, accounts, never);
      });
      const Answer certified = Measure(batch, [&](auto tops, auto accounts) {
        const CertifiedQueries coded(queries, codes_[0]);
        CertifiedScan(coded, rows, 0, set_.n, tops, accounts, never);
      });
      same = same && exact.neighbors == certified.neighbors;
      evaluated += certified.evaluated;
      ours.push_back(certified.seconds / batch);
      peer.push_back(exact.seconds / batch);
    }
    Print(batch, runs, Median(ours), Median(peer), same,
          static_cast<double>(evaluated) / (batch * runs));
  }

 private:
  size_t size() const { return static_cast<size_t>(set_.n); }
  RowsView View() const { return {data_.data(), set_.n, set_.d, set_.d}; }

  void Print(int64_t batch, int64_t runs, double ours, double peer, bool same,
             double rescored) const {
    const double macs = static_cast<double>(set_.n) * set_.d;
    const double bytes =
        static_cast<double>(set_.n) * (4.0 * codes_[0].quads() + 8);
    absl::PrintF(
        "{\"bench\":\"certified_scan\",\"case\":\"%s/%s/batch=%d/k=%d/"
        "threads=1\",\"metric\":\"CPU time per query\",\"unit\":\"ms\","
        "\"ours\":%.4g,\"peer\":%.4g,\"peer_name\":\"float32 exact scan\","
        "\"ratio\":%.3g,\"checked\":%s,\"runs\":%d,\"rescored\":%.4g,"
        "\"gigabytes_per_second\":%.3g,\"gigamacs_per_second\":%.4g,"
        "\"peer_gigabytes_per_second\":%.3g,\"command\":"
        "\"certified_scan_bench %s\",\"machine\":\"%s, %s\"}\n",
        set_.name, MetricName(set_.metric), batch, kNeighbors, ours * 1e3,
        peer * 1e3, peer / ours, same ? "true" : "false", runs, rescored,
        bytes / ours / 1e9, macs / ours / 1e9, 4 * macs / peer / 1e9, set_.name,
        CodeKernelName(ActiveCodeKernel()), SimdTargetName(ActiveSimdTarget()));
    std::fflush(stdout);
  }

  const DataSet set_;
  const std::vector<float> data_;
  std::vector<PointId> ids_;
  std::vector<double> norms_;
  std::vector<CertifiedCodes> codes_;
};

int Main(absl::Span<char* const> names) {
  const char* quick = std::getenv("QUICK");
  const bool once = quick != nullptr && *quick == '1';
  for (const DataSet& set : DataSets()) {
    if (!names.empty() && !absl::c_linear_search(names, set.name)) continue;
    Case one(set);
    one.Run(1, once ? 5 : 51);
    one.Run(16, once ? 1 : 11);
    one.Run(1000, once ? 1 : 3);
  }
  return 0;
}

}  // namespace
}  // namespace coterie

int main(int argc, char** argv) {
  return coterie::Main(
      absl::MakeConstSpan(argv + 1, static_cast<size_t>(argc - 1)));
}
