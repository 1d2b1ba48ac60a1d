#include "index/handed_over.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "index/certified_codes.h"
#include "index/certified_head.h"
#include "index/certified_plane.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/principal_directions.h"
#include "index/test_vectors.h"
#include "index/top_k.h"

namespace coterie {
namespace {

constexpr int64_t kDimension = 64;
constexpr int64_t kRows = 3000;
constexpr int64_t kK = 7;

bool Never() { return false; }

// Two segments of the same kind of rows, with every first look.
class Segments : public ::testing::TestWithParam<Metric> {
 protected:
  struct One {
    explicit One(Metric metric, TestVectors vectors, PointId first_id)
        : made(std::move(vectors)), codes(metric, made.rows_view()) {
      const RowsView view = made.rows_view();
      for (int64_t i = 0; i < view.n; ++i) {
        ids.push_back(first_id + static_cast<PointId>(i));
        norms.push_back(CanonicalSquaredNorm(view.row(i)));
      }
      plane = std::make_unique<CertifiedPlane>(codes, view);
      head = std::make_unique<CertifiedHead>(metric, view,
                                             PrincipalDirections(view, 8, 2));
    }
    ScannedSegment segment(bool with_plane, bool with_head) const {
      return {&codes,
              {with_plane ? plane.get() : nullptr,
               with_head ? head.get() : nullptr},
              {made.rows_view(), ids.data(), norms.data(), nullptr},
              kRows};
    }
    TestVectors made;
    std::vector<PointId> ids;
    std::vector<double> norms;
    CertifiedCodes codes;
    std::unique_ptr<CertifiedPlane> plane;
    std::unique_ptr<CertifiedHead> head;
  };

  Segments() {
    std::mt19937_64 random(TestSeed());
    for (PointId first : {0, 100000}) {
      segments_.push_back(std::make_unique<One>(
          GetParam(),
          MakeTestVectors("gaussian", kRows, 5, kDimension,
                          GetParam() == Metric::kCosine, random),
          first));
    }
  }

  std::vector<std::unique_ptr<One>> segments_;
};

TEST_P(Segments, AreAnsweredAsByACanonicalScanWhateverIsLookedAtFirst) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  const ScanQueries all(GetParam(), segments_[0]->made.queries_view());
  for (const std::vector<int64_t>& handed :
       {std::vector<int64_t>{3}, std::vector<int64_t>{4, 0, 2}}) {
    for (int look = 0; look < 4; ++look) {
      std::vector<TopK> tops(static_cast<size_t>(all.size()), TopK(kK));
      HandedOver over;
      std::vector<ScannedSegment> scanned;
      for (const auto& one : segments_) {
        scanned.push_back(one->segment((look & 1) != 0, (look & 2) != 0));
      }
      for (const int64_t q : handed) {
        over.Add(q, std::numeric_limits<double>::infinity());
      }
      std::vector<ScanAccount> accounts(1);  // appended to
      ASSERT_TRUE(
          over.Scan(all, scanned, absl::MakeSpan(tops), &accounts, Never));
      ASSERT_EQ(accounts.size(), 1 + handed.size());
      std::vector<TopK> wanted(tops.size(), TopK(kK));
      std::vector<ScanAccount> unused(tops.size());
      for (const ScannedSegment& segment : scanned) {
        ExactScan(all, segment.rows, 0, kRows, absl::MakeSpan(wanted),
                  absl::MakeSpan(unused), Never);
      }
      for (size_t i = 0; i < handed.size(); ++i) {
        EXPECT_EQ(accounts[i + 1].evaluated + accounts[i + 1].ruled_out,
                  2 * kRows);
        const auto q = static_cast<size_t>(handed[i]);
        EXPECT_EQ(tops[q].TakeSorted(), wanted[q].TakeSorted())
            << "query " << q << ", look " << look;
      }
      EXPECT_EQ(tops[1].size(), 0) << "it was not handed over";
    }
  }
}

TEST_P(Segments, StopsWhenItIsTold) {
  const ScanQueries all(GetParam(), segments_[0]->made.queries_view());
  std::vector<TopK> tops(static_cast<size_t>(all.size()), TopK(kK));
  HandedOver over;
  EXPECT_TRUE(over.empty());
  over.Add(0, std::numeric_limits<double>::infinity());
  const ScannedSegment scanned = segments_[0]->segment(true, false);
  std::vector<ScanAccount> accounts;
  EXPECT_FALSE(over.Scan(all, {&scanned, 1}, absl::MakeSpan(tops), &accounts,
                         [] { return true; }));
}

INSTANTIATE_TEST_SUITE_P(Metrics, Segments,
                         ::testing::Values(Metric::kSquaredL2,
                                           Metric::kCosine));

}  // namespace
}  // namespace coterie
