#include "index/certified_kernels.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "index/certified_dispatch.h"
#include "index/code_simd.h"
#include "index/test_vectors.h"

namespace coterie::internal_certified {
namespace {

// A tile of random codes, and what the kernels should find in it.
class Tile {
 public:
  Tile(int64_t groups, int64_t quads, int limit, std::mt19937_64& random)
      : groups_(groups), quads_(quads), limit_(limit) {
    const int64_t rows = groups * kGroupRows;
    codes_.resize(static_cast<size_t>(rows * quads * 4) + 64);
    // At most 255: c = 127. The byte 0 does not occur in codes.
    for (uint8_t& c : codes_) c = static_cast<uint8_t>(1 + random() % 255);
    queries_.resize(static_cast<size_t>(kTileQueries * quads * 4));
    for (int8_t& b : queries_) {
      b = static_cast<int8_t>(static_cast<int64_t>(random() % (2 * limit + 1)) -
                              limit);
    }
    for (int64_t q = 0; q < kTileQueries; ++q) {
      int32_t sum = 0;
      for (int64_t j = 0; j < quads * 4; ++j) sum += Query(q, j);
      starts_.push_back(-128 * sum);
      cut_a_.push_back(static_cast<float>(random() % 1000));
      cut_b_.push_back(static_cast<float>(random() % 1000));
      cut_k_.push_back(-1000);
    }
    for (int64_t i = 0; i < rows; ++i) {
      a_.push_back(static_cast<float>(random() % 8));
      b_.push_back(static_cast<float>(random() % 8));
    }
    for (int64_t g = 0; g < groups; ++g) live_.push_back(random() | random());
  }

  // Codes of largest magnitude: sums that could overflow a narrow type.
  void MakeExtreme() {
    std::fill(codes_.begin(), codes_.end(), 255);
    std::fill(queries_.begin(), queries_.end(), static_cast<int8_t>(limit_));
    std::fill(starts_.begin(), starts_.end(),
              static_cast<int32_t>(-128 * limit_ * quads_ * 4));
  }

  CodeTile View() const {
    return {.codes = codes_.data(),
            .groups = groups_,
            .quads = quads_,
            .a = a_.data(),
            .b = b_.data(),
            .live = live_.data(),
            .queries = reinterpret_cast<const int32_t*>(queries_.data()),
            .query_stride = quads_,
            .starts = starts_.data(),
            .cut_a = cut_a_.data(),
            .cut_b = cut_b_.data(),
            .cut_k = cut_k_.data(),
            .ahead = codes_.data()};
  }

  int64_t rows() const { return groups_ * kGroupRows; }
  int Code(int64_t row, int64_t j) const {
    return codes_[static_cast<size_t>(row / 16 * 16 * quads_ * 4 + j / 4 * 64 +
                                      row % 16 * 4 + j % 4)];
  }
  int64_t Query(int64_t q, int64_t j) const {
    return queries_[static_cast<size_t>(q * quads_ * 4 + j)];
  }
  bool Live(int64_t row) const {
    return (live_[static_cast<size_t>(row / 64)] >> (row % 64) & 1) != 0;
  }
  int64_t Score(int64_t row, int64_t q) const {
    int64_t sum = 0;
    for (int64_t j = 0; j < quads_ * 4; ++j) {
      sum += Query(q, j) * (Code(row, j) - 128);
    }
    return sum;
  }
  // The upper halves of the codes as a plane. The half of a last odd quad that
  // nothing is in holds what must not count.
  PlaneTile Halves(std::vector<uint8_t>& lines) const {
    const int64_t line_count = (quads_ + 1) / 2;
    lines.assign(static_cast<size_t>(rows() / 16 * line_count * 64 + 64), 0xee);
    for (int64_t row = 0; row < rows(); ++row) {
      for (int64_t j = 0; j < quads_ * 4; ++j) {
        uint8_t& byte = lines[static_cast<size_t>(
            row / 16 * line_count * 64 + j / 8 * 64 + row % 16 * 4 + j % 4)];
        const int half = Code(row, j) >> 4;
        byte = static_cast<uint8_t>(j % 8 < 4 ? (byte & 0xf0) | half
                                              : (byte & 0x0f) | half << 4);
      }
    }
    return {.lines = lines.data(),
            .groups = groups_,
            .quads = quads_,
            .a = a_.data(),
            .b = b_.data(),
            .live = live_.data(),
            .queries = reinterpret_cast<const int32_t*>(queries_.data()),
            .query_stride = quads_,
            .starts = {starts_[0] / 128 * 15, starts_[1] / 128 * 15},
            .cut_a = cut_a_[0],
            .cut_b = cut_b_[0],
            .cut_k = cut_k_[0]};
  }
  int64_t HalfScore(int64_t row, int64_t q) const {
    int64_t sum = 0;
    for (int64_t j = 0; j < quads_ * 4; ++j) {
      sum += Query(q, j) * (2 * (Code(row, j) >> 4) - 15);
    }
    return sum;
  }
  // All values are integers that float32 has exactly: so is the comparison.
  bool Stays(int64_t row, int64_t q, int64_t ip) const {
    const size_t r = static_cast<size_t>(row);
    const size_t i = static_cast<size_t>(q);
    const float cut = cut_a_[i] * a_[r] + (cut_b_[i] * b_[r] + cut_k_[i]);
    return Live(row) && !(static_cast<float>(ip) < cut);
  }

  std::vector<float>& a() { return a_; }
  std::vector<float>& b() { return b_; }
  std::vector<float>& cut_a() { return cut_a_; }
  std::vector<float>& cut_k() { return cut_k_; }

 private:
  int64_t groups_;
  int64_t quads_;
  int limit_;
  std::vector<uint8_t> codes_;
  std::vector<int8_t> queries_;
  std::vector<int32_t> starts_;
  std::vector<float> a_;
  std::vector<float> b_;
  std::vector<uint64_t> live_;
  std::vector<float> cut_a_;
  std::vector<float> cut_b_;
  std::vector<float> cut_k_;
};

using Found = std::map<std::pair<int64_t, int64_t>, int64_t>;

Found ToMap(const std::vector<CodeHit>& hits, int64_t count) {
  Found found;
  for (int64_t i = 0; i < count; ++i) {
    const CodeHit& hit = hits[static_cast<size_t>(i)];
    found[{hit.row, hit.query}] = hit.ip;
  }
  return found;
}

Found RunBatch(CodeKernel kernel, const Tile& tile, int64_t queries) {
  std::vector<CodeHit> hits(static_cast<size_t>(tile.rows() * queries));
  const int64_t count =
      BatchKernelFor(kernel)(tile.View(), queries, hits.data());
  const Found found = ToMap(hits, count);
  EXPECT_EQ(static_cast<int64_t>(found.size()), count) << "a hit twice";
  return found;
}

Found RunFine(CodeKernel kernel, const Tile& tile, int low_bits) {
  std::vector<CodeHit> hits(static_cast<size_t>(tile.rows()));
  const int64_t count =
      FineKernelFor(kernel)(tile.View(), low_bits, hits.data());
  const Found found = ToMap(hits, count);
  EXPECT_EQ(static_cast<int64_t>(found.size()), count) << "a hit twice";
  return found;
}

Found RunPlane(CodeKernel kernel, const Tile& tile, int low_bits) {
  std::vector<CodeHit> hits(static_cast<size_t>(tile.rows()));
  std::vector<uint8_t> lines;
  const int64_t count =
      PlaneKernelFor(kernel)(tile.Halves(lines), low_bits, hits.data());
  const Found found = ToMap(hits, count);
  EXPECT_EQ(static_cast<int64_t>(found.size()), count) << "a hit twice";
  return found;
}

// floor(v / 2^bits).
int64_t Floor(int64_t v, int bits) {
  const int64_t step = int64_t{1} << bits;
  return (v - ((v % step) + step) % step) / step;
}

class CertifiedKernelsTest : public testing::TestWithParam<CodeKernel> {};

TEST_P(CertifiedKernelsTest, BatchFindsWhatTheDefinitionSays) {
  std::mt19937_64 random(TestSeed());
  for (int64_t quads : {0, 1, 2, 3, 4, 25, 196}) {
    for (int64_t groups : {0, 1, 3}) {
      for (int64_t queries = 1; queries <= kTileQueries; ++queries) {
        const Tile tile(groups, quads, QueryCodeLimit(GetParam()), random);
        Found expected;
        for (int64_t row = 0; row < tile.rows(); ++row) {
          for (int64_t q = 0; q < queries; ++q) {
            const int64_t ip = tile.Score(row, q);
            if (tile.Stays(row, q, ip)) expected[{row, q}] = ip;
          }
        }
        ASSERT_EQ(RunBatch(GetParam(), tile, queries), expected)
            << quads << " quads, " << groups << " groups, " << queries
            << " queries; SEED=" << TestSeed();
      }
    }
  }
}

TEST_P(CertifiedKernelsTest, FineFloorsTheLowPart) {
  std::mt19937_64 random(TestSeed());
  const int limit = QueryCodeLimit(GetParam());
  const int low_bits = limit == 64 ? 7 : 8;
  for (int64_t quads : {1, 2, 3, 25, 196}) {
    const Tile tile(3, quads, limit, random);
    Found expected;
    for (int64_t row = 0; row < tile.rows(); ++row) {
      const int64_t ip =
          tile.Score(row, 0) + Floor(tile.Score(row, 1), low_bits);
      if (tile.Stays(row, 0, ip)) expected[{row, 0}] = ip;
    }
    ASSERT_EQ(RunFine(GetParam(), tile, low_bits), expected)
        << quads << " quads; SEED=" << TestSeed();
  }
}

TEST_P(CertifiedKernelsTest, PlaneScoresUpperHalves) {
  std::mt19937_64 random(TestSeed());
  const int limit = QueryCodeLimit(GetParam());
  const int low_bits = limit == 64 ? 7 : 8;
  for (int64_t quads : {1, 2, 3, 4, 5, 25, 196}) {
    for (int64_t groups : {0, 1, 3}) {
      const Tile tile(groups, quads, limit, random);
      Found expected;
      for (int64_t row = 0; row < tile.rows(); ++row) {
        const int64_t ip =
            tile.HalfScore(row, 0) + Floor(tile.HalfScore(row, 1), low_bits);
        if (tile.Stays(row, 0, ip)) expected[{row, 0}] = ip;
      }
      ASSERT_EQ(RunPlane(GetParam(), tile, low_bits), expected)
          << quads << " quads, " << groups << " groups; SEED=" << TestSeed();
    }
  }
}

TEST_P(CertifiedKernelsTest, LargestCodesDoNotOverflow) {
  std::mt19937_64 random(TestSeed());
  Tile tile(1, 4096, QueryCodeLimit(GetParam()), random);
  tile.MakeExtreme();
  const Found found = RunBatch(GetParam(), tile, kTileQueries);
  const int64_t expected = 127 * QueryCodeLimit(GetParam()) * int64_t{16384};
  EXPECT_EQ(tile.Score(0, 0), expected);
  ASSERT_FALSE(found.empty());
  for (const auto& [key, ip] : found) ASSERT_EQ(ip, expected);
  for (const auto& [key, ip] : RunPlane(GetParam(), tile, 8)) {
    ASSERT_EQ(ip, tile.HalfScore(0, 0) + Floor(tile.HalfScore(0, 1), 8));
  }
}

TEST_P(CertifiedKernelsTest, NaNKeepsItsRow) {
  std::mt19937_64 random(TestSeed());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tile tile(1, 5, QueryCodeLimit(GetParam()), random);
  // Cuts that nothing passes, but for NaN in one field of a row.
  for (float& k : tile.cut_k()) k = 1e30f;
  EXPECT_TRUE(RunBatch(GetParam(), tile, kTileQueries).empty());
  EXPECT_TRUE(RunFine(GetParam(), tile, 8).empty());
  EXPECT_TRUE(RunPlane(GetParam(), tile, 8).empty());
  int64_t rows[2] = {-1, -1};
  for (int64_t row = 0; row < 64; ++row) {
    if (tile.Live(row)) rows[rows[0] < 0 ? 0 : 1] = row;
  }
  tile.a()[static_cast<size_t>(rows[0])] = nan;
  tile.b()[static_cast<size_t>(rows[1])] = nan;
  EXPECT_EQ(RunBatch(GetParam(), tile, kTileQueries).size(), 2 * kTileQueries);
  EXPECT_EQ(RunFine(GetParam(), tile, 8).size(), 2u);
  EXPECT_EQ(RunPlane(GetParam(), tile, 8).size(), 2u);
}

TEST_P(CertifiedKernelsTest, NaNCutKeepsAllLiveRows) {
  std::mt19937_64 random(TestSeed());
  Tile tile(2, 5, QueryCodeLimit(GetParam()), random);
  for (float& a : tile.cut_a()) a = std::numeric_limits<float>::quiet_NaN();
  size_t live = 0;
  for (int64_t row = 0; row < tile.rows(); ++row) live += tile.Live(row);
  EXPECT_EQ(RunBatch(GetParam(), tile, 1).size(), live);
  EXPECT_EQ(RunFine(GetParam(), tile, 8).size(), live);
  EXPECT_EQ(RunPlane(GetParam(), tile, 8).size(), live);
}

INSTANTIATE_TEST_SUITE_P(Supported, CertifiedKernelsTest,
                         testing::ValuesIn(SupportedCodeKernels()),
                         [](const testing::TestParamInfo<CodeKernel>& test) {
                           switch (test.param) {
                             case CodeKernel::kScalar:
                               return "Scalar";
                             case CodeKernel::kAvx2:
                               return "Avx2";
                             case CodeKernel::kAvxVnni:
                               return "AvxVnni";
                             case CodeKernel::kAvx512Vnni:
                               return "Avx512Vnni";
                           }
                           return "Unknown";
                         });

}  // namespace
}  // namespace coterie::internal_certified
