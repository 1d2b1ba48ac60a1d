#include "index/faiss_factory.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "index/metric.h"

namespace coterie {
namespace {

TEST(FaissFactory, SaysAgainWhatItRead) {
  for (const char* text :
       {"HNSW32", "HNSW16,SQ8", "HNSW8,SQfp16", "IVF1024,Flat", "IVF1,SQ4",
        "IVF65536,SQ6", "IVF64,PQ16", "IVF64,PQ16x4", "PCA64,IVF64,Flat",
        "PCAR64,HNSW32", "RR20,IVF3,PQ5", "OPQ16,IVF64,PQ16",
        "OPQ16_64,IVF64,PQ16x6"}) {
    const auto factory = FaissFactory::Parse(text);
    ASSERT_TRUE(factory.ok()) << text << ": " << factory.status();
    EXPECT_EQ(factory->Text(), text);
  }
  EXPECT_EQ(FaissFactory::Parse("HNSW32,Flat")->Text(), "HNSW32");
  EXPECT_EQ(FaissFactory::Parse("IVF8,PQ4x8")->Text(), "IVF8,PQ4");
}

TEST(FaissFactory, RefusesTheRestAndNamesWhatIsAccepted) {
  for (const char* text : {"",
                           ",",
                           "Flat",
                           "SQ8",
                           "PQ16",
                           "LSH",
                           "HNSW",
                           "HNSW0",
                           "HNSW032",
                           "HNSW257",
                           "HNSW-1",
                           "HNSW32,PQ16",
                           "HNSW32,",
                           "HNSW32,Flat,Flat",
                           "HNSW99999999999999999999",
                           "IVF16",
                           "IVF,Flat",
                           "IVF65537,Flat",
                           "IVF16,Nonsense",
                           "IVF16,PQ",
                           "IVF16,PQ4x3",
                           "IVF16,PQ4x9",
                           "IVF16,PQ4fs",
                           "IVF16,Flat ",
                           " IVF16,Flat",
                           "ivf16,Flat",
                           "OPQ,IVF16,PQ4",
                           "OPQ4_,IVF16,PQ4",
                           "PCA,IVF16,Flat",
                           "RR,HNSW8",
                           "ITQ8,IVF16,Flat",
                           "PCA8,RR8,IVF16,Flat",
                           "IVF16_HNSW32,Flat",
                           "IDMap,IVF16,Flat",
                           "NSG32",
                           "IVF16,Flat,RFlat"}) {
    const absl::Status status = FaissFactory::Parse(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << ": " << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "accepted: HNSW<links>"))
        << status;
  }
  const absl::Status status =
      FaissFactory::Parse(std::string(1000, '\n')).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "1000 bytes")) << status;
  EXPECT_LT(status.message().size(), 1000U);
}

TEST(FaissFactory, IsForSomeDimensionsAndMetrics) {
  const auto check = [](absl::string_view text, int64_t d,
                        Metric metric = Metric::kCosine) {
    return FaissFactory::Parse(text)->Check(metric, d);
  };
  EXPECT_TRUE(check("HNSW32", 1).ok());
  EXPECT_TRUE(check("IVF8,PQ25", 100).ok());
  EXPECT_TRUE(check("PCA64,IVF8,PQ16", 100).ok());
  EXPECT_TRUE(check("OPQ16_64,IVF8,PQ16", 100).ok());
  EXPECT_TRUE(check("RR100,IVF8,PQ10", 100, Metric::kInnerProduct).ok());
  const std::pair<const char*, int64_t> misfits[] = {
      {"IVF8,PQ16", 100},          {"PCA64,IVF8,PQ10", 100},
      {"PCA101,IVF8,Flat", 100},   {"OPQ16,IVF8,Flat", 100},
      {"OPQ16_60,IVF8,Flat", 100}, {"RR2,HNSW8", 1},
      {"PCA64,IVF8,Flat", 3073},   {"OPQ16,IVF8,PQ16", 16384},
      {"RR64,HNSW8", 16384}};
  for (const auto& [text, d] : misfits) {
    const absl::Status status = check(text, d);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
  }
  EXPECT_TRUE(check("PCA64,IVF8,Flat", 3072).ok());
  EXPECT_TRUE(check("IVF65536,PQ16384", 16384).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      check("PCA8,IVF8,Flat", 16, Metric::kInnerProduct)));
}

// The largest that is accepted neither overflows nor passes for small.
TEST(FaissFactory, CountsMemoryOfTheLargest) {
  constexpr int64_t kRows = int64_t{1} << 31;
  for (const char* text : {"IVF65536,Flat", "HNSW256", "IVF65536,PQ16384",
                           "OPQ3072,IVF65536,PQ3072", "PCA3072,HNSW256"}) {
    const FaissFactory factory = FaissFactory::Parse(text)->For(kRows);
    const int64_t d = factory.turn == FaissFactory::Turn::kNone ? 16384 : 3072;
    EXPECT_TRUE(factory.Check(Metric::kSquaredL2, d).ok()) << text;
    const int64_t kept = factory.KeptBytes(d, kRows);
    EXPECT_GE(kept, kRows * factory.code_bytes(d)) << text;
    EXPECT_GE(factory.BuildingBytes(d, kRows), kept + kRows * 4 * d) << text;
  }
  // A turn of many components has more to it than its rows.
  const FaissFactory turned = *FaissFactory::Parse("PCA64,IVF8,Flat");
  EXPECT_GE(turned.BuildingBytes(3072, 4000), int64_t{3072} * 3072 * 20);
}

TEST(FaissFactory, HasNoMoreListsThanRowsToTrainThem) {
  const FaissFactory factory = *FaissFactory::Parse("IVF1024,PQ4");
  EXPECT_EQ(factory.For(1'000'000).lists, 1024);
  EXPECT_EQ(factory.For(39 * 1024).lists, 1024);
  EXPECT_EQ(factory.For(39 * 1024 - 1).lists, 1023);
  EXPECT_EQ(factory.For(5000).Text(), "IVF128,PQ4");
  EXPECT_EQ(factory.For(1).lists, 1);
  EXPECT_EQ(FaissFactory::Parse("HNSW32")->For(5).Text(), "HNSW32");
  EXPECT_TRUE(factory.CheckRows(16, 256).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(factory.CheckRows(16, 255)));
  EXPECT_TRUE(FaissFactory::Parse("IVF8,PQ4x4")->CheckRows(16, 16).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      FaissFactory::Parse("PCA300,IVF8,Flat")->CheckRows(400, 300)));
  EXPECT_TRUE(FaissFactory::Parse("HNSW8")->CheckRows(400, 1).ok());
}

}  // namespace
}  // namespace coterie
