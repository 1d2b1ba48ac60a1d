// What tests of k-means through the service share. Test-only.

#ifndef COTERIE_TESTS_KMEANS_JOBS_TESTING_H_
#define COTERIE_TESTS_KMEANS_JOBS_TESTING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/clustering.h"
#include "coordinator/jobs.h"
#include "gtest/gtest.h"
#include "tests/local_cluster.h"
#include "training/kmeans_job.h"
#include "training/kmeans_testing.h"

namespace coterie {

struct Followed {
  std::vector<KMeansReport> reports;
  absl::StatusOr<Clustering> result;
};

// The stream to its end; `seen` is called with each report.
inline Followed Follow(
    JobStream* stream,
    const std::function<void(const KMeansReport&)>& seen = {}) {
  Followed out;
  for (;;) {
    auto event = Await<JobEvent>(
        [&](Done<JobEvent> done) { stream->Next(std::move(done)); });
    if (!event.ok()) {
      out.result = event.status();
      return out;
    }
    if (const auto* report = std::get_if<KMeansReport>(&event->what)) {
      out.reports.push_back(*report);
      if (seen) seen(*report);
    }
    if (event->end) {
      out.result = std::get<Clustering>(std::move(event->what));
      return out;
    }
  }
}

inline KMeansRequest RequestFor(const KMeansData& data, int64_t k, bool given) {
  KMeansRequest request;
  request.collection = "c";
  request.name = "result";
  request.options = OptionsFor(data, k, given);
  return request;
}

inline void Load(LocalCluster& cluster, const KMeansData& data, Metric metric) {
  ASSERT_TRUE(cluster.Create("c", static_cast<int32_t>(data.d), metric).ok());
  std::vector<Point> points;
  for (int64_t i = 0; i < data.n(); ++i) {
    Point& point = points.emplace_back();
    point.id = data.id(i);
    const VectorView row = data.row(i);
    point.vector.assign(row.begin(), row.end());
    if (!data.weights.empty()) {
      point.attributes["w"] = data.weights[static_cast<size_t>(i)];
    }
    if (points.size() == 1000 || i + 1 == data.n()) {
      const auto written = cluster.Upsert("c", std::move(points));
      ASSERT_TRUE(written.ok()) << written.status();
      points.clear();
    }
  }
}

// Label of each point, as written back.
inline std::map<PointId, int64_t> Labels(LocalCluster& cluster) {
  ScanRequest scan;
  scan.collection = "c";
  scan.with_attributes.all = true;
  std::map<PointId, int64_t> labels;
  const auto points = cluster.Scan(scan);
  EXPECT_TRUE(points.ok()) << points.status();
  for (const Point& point : *points) {
    const auto label = point.attributes.find("label");
    if (label != point.attributes.end()) {
      labels[point.id] = std::get<int64_t>(label->second);
    }
  }
  return labels;
}

inline void ExpectSame(const KMeansResult& actual,
                       const KMeansResult& expected) {
  EXPECT_EQ(actual.centres, expected.centres);
  EXPECT_EQ(actual.weights, expected.weights);
  EXPECT_EQ(actual.objective, expected.objective);
  EXPECT_EQ(actual.iterations, expected.iterations);
  EXPECT_EQ(actual.stop, expected.stop);
}

// Of one process without service.
inline KMeansResult Expected(const KMeansData& data, KMeansOptions options,
                             std::map<PointId, int32_t>* labels = nullptr) {
  options.metric = data.metric;
  options.dimension = data.d;
  KMeansCluster alone(data, 1);
  const auto result = alone.Run(options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (labels != nullptr) *labels = alone.Labels();
  return *result;
}

inline absl::StatusOr<JobInfo> Job(Coordinator& coordinator) {
  return Await<JobInfo>([&](Done<JobInfo> done) {
    coordinator.jobs().Get("c", "result", {}, std::move(done));
  });
}

inline KMeansData SomeData(const std::string& kind) {
  std::mt19937_64 random(11);
  if (kind == "heavy") return HeavyTailed(400, 5, random);
  KMeansData data = Blobs(kind == "long" ? 6000 : 600, 6, 8, 4, random);
  if (kind == "cosine") data.metric = Metric::kCosine;
  if (kind == "weighted") {
    for (int64_t i = 0; i < data.n(); ++i) {
      data.weights.push_back(static_cast<double>(random() % 5) / 2);
    }
  }
  return data;
}

}  // namespace coterie

#endif  // COTERIE_TESTS_KMEANS_JOBS_TESTING_H_
