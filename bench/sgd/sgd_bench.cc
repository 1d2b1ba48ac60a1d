// Prints one JSON object a line for each run of bench/sgd/experiments.h.
//
//   sgd_bench A1A.libsvm MUSHROOMS.libsvm

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/sgd/experiments.h"

namespace coterie {
namespace {

constexpr auto kTheorem = SgdSchedule::kTheorem;
constexpr auto kTight = SgdSchedule::kTight;

class Printer {
 public:
  Printer(const SgdProblem& problem, std::string data, double gap)
      : problem_(problem), data_(std::move(data)), gap_(gap) {}

  absl::Status Add(const std::string& method, const std::string& u,
                   const SgdOptions& options, int32_t n) {
    absl::StatusOr<SgdRun> run = RunToGap(problem_, options, gap_);
    if (!run.ok()) {
      return absl::Status(
          run.status().code(),
          absl::StrCat(method, " on ", data_, ": ", run.status().message()));
    }
    Print(method, u, n, *run);
    return absl::OkStatus();
  }
  void Print(const std::string& method, const std::string& u, int32_t n,
             const SgdRun& run) const {
    std::printf(
        "{\"method\": \"%s\", \"data\": \"%s\", \"n\": %d, \"ntau\": \"%s\", "
        "\"updates\": %lld, \"gap\": %.6g, \"target\": %g, \"bytes_up\": %lld, "
        "\"bytes_down\": %lld, \"tau\": %.9g}\n",
        method.c_str(), data_.c_str(), n, u.c_str(),
        static_cast<long long>(run.updates), run.gap, gap_,
        static_cast<long long>(run.bytes_up),
        static_cast<long long>(run.bytes_down), run.share);
    std::fflush(stdout);
  }

  absl::Status Add(const std::string& method, SgdMethod kind, int32_t n,
                   double u, SgdSchedule schedule) {
    return Add(method, absl::StrCat(u),
               ExperimentOptions(problem_, kind, n, u, schedule), n);
  }

 private:
  const SgdProblem& problem_;
  const std::string data_;
  const double gap_;
};

absl::Status All(std::initializer_list<absl::Status> all) {
  for (const absl::Status& s : all) {
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status AddDescent(Printer& printer, int32_t n) {
  constexpr auto kGd = SgdMethod::kGradientDescent;
  return All({printer.Add("GD(1/2L)", kGd, n, n, kTheorem),
              printer.Add("GD(1/L)", kGd, n, n, kTight)});
}

// Figures 3 and 4, and the control: one generator for all workers.
absl::Status Quadratic(int32_t n) {
  SgdProblem problem = QuadraticProblem(n, 100, 50, 7600);
  Printer printer(problem, "quadratic", 1e-8);
  if (absl::Status s = AddDescent(printer, n); !s.ok()) return s;
  for (double u : {0.5, 1.0, 2.0, 4.0}) {
    absl::Status s = printer.Add("IBCD", SgdMethod::kIbcd, n, u, kTight);
    if (!s.ok()) return s;
  }
  absl::Status s =
      printer.Add("IBCD(theorem 1)", SgdMethod::kIbcd, n, 1, kTheorem);
  if (!s.ok()) return s;
  LayOut(SgdLayout::kDealt, 1, problem);
  SgdOptions same =
      ExperimentOptions(problem, SgdMethod::kIbcd, 1, 1.0 / n, kTight);
  same.blocks = n;
  return printer.Add("same blocks", "1", same, n);
}

// What else sends little, at one number of workers.
absl::Status AddCompressors(const SgdProblem& problem, Printer& printer,
                            int32_t n) {
  SgdOptions perm = ExperimentOptions(problem, SgdMethod::kIsega, n, 1, kTight);
  perm.compressor = SgdCompressor::kPermBlock;
  SgdOptions dither = perm;
  dither.compressor = SgdCompressor::kQsgd;
  dither.levels = 3;
  SgdOptions half = ExperimentOptions(problem, SgdMethod::kEf21, n, n, kTight);
  half.compressor = SgdCompressor::kBf16;
  return All(
      {printer.Add("EF21 top-1", SgdMethod::kEf21, n, 1, kTight),
       printer.Add("dealt blocks, shift", "1", perm, n),
       printer.Add("qsgd(3), shift", "all", dither, n),
       printer.Add("bf16, EF21", "all", half, n),
       printer.Add("ISEGA(theorem 3)", SgdMethod::kIsega, n, 1, kTheorem)});
}

// Figures 2, 11 and 12, and where plain blocks stall.
absl::Status Logistic(SgdProblem& problem, const std::string& data) {
  for (int32_t n : {5, 20, 50, 100}) {
    LayOut(SgdLayout::kDealt, n, problem);
    Printer printer(problem, data, 1e-5);
    if (absl::Status s = AddDescent(printer, n); !s.ok()) return s;
    for (double u : {0.5, 1.0, 2.0, 4.0}) {
      absl::Status s = printer.Add("ISEGA", SgdMethod::kIsega, n, u, kTight);
      if (!s.ok()) return s;
    }
    if (n == 20) {
      absl::Status s = AddCompressors(problem, printer, n);
      if (!s.ok()) return s;
    }
    SgdOptions plain =
        ExperimentOptions(problem, SgdMethod::kIbcd, n, 1, kTight);
    plain.max_updates = 6000;
    if (absl::Status s = printer.Add("IBCD", "1", plain, n); !s.ok()) return s;
  }
  LayOut(SgdLayout::kSorted, 20, problem);
  Printer printer(problem, data + " sorted", 1e-5);
  SgdOptions plain =
      ExperimentOptions(problem, SgdMethod::kIbcd, 20, 1, kTight);
  plain.max_updates = 6000;
  return All({AddDescent(printer, 20),
              printer.Add("ISEGA", SgdMethod::kIsega, 20, 1, kTight),
              printer.Add("IBCD", "1", plain, 20)});
}

// Figures 7 and 8: momentum, with the best constant of strong growth of a
// grid, beside Nesterov's method, which is it with whole gradients.
absl::Status Accelerated(int32_t n) {
  const SgdProblem problem = QuadraticProblem(n, 100, 20, 7600);
  const Printer printer(problem, "quadratic, rank 20", 1e-8);
  for (double u : {static_cast<double>(n), 1.0, 2.0, 4.0}) {
    SgdOptions options =
        ExperimentOptions(problem, SgdMethod::kAccelerated, n, u, kTight);
    options.strong_convexity = problem.convexity;
    options.max_updates = 3000;
    double growth = 0;
    const absl::StatusOr<SgdRun> run = RunAccelerated(
        problem, options, 1e-8, {1, 1.5, 2, 3, 4, 6, 8, 12}, &growth);
    if (!run.ok()) return run.status();
    const bool whole = u == n;
    printer.Print(
        whole ? "Nesterov" : absl::StrCat("accelerated, growth ", growth),
        whole ? "all" : absl::StrCat(u), n, *run);
  }
  return absl::OkStatus();
}

// Figures 5 and 6: one row a worker, a constant step that is 1/(5L) in effect.
absl::Status Stochastic(SgdProblem& problem, const std::string& data) {
  struct Case {
    int32_t n;
    double u;
  };
  for (const Case& c : {Case{1, 1}, Case{10, 1}, Case{50, 1}, Case{10, 0.5},
                        Case{10, 4}, Case{10, 10}}) {
    LayOut(SgdLayout::kDealt, c.n, problem);
    SgdOptions options = ExperimentOptions(
        problem, c.n == 1 ? SgdMethod::kSgd : SgdMethod::kIsgd, c.n, c.u,
        SgdSchedule::kConstant);
    options.sampling = SgdSampling::kIndependent;
    options.step = 1 / (5 * problem.smoothness * c.u / c.n);
    const absl::StatusOr<SgdRun> run = RunToNoise(problem, options, 20'000);
    if (!run.ok()) return run.status();
    Printer(problem, data, 0)
        .Print(c.n == 1 ? "SGD" : "ISGD", absl::StrCat(c.u), c.n, *run);
  }
  return absl::OkStatus();
}

// Figures 1, 9 and 10: rows dealt anew in each step, one a worker.
absl::Status Saga(SgdProblem& problem, const std::string& data) {
  for (int32_t n : {1, 5, 20}) {
    LayOut(SgdLayout::kDealt, n, problem);
    Printer printer(problem, data, 1e-4);
    SgdOptions options =
        ExperimentOptions(problem, SgdMethod::kIsagaShared, n, 1, kTight);
    options.max_updates = 60'000;
    absl::Status s = printer.Add(n == 1 ? "SAGA" : "ISAGA", "1", options, n);
    if (!s.ok()) return s;
    if (n != 20) continue;
    for (double u : {2.0, 5.0, 20.0}) {
      s = printer.Add("ISAGA", SgdMethod::kIsagaShared, n, u, kTight);
      if (!s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::Status Run(const char* a1a, const char* mushrooms) {
  for (int32_t n : {5, 10, 20, 50}) {
    if (absl::Status s = Quadratic(n); !s.ok()) return s;
  }
  for (int32_t n : {10, 20}) {
    if (absl::Status s = Accelerated(n); !s.ok()) return s;
  }
  absl::StatusOr<SgdProblem> small = LogisticProblem(a1a, 123);
  if (!small.ok()) return small.status();
  if (absl::Status s = Logistic(*small, "a1a"); !s.ok()) return s;
  if (absl::Status s = Saga(*small, "a1a"); !s.ok()) return s;
  if (absl::Status s = Stochastic(*small, "a1a"); !s.ok()) return s;
  absl::StatusOr<SgdProblem> large = LogisticProblem(mushrooms, 116);
  if (!large.ok()) return large.status();
  return Logistic(*large, "mushrooms");
}

}  // namespace
}  // namespace coterie

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "sgd_bench A1A.libsvm MUSHROOMS.libsvm\n");
    return 2;
  }
  const absl::Status status = coterie::Run(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "sgd_bench: %s\n",
               std::string(status.message()).c_str());
  return 1;
}
