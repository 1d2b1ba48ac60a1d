#include "shard/segment_index.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "index/faiss_factory.h"
#include "index/faiss_index.h"
#include "index/test_vectors.h"
#include "shard/crashing_disk.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

void OneByOne(int64_t count, absl::FunctionRef<void(int64_t)> task) {
  for (int64_t i = 0; i < count; ++i) task(i);
}

// A structure of each form over some rows.
struct Made {
  std::string form;
  RowShape shape;
  int64_t rows;
  std::shared_ptr<SegmentIndex> index;
};

std::vector<Made> MakeAll(Random& random) {
  std::vector<Made> made;
  for (const auto& [form, d, n] :
       {std::tuple<const char*, int64_t, int64_t>{"boxes", 3, 100},
        {"cells", 20, 700},
        {"lsh", 5, 60},
        {"HNSW4,SQ8", 6, 90},
        {"IVF2,PQ2x4", 6, 90},
        {"PCA4,IVF2,Flat", 6, 1100}}) {
    std::vector<float> data;
    for (int64_t i = 0; i < n; ++i) {
      for (const float x : RandomVector(d, random)) data.push_back(x);
    }
    const RowShape shape = {d, Metric::kCosine};
    const RowsView rows = {data.data(), n, d, d};
    std::vector<int64_t> order;
    LshIndex::Options options;
    options.tables = 3;
    std::shared_ptr<SegmentIndex> index;
    if (const auto factory = FaissFactory::Parse(form); factory.ok()) {
      const std::vector<double> norms(static_cast<size_t>(n), 1);
      index = std::make_shared<SegmentIndex>(
          FaissIndex::Build(shape.metric,
                            {rows, nullptr, norms.data(), nullptr}, *factory,
                            [] { return false; })
              .value());
    } else if (form == std::string("lsh")) {
      index = std::make_shared<SegmentIndex>(
          LshIndex::Build(shape.metric, rows, options, OneByOne));
    } else {
      index = std::make_shared<SegmentIndex>(
          Tree::Build(shape.metric, rows, OneByOne, &order));
    }
    made.push_back({form, shape, n, std::move(index)});
  }
  return made;
}

std::string ContentOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class SegmentIndexTest : public ::testing::Test {
 protected:
  SegmentIndexTest() : random_(TestSeed()) {}

  static IndexName NameOf(const SegmentIndex& index) {
    IndexName name;
    name.segment = {{"cluster", 0, 1, 0}, 1, 1};
    name.segment_checksum = 0;
    name.kind = index.kind();
    return name;
  }
  std::string PathOf(const IndexName& name) const {
    return absl::StrCat(folder_.path(), "/",
                        IndexFileName(name.segment.number, name.kind));
  }
  absl::Status Write(const SegmentIndex& index) {
    return WriteIndexFile(&disk_, folder_.path(), NameOf(index), index);
  }

  Random random_;
  TempFolder folder_;
  CrashingDisk disk_;
};

TEST_F(SegmentIndexTest, WhatIsWrittenIsReadBack) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  for (const Made& made : MakeAll(random_)) {
    SCOPED_TRACE(made.form);
    ASSERT_TRUE(Write(*made.index).ok());
    const IndexName name = NameOf(*made.index);
    const std::string written = ContentOf(PathOf(name));
    const auto read =
        ReadIndexFile(&disk_, folder_.path(), name, made.shape, made.rows);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ((*read)->kind(), name.kind);
    EXPECT_EQ((*read)->size(), made.rows);
    ASSERT_TRUE(Write(**read).ok());
    EXPECT_EQ(ContentOf(PathOf(name)), written);
  }
}

TEST_F(SegmentIndexTest, AnyBitThatFlipsIsNoticedUnlessNothingReadsIt) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  for (const Made& made : MakeAll(random_)) {
    SCOPED_TRACE(made.form);
    const IndexName name = NameOf(*made.index);
    ASSERT_TRUE(Write(*made.index).ok());
    const std::string written = ContentOf(PathOf(name));
    for (int round = 0; round < 300; ++round) {
      std::string damaged = written;
      const size_t at = random_() % damaged.size();
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << random_() % 8));
      const auto decoded = DecodeIndexFile(damaged, name);
      // Between the arrays lie pages' ends, which are not summed up.
      if (!decoded.ok() || written[at] != '\0') {
        EXPECT_TRUE(absl::IsDataLoss(decoded.status())) << at;
      }
    }
    for (const size_t size :
         {size_t{0}, size_t{100}, size_t{4096}, written.size() - 1}) {
      EXPECT_TRUE(absl::IsDataLoss(
          DecodeIndexFile(written.substr(0, size), name).status()))
          << size;
    }
    EXPECT_TRUE(absl::IsDataLoss(
        DecodeIndexFile(absl::StrCat(written, "x"), name).status()));
  }
}

TEST_F(SegmentIndexTest, AFileOfAnotherSegmentIsRefused) {
  for (const Made& made : MakeAll(random_)) {
    ASSERT_TRUE(Write(*made.index).ok());
    const IndexName name = NameOf(*made.index);
    const auto read = [&](const IndexName& wanted, const RowShape& shape,
                          int64_t rows) {
      return ReadIndexFile(&disk_, folder_.path(), wanted, shape, rows)
          .status();
    };
    IndexName other = name;
    other.segment_checksum = 7;
    const absl::Status status = read(other, made.shape, made.rows);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), PathOf(name))) << status;
    other = name;
    other.segment.owner.cluster_uuid = "another";
    EXPECT_TRUE(absl::IsDataLoss(read(other, made.shape, made.rows)));
    EXPECT_TRUE(absl::IsDataLoss(read(name, made.shape, made.rows + 1)));
    EXPECT_TRUE(absl::IsDataLoss(
        read(name, {made.shape.dimension, Metric::kSquaredL2}, made.rows)));
    other = name;
    other.segment.number = 2;
    EXPECT_TRUE(absl::IsNotFound(read(other, made.shape, made.rows)));
  }
}

TEST_F(SegmentIndexTest, AFileIsCompleteOrNotThere) {
  const Made made = std::move(MakeAll(random_).front());
  const IndexName name = NameOf(*made.index);
  bool written = false;
  for (int64_t changes = 0; !written; ++changes) {
    ASSERT_LT(changes, 50);
    disk_.CrashAfter(changes);
    written = Write(*made.index).ok();
    disk_.CrashAfter(-1);
    const auto read =
        ReadIndexFile(&disk_, folder_.path(), name, made.shape, made.rows);
    EXPECT_TRUE(read.ok() || absl::IsNotFound(read.status())) << read.status();
    EXPECT_TRUE(read.ok() || !written);
  }
  disk_.SetFull(true);
  EXPECT_FALSE(Write(*made.index).ok());
}

}  // namespace
}  // namespace coterie
