#include "shard/segment_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "index/distance.h"
#include "index/test_vectors.h"
#include "shard/crc32c.h"
#include "shard/segment_folder.h"
#include "shard/segment_manifest.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

const ShardIdentity kOwner{"cluster", 1, 4, 0};

bool Never() { return false; }

TEST(Crc32c, IsThatOfTheStandard) {
  // RFC 3720, B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
  const std::string text = "checksums of pieces join";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(text.substr(0, cut)), text.substr(cut)),
              Crc32c(text));
  }
}

// Rows with their vectors.
struct Rows {
  std::vector<float> vectors;
  std::vector<SegmentRow> rows;
};

Rows RandomRows(const RowShape& shape, int64_t n, Random& random) {
  Rows made;
  const auto d = static_cast<size_t>(shape.dimension);
  for (int64_t i = 0; i < n; ++i) {
    for (const float x : RandomVector(shape.dimension, random)) {
      made.vectors.push_back(x);
    }
  }
  PointId id = 0;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    id += 1 + random() % 1000;
    const VectorView vector(made.vectors.data() + i * d, d);
    made.rows.push_back(
        {id, shape.norms() ? CanonicalSquaredNorm(vector) : 0, vector.data()});
  }
  return made;
}

class SegmentFileTest : public ::testing::Test {
 protected:
  SegmentFileTest() : seed_(TestSeed()), random_(seed_) {}

  std::shared_ptr<const SegmentFile> Write(const RowShape& shape,
                                           const Rows& rows) {
    auto file = WriteSegmentFile(SegmentDisk::Machine(), folder_.path(), name_,
                                 shape, rows.rows, Never);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? *file : nullptr;
  }
  absl::StatusOr<std::shared_ptr<const SegmentFile>> Open() {
    return SegmentFile::Open(SegmentDisk::Machine(), folder_.path(), name_);
  }

  static void ExpectHolds(const SegmentFile& file, const RowShape& shape,
                          const Rows& rows) {
    ASSERT_EQ(file.header().shape, shape);
    ASSERT_EQ(file.header().rows, static_cast<int64_t>(rows.rows.size()));
    for (size_t i = 0; i < rows.rows.size(); ++i) {
      EXPECT_EQ(file.ids()[i], rows.rows[i].id);
      if (shape.norms()) {
        EXPECT_EQ(file.squared_norms()[i], rows.rows[i].squared_norm);
      }
    }
    EXPECT_EQ(std::memcmp(file.rows(), rows.vectors.data(),
                          rows.vectors.size() * sizeof(float)),
              0);
    ASSERT_EQ(file.codes() != nullptr, shape.CodesPay(file.header().rows));
    if (file.codes() == nullptr) return;
    // As if they were made of the rows anew, bit by bit.
    const CertifiedCodes fresh(
        shape.metric, {rows.vectors.data(), file.header().rows, shape.dimension,
                       shape.dimension});
    const auto want = fresh.parts();
    const auto got = file.codes()->parts();
    EXPECT_EQ(got.codes, want.codes);
    EXPECT_EQ(got.a, want.a);
    EXPECT_EQ(got.b, want.b);
    EXPECT_EQ(got.centre, want.centre);
    EXPECT_EQ(got.unit, want.unit);
    EXPECT_EQ(got.norm_slack, want.norm_slack);
    ASSERT_EQ(got.panels.size(), want.panels.size());
    EXPECT_EQ(std::memcmp(got.panels.data(), want.panels.data(),
                          want.panels.size() * sizeof(CertifiedPanel)),
              0);
    EXPECT_EQ(file.codes()->MemoryBytes(), fresh.MemoryBytes());
  }

  const uint64_t seed_;
  Random random_;
  TempFolder folder_;
  SegmentName name_{kOwner, 7, 42};
};

TEST_F(SegmentFileTest, GivesBackWhatWasWritten) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  for (const Metric metric :
       {Metric::kSquaredL2, Metric::kInnerProduct, Metric::kCosine}) {
    for (const auto& [dimension, n] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {3, 700}, {16, 1023}, {16, 1024}, {37, 2500}}) {
      const RowShape shape{dimension, metric};
      const Rows rows = RandomRows(shape, n, random_);
      const auto written = Write(shape, rows);
      ASSERT_NE(written, nullptr);
      ExpectHolds(*written, shape, rows);
      const auto opened = Open();
      ASSERT_TRUE(opened.ok()) << opened.status();
      ExpectHolds(**opened, shape, rows);
      EXPECT_EQ((*opened)->checksum(), written->checksum());
    }
  }
}

TEST_F(SegmentFileTest, RefusesAFileOfAnotherName) {
  Write({2, Metric::kSquaredL2},
        RandomRows({2, Metric::kSquaredL2}, 5, random_));
  ASSERT_TRUE(Open().ok());
  for (const auto& spoil : std::vector<void (*)(SegmentName*)>{
           [](SegmentName* n) { n->owner.cluster_uuid = "other"; },
           [](SegmentName* n) { n->owner.shard_id = 2; },
           [](SegmentName* n) { n->owner.shards_total = 5; },
           [](SegmentName* n) { n->collection = 8; }}) {
    const SegmentName right = name_;
    spoil(&name_);
    const absl::Status status = Open().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "0000000042.seg"));
    EXPECT_TRUE(absl::StrContains(status.message(), "of shard 1 of 4"));
    name_ = right;
  }
  name_.number = 43;
  EXPECT_TRUE(absl::IsNotFound(Open().status()));
}

TEST_F(SegmentFileTest, ACheckOfPiecesNamesTheSection) {
  const RowShape shape{16, Metric::kCosine};
  const auto file = Write(shape, RandomRows(shape, 1030, random_));
  std::string bytes;
  ASSERT_TRUE(SegmentDisk::Machine()
                  ->Read(absl::StrCat(folder_.path(), "/0000000042.seg"),
                         [&](absl::string_view piece) {
                           bytes.append(piece.data(), piece.size());
                           return absl::OkStatus();
                         })
                  .ok());
  const auto check = [&](const std::string& damaged) {
    SegmentCheck pieces;
    for (size_t at = 0; at < damaged.size();) {
      const size_t size = 1 + random_() % 9000;
      const absl::Status status =
          pieces.Add(absl::string_view(damaged).substr(at, size));
      if (!status.ok()) return status;
      at += size;
    }
    return pieces.Finish().status();
  };
  ASSERT_TRUE(check(bytes).ok()) << check(bytes);
  const char* const names[] = {"ids", "norms", "rows",   "codes",
                               "a",   "b",     "panels", "centre"};
  for (size_t section = 0; section < 8; ++section) {
    const auto& place = file->header().sections[section];
    std::string damaged = bytes;
    const auto at = static_cast<size_t>(place.offset) +
                    random_() % static_cast<uint64_t>(place.bytes);
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (random_() % 8)));
    const absl::Status status = check(damaged);
    EXPECT_TRUE(absl::IsDataLoss(status));
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  absl::StrCat("section ", names[section])))
        << status;
  }
  for (size_t at = 0; at < 4096; at += 1 + random_() % 50) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (random_() % 8)));
    EXPECT_TRUE(absl::StrContains(check(damaged).message(), "header")) << at;
  }
  for (const size_t size : {size_t{0}, size_t{100}, bytes.size() - 1}) {
    EXPECT_TRUE(absl::IsDataLoss(check(bytes.substr(0, size)))) << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(check(bytes + "x")));
}

TEST_F(SegmentFileTest, StopsWhenAsked) {
  const RowShape shape{2, Metric::kSquaredL2};
  const Rows rows = RandomRows(shape, 5, random_);
  EXPECT_TRUE(absl::IsCancelled(WriteSegmentFile(SegmentDisk::Machine(),
                                                 folder_.path(), name_, shape,
                                                 rows.rows, [] { return true; })
                                    .status()));
  EXPECT_TRUE(absl::IsNotFound(Open().status()));
}

// The format does not change by accident.
TEST(SegmentHeader, IsFrozen) {
  SegmentHeader header =
      LayOutSegment({kOwner, 7, 42}, {16, Metric::kCosine}, 2000);
  header.sections[SegmentHeader::kRows].checksum = 0x12345678;
  header.unit = -3;
  const std::string bytes = EncodeSegmentHeader(header);
  EXPECT_EQ(bytes.size(), 4096u);
  EXPECT_EQ(ManifestChecksum(bytes), 600058513u);
  const auto decoded = DecodeSegmentHeader(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->name, header.name);
  EXPECT_EQ(decoded->unit, -3);
  EXPECT_EQ(decoded->sections, header.sections);
}

TEST(SegmentHeader, RefusesCodesThatWereMadeByOtherRules) {
  SegmentHeader header =
      LayOutSegment({kOwner, 7, 42}, {16, Metric::kCosine}, 2000);
  header.slack.eta *= 2;
  EXPECT_TRUE(absl::StrContains(
      DecodeSegmentHeader(EncodeSegmentHeader(header)).status().message(),
      "other rules"));
}

SegmentManifest SomeManifest() {
  SegmentManifest manifest;
  manifest.owner = kOwner;
  manifest.number = 300;
  manifest.collections = {
      {3, {0, 5, 1}, {{17, 100, 0xabcdef01, {0, 1, 99}}, {299, 1, 2, {}}}},
      {70000, {}, {}}};
  return manifest;
}

TEST(SegmentManifest, IsFrozen) {
  const std::string bytes = EncodeManifest(SomeManifest());
  EXPECT_EQ(ManifestChecksum(bytes), 4240955784u);
  const auto decoded = DecodeManifest(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, SomeManifest());
}

TEST(SegmentManifest, RefusesEveryFlippedBitAndCut) {
  const std::string bytes = EncodeManifest(SomeManifest());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(damaged).status())) << bit;
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(
        absl::IsDataLoss(DecodeManifest(bytes.substr(0, size)).status()))
        << size;
  }
}

TEST(SegmentManifest, RefusesWhatNoneSays) {
  for (const auto& spoil : std::vector<void (*)(SegmentManifest*)>{
           [](SegmentManifest* m) { m->collections[0].number = 0; },
           [](SegmentManifest* m) { m->collections[1].number = 3; },
           [](SegmentManifest* m) { m->number = 299; },
           [](SegmentManifest* m) {
             m->collections[0].segments[0].dead.back() = 100;
           }}) {
    SegmentManifest manifest = SomeManifest();
    spoil(&manifest);
    EXPECT_TRUE(
        absl::IsDataLoss(DecodeManifest(EncodeManifest(manifest)).status()));
  }
}

TEST(SegmentFolder, ReadsOnlyTheManifestThatIsPointedTo) {
  const TempFolder folder;
  SegmentFolder writer(nullptr, folder.path(), kOwner);
  SegmentManifest manifest;
  manifest.collections = {{3, {4}, {}}};
  const auto first = writer.WriteManifest(&manifest);
  const auto second = writer.WriteManifest(&manifest);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_GT(second->number, first->number);
  SegmentFolder reader(nullptr, folder.path(), kOwner);
  EXPECT_TRUE(reader.ReadManifest(*first).ok());
  EXPECT_EQ(reader.ReadManifest(*second).value(), manifest);
  ManifestPointer crossed = *first;
  crossed.number = second->number;
  const absl::Status status = reader.ReadManifest(crossed).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), folder.path())) << status;
  SegmentFolder other(nullptr, folder.path(), {"cluster", 2, 4, 0});
  EXPECT_TRUE(absl::IsDataLoss(other.ReadManifest(*first).status()));
  const auto used = [&] {
    return absl::flat_hash_set<std::string>{ManifestFileName(second->number)};
  };
  ASSERT_TRUE(writer.RemoveAllBut(used).ok());
  EXPECT_TRUE(absl::IsNotFound(reader.ReadManifest(*first).status()));
  // No number is used twice, whoever looks.
  SegmentFolder later(nullptr, folder.path(), kOwner);
  EXPECT_GT(later.WriteManifest(&manifest)->number, second->number);
}

TEST_F(SegmentFileTest, RowsMayLieInAnyOrder) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  const RowShape shape = {3, Metric::kSquaredL2};
  Rows rows = RandomRows(shape, 50, random_);
  EXPECT_TRUE(Write(shape, rows)->by_id().empty());
  std::vector<PointId> ids;
  for (const SegmentRow& row : rows.rows) ids.push_back(row.id);
  std::shuffle(ids.begin(), ids.end(), random_);
  for (size_t i = 0; i < ids.size(); ++i) rows.rows[i].id = ids[i];
  ASSERT_NE(Write(shape, rows), nullptr);
  const auto file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  ExpectHolds(**file, shape, rows);
  const absl::Span<const int32_t> order = (*file)->by_id();
  ASSERT_EQ(order.size(), ids.size());
  for (size_t i = 1; i < order.size(); ++i) {
    EXPECT_LT((*file)->ids()[order[i - 1]], (*file)->ids()[order[i]]);
  }
}

TEST_F(SegmentFileTest, AnIdThatIsThereTwiceIsRefused) {
  const RowShape shape = {3, Metric::kSquaredL2};
  Rows rows = RandomRows(shape, 50, random_);
  rows.rows[17].id = rows.rows[40].id;
  const auto file = WriteSegmentFile(SegmentDisk::Machine(), folder_.path(),
                                     name_, shape, rows.rows, Never);
  EXPECT_TRUE(absl::IsDataLoss(file.status())) << file.status();
  EXPECT_TRUE(absl::StrContains(file.status().message(), "the same id"))
      << file.status();
}

TEST_F(SegmentFileTest, AHeldSegmentStaysUntilItIsReleased) {
  SegmentFolder folder(nullptr, folder_.path(), kOwner);
  const RowShape shape = {3, Metric::kSquaredL2};
  const Rows rows = RandomRows(shape, 5, random_);
  auto held = folder.WriteHeldSegment(1, shape, rows.rows, Never);
  ASSERT_TRUE(held.ok()) << held.status();
  const std::string name = SegmentFileName((*held)->header().name.number);
  const auto files = [&] {
    return SegmentDisk::Machine()->List(folder.path()).value();
  };
  const auto none = [] { return absl::flat_hash_set<std::string>(); };
  ASSERT_TRUE(folder.RemoveAllBut(none).ok());
  EXPECT_EQ(files(), std::vector<std::string>{name});
  // Released while the names are collected: who collects them names it.
  ASSERT_TRUE(folder
                  .RemoveAllBut([&] {
                    folder.Release(**held);
                    return none();
                  })
                  .ok());
  EXPECT_EQ(files(), std::vector<std::string>{name});
  ASSERT_TRUE(folder.RemoveAllBut(none).ok());
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace coterie
