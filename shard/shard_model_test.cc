// A shard against a map: random writes, reads, scans and restarts, for every
// metric. The seed is printed on failure; SEED chooses another.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/filter.h"
#include "api/placement.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/filter_testing.h"
#include "shard/shard_harness.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

constexpr int64_t kDimension = 3;

bool SamePoint(const Point& a, const Point& b) {
  return a.id == b.id && a.vector == b.vector && a.attributes == b.attributes;
}

class ShardModel : public ::testing::TestWithParam<Metric> {
 protected:
  ShardModel() : seed_(TestSeed()), random_(seed_) {}

  void Start() {
    ShardOptions* options = harness_.options();
    options->tail_rows = 1 + Below(40);
    options->threads = static_cast<int32_t>(1 + Below(3));
    options->limits.scan_page_bytes = 1 + Below(400);
    slots_ = static_cast<int32_t>(1 + Below(20));
    harness_.Open();
    ASSERT_TRUE(harness_
                    .PutCatalogue(0, TestCatalogue(1, {TestCollection(
                                                          "c", 1, kDimension,
                                                          GetParam(), slots_)}))
                    .ok());
  }

  int64_t Below(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }

  // Few enough to meet again; the edges of the id space among them.
  PointId RandomId() {
    static constexpr PointId kEdges[] = {
        0,           1, 9007199254740992, 9007199254740993, uint64_t{1} << 63,
        ~uint64_t{0}};
    return random_() % 4 == 0 ? kEdges[random_() % 6]
                              : SplitMix64(random_() % 60);
  }

  void WriteSome() {
    std::vector<Point> upserts(static_cast<size_t>(Below(12)));
    for (Point& point : upserts) {
      point.id = RandomId();
      point.vector = RandomVector(kDimension, random_);
      point.attributes = AnyAttributes(random_);
      model_[point.id] = point;
    }
    std::vector<PointId> deletes(static_cast<size_t>(Below(5)));
    int64_t deleted = 0;
    for (PointId& id : deletes) {
      id = RandomId();
      deleted += static_cast<int64_t>(model_.erase(id));
    }
    const auto upserted = static_cast<int64_t>(upserts.size());
    const auto reply = harness_.Write(upserts, deletes);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->upserted, upserted);
    EXPECT_EQ(reply->deleted, deleted);
    if (!upserts.empty() || !deletes.empty()) ++sequence_;
    EXPECT_EQ(reply->sequence, sequence_);
  }

  void DeleteByFilter() {
    WriteBatch batch;
    batch.collection = "c";
    batch.delete_where = RandomFilter();
    int64_t deleted = 0;
    for (auto at = model_.begin(); at != model_.end();) {
      const bool gone =
          Admits(batch.delete_where, at->first, at->second.attributes);
      deleted += gone ? 1 : 0;
      at = gone ? model_.erase(at) : std::next(at);
    }
    const auto reply = harness_.Apply(std::move(batch));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->deleted, deleted);
    if (deleted > 0) ++sequence_;
    EXPECT_EQ(reply->sequence, sequence_);
  }

  // New attributes for some points, of which some may not be there.
  void UpdateSome() {
    WriteBatch batch;
    batch.collection = "c";
    batch.mode =
        random_() % 2 == 0 ? AttributeMode::kMerge : AttributeMode::kReplace;
    std::set<PointId> ids;
    for (int64_t i = Below(6); i >= 0; --i) ids.insert(RandomId());
    int64_t updated = 0;
    for (const PointId id : ids) {
      batch.updates.push_back({id, AnyAttributes(random_)});
      const auto found = model_.find(id);
      if (found == model_.end()) continue;
      ++updated;
      Attributes& attributes = found->second.attributes;
      if (batch.mode == AttributeMode::kReplace) attributes.clear();
      for (const auto& [name, value] : batch.updates.back().attributes) {
        attributes[name] = value;
      }
    }
    const auto reply = harness_.Apply(std::move(batch));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->updated, updated);
    EXPECT_EQ(reply->sequence, ++sequence_);
  }

  void CheckSearch() {
    SearchRequest request =
        SearchFor(RandomVector(kDimension, random_), 1 + Below(100));
    if (random_() % 2 == 0) request.filter = RandomFilter();
    std::map<PointId, std::vector<float>> vectors;
    for (const auto& [id, point] : model_) {
      if (!Admits(request.filter, id, point.attributes)) continue;
      vectors[id] = point.vector;
    }
    request.with_vectors = true;
    request.with_attributes.all = true;
    const auto& query = std::get<std::vector<float>>(request.queries[0]);
    if (random_() % 3 == 0 && !vectors.empty()) {
      request.radius =
          CanonicalSearch(GetParam(), vectors, query, 1)[0].distance + 1;
      request.k = 1000;
    }
    const auto reply = harness_.Search(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    const auto expected =
        CanonicalSearch(GetParam(), vectors, query, request.k, request.radius);
    ASSERT_EQ(reply->results[0].size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const Hit& hit = reply->results[0][i];
      EXPECT_EQ(hit.neighbor, expected[i]);
      EXPECT_EQ(hit.vector, model_.at(hit.neighbor.id).vector);
      EXPECT_EQ(hit.attributes, model_.at(hit.neighbor.id).attributes);
    }
    EXPECT_EQ(reply->rows_live, static_cast<int64_t>(model_.size()));
    const QueryAccount& account = reply->accounts[0];
    EXPECT_EQ(account.evaluated + account.ruled_out,
              static_cast<int64_t>(vectors.size()));
    EXPECT_EQ(account.filtered,
              static_cast<int64_t>(model_.size() - vectors.size()));
    EXPECT_EQ(reply->sequence, sequence_);
    CheckSlots(reply->slots);
  }

  void CheckSlots(const std::vector<SlotState>& slots) {
    std::vector<SlotState> expected(static_cast<size_t>(slots_));
    for (const auto& [id, point] : model_) {
      SlotState& slot = expected[static_cast<size_t>(SlotOf(id, slots_))];
      ++slot.rows;
      slot.id_checksum += SplitMix64(id);
    }
    ASSERT_EQ(slots.size(), expected.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      EXPECT_EQ(slots[i].slot, static_cast<int32_t>(i));
      EXPECT_EQ(slots[i].rows, expected[i].rows);
      EXPECT_EQ(slots[i].id_checksum, expected[i].id_checksum);
    }
  }

  void CheckGet() {
    std::vector<PointId> ids(static_cast<size_t>(Below(8)));
    std::vector<PointId> missing;
    std::vector<Point> found;
    for (PointId& id : ids) {
      id = RandomId();
      const auto point = model_.find(id);
      if (point == model_.end()) {
        missing.push_back(id);
      } else {
        found.push_back(point->second);
      }
    }
    const auto reply = harness_.Get(ids);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->missing, missing);
    EXPECT_TRUE(std::equal(reply->points.begin(), reply->points.end(),
                           found.begin(), found.end(), SamePoint));
  }

  Filter RandomFilter() {
    std::vector<PointId> ids;
    for (const auto& [id, point] : model_) ids.push_back(id);
    return AnyFilter(ids, random_);
  }

  void CheckCount() {
    const auto all = harness_.Count();
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(*all, static_cast<int64_t>(model_.size()));
    const Filter filter = RandomFilter();
    const auto some = harness_.Count(filter);
    ASSERT_TRUE(some.ok()) << some.status();
    EXPECT_EQ(
        *some,
        std::count_if(model_.begin(), model_.end(), [&](const auto& entry) {
          return Admits(filter, entry.first, entry.second.attributes);
        }));
  }

  void CheckScan() {
    ScanRequest request = WholeScan();
    request.slices = static_cast<int32_t>(1 + Below(40));
    if (random_() % 2 == 0) request.filter = RandomFilter();
    std::map<PointId, Point> scanned;
    for (request.slice = 0; request.slice < request.slices; ++request.slice) {
      const auto points = harness_.ScanAll(request);
      ASSERT_TRUE(points.ok()) << points.status();
      std::pair<int32_t, PointId> previous{-1, 0};
      for (const Point& point : *points) {
        const std::pair<int32_t, PointId> place{SlotOf(point.id, slots_),
                                                point.id};
        EXPECT_LT(previous, place) << "by slot, then id";
        previous = place;
        EXPECT_TRUE(scanned.emplace(point.id, point).second)
            << point.id << " is in two slices";
      }
    }
    for (const auto& [id, point] : model_) {
      const auto found = scanned.find(id);
      ASSERT_EQ(found != scanned.end(),
                Admits(request.filter, id, point.attributes))
          << id;
      if (found == scanned.end()) continue;
      EXPECT_TRUE(SamePoint(found->second, point)) << id;
      scanned.erase(found);
    }
    EXPECT_TRUE(scanned.empty());
  }

  void CheckRestart() {
    const auto before = harness_.Search(SearchFor({1, 1, 1}, 1));
    ASSERT_TRUE(before.ok()) << before.status();
    harness_.Reopen();
    const auto after = harness_.Search(SearchFor({1, 1, 1}, 1));
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_EQ(harness_.Describe().sequence, sequence_);
    EXPECT_EQ(after->catalogue_version, before->catalogue_version);
    ASSERT_EQ(after->slots.size(), before->slots.size());
    for (size_t i = 0; i < before->slots.size(); ++i) {
      EXPECT_EQ(after->slots[i].offset, before->slots[i].offset);
      EXPECT_EQ(after->slots[i].rows, before->slots[i].rows);
      EXPECT_EQ(after->slots[i].id_checksum, before->slots[i].id_checksum);
    }
    CheckScan();
  }

  const uint64_t seed_;
  Random random_;
  ShardHarness harness_;
  int32_t slots_ = 1;
  int64_t sequence_ = 0;
  std::map<PointId, Point> model_;
};

INSTANTIATE_TEST_SUITE_P(Metrics, ShardModel,
                         ::testing::Values(Metric::kSquaredL2,
                                           Metric::kInnerProduct,
                                           Metric::kCosine));

TEST_P(ShardModel, EqualsAMap) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  Start();
  for (int step = 0; step < 400 && !HasFailure(); ++step) {
    SCOPED_TRACE(absl::StrCat("step ", step));
    switch (random_() % 10) {
      case 0:
        CheckGet();
        break;
      case 1:
        CheckCount();
        break;
      case 2:
        CheckSearch();
        break;
      case 3:
        if (random_() % 3 == 0) CheckScan();
        break;
      case 4:
        if (random_() % 5 == 0) CheckRestart();
        break;
      case 5:
        UpdateSome();
        break;
      case 6:
        if (random_() % 6 == 0) DeleteByFilter();
        break;
      default:
        WriteSome();
    }
  }
}

}  // namespace
}  // namespace coterie
