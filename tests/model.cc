#include "tests/model.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "index/distance.h"

namespace coterie {

std::vector<Neighbor> ModelSearch(const Rows& rows, Metric metric,
                                  const std::vector<float>& query, int64_t k) {
  std::vector<Neighbor> all;
  for (const auto& [id, row] : rows) {
    all.push_back({id, CanonicalDistance(metric, query, row)});
  }
  std::sort(all.begin(), all.end(), NeighborLess);
  if (static_cast<int64_t>(all.size()) > k) {
    all.resize(static_cast<size_t>(k));
  }
  return all;
}

uint64_t TestSeed(uint64_t fallback) {
  const char* text = std::getenv("SEED");
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10)
                                          : fallback;
}

uint64_t TestRounds() {
  const char* text = std::getenv("ROUNDS");
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10)
                                          : 1;
}

Rows HardRows(int64_t n, int64_t d, std::mt19937_64& random) {
  std::normal_distribution<float> gauss;
  std::cauchy_distribution<float> heavy;
  std::uniform_int_distribution<int> grid(0, 2);
  std::vector<std::vector<float>> made;
  Rows rows;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<float> row(static_cast<size_t>(d));
    const uint64_t kind = random() % 5;
    if (kind == 4 && !made.empty()) {
      row = made[random() % made.size()];
    } else {
      for (float& x : row) {
        x = kind == 0   ? gauss(random)
            : kind == 1 ? std::clamp(heavy(random), -1e30f, 1e30f)
            : kind == 2 ? 1000.0f + gauss(random)
                        : static_cast<float>(grid(random));
      }
    }
    if (std::all_of(row.begin(), row.end(), [](float x) { return x == 0; })) {
      row[0] = 1;
    }
    made.push_back(row);
    const PointId id = i == 0 ? 0 : i == 1 ? ~PointId{0} : random();
    rows[id] = std::move(row);
  }
  return rows;
}

std::vector<Point> ToPoints(const Rows& rows) {
  std::vector<Point> points;
  for (const auto& [id, row] : rows) {
    points.push_back({id, row, {}});
  }
  return points;
}

Rows WordRows(int64_t n) {
  constexpr int64_t kDimension = 100;
  constexpr std::streamoff kNpyHeader = 128;
  std::ifstream in("data/words-10k.npy", std::ios::binary);
  in.seekg(kNpyHeader);
  Rows rows;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<float> row(kDimension);
    in.read(reinterpret_cast<char*>(row.data()), kDimension * sizeof(float));
    rows[static_cast<PointId>(i)] = std::move(row);
  }
  if (!in) {
    std::cerr << "cannot read data/words-10k.npy" << std::endl;
    std::abort();
  }
  return rows;
}

}  // namespace coterie
