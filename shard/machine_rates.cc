#include "shard/machine_rates.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/exact_scan.h"
#include "index/faiss_factory.h"
#include "index/faiss_index.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {
namespace {

// Rows and queries of the measurement: 2 MiB of codes, beyond the second cache.
constexpr int64_t kRows = 16384;
constexpr int64_t kDimension = 128;
constexpr int64_t kBatch = 64;

// The least of a few, as others use the machine as well.
template <typename Run>
double SecondsOf(Run run) {
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
  return least;
}

// Of one component that FAISS compares: it reads all rows of a single list.
double MeasureFaiss(RowsView rows) {
  const auto never = [] { return false; };
  const auto factory = FaissFactory::Parse("IVF1,Flat");
  const auto index = FaissIndex::Build(
      Metric::kSquaredL2, {rows, nullptr, nullptr, nullptr}, *factory, never);
  // Nobody builds more if this fails.
  if (!index.ok()) return 1;
  const FaissEffort all = {1, 10};
  return SecondsOf([&] {
           index->Candidates(rows.row(0), all, nullptr, never).IgnoreError();
         }) /
         static_cast<double>(rows.n * rows.d);
}

SearchRates Measure() {
  std::vector<float> data(static_cast<size_t>(kRows * kDimension));
  uint32_t state = 1;
  for (float& x : data) {
    state = state * 1664525 + 1013904223;
    x = static_cast<float>(state >> 8) * 0x1p-24F;
  }
  std::vector<PointId> ids(static_cast<size_t>(kRows));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  const ScanRows rows = {{data.data(), kRows, kDimension, kDimension},
                         ids.data(),
                         nullptr,
                         nullptr};
  const CertifiedCodes codes(Metric::kSquaredL2, rows.rows);
  const auto scan = [&](int64_t count) {
    const ScanQueries queries(Metric::kSquaredL2,
                              {data.data(), count, kDimension, kDimension});
    const CertifiedQueries coded(queries, codes);
    std::vector<TopK> tops(static_cast<size_t>(count), TopK(10));
    std::vector<ScanAccount> accounts(tops.size());
    return SecondsOf([&] {
      CertifiedScan(coded, rows, 0, kRows, absl::MakeSpan(tops),
                    absl::MakeSpan(accounts), [] { return false; });
    });
  };
  constexpr auto kCodeBytes = static_cast<double>(kRows * (kDimension + 8));
  constexpr auto kFloatBytes = static_cast<double>(kRows * kDimension * 4);
  SearchRates rates;
  rates.code_byte = scan(1) / kCodeBytes;
  rates.code_byte_batch =
      scan(kBatch) / kCodeBytes / static_cast<double>(kBatch);
  const ScanQueries one(Metric::kSquaredL2,
                        {data.data(), 1, kDimension, kDimension});
  rates.float_byte =
      SecondsOf([&] {
        std::vector<TopK> tops(1, TopK(10));
        std::vector<ScanAccount> accounts(1);
        ExactScan(one, rows, 0, kRows, absl::MakeSpan(tops),
                  absl::MakeSpan(accounts), [] { return false; });
      }) /
      kFloatBytes;
  rates.faiss_component =
      MeasureFaiss({data.data(), 1000, kDimension, kDimension});
  return rates;
}

}  // namespace

const SearchRates& MachineRates() {
  static const SearchRates* const rates = new SearchRates(Measure());
  return *rates;
}

}  // namespace coterie
