// Files of a shard that were cut or changed: the damage is noticed and named,
// or does no harm. Never is something else served, or nothing.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/numbered_writes.h"
#include "shard/shard.h"
#include "shard/shard_harness.h"
#include "shard/shard_testing.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

namespace fs = std::filesystem;

// Writes in tables, and after them in the log.
constexpr int64_t kOld = 60;
constexpr int64_t kNew = 20;

// A number from the environment.
uint64_t Setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

void Write(Shard* shard, int64_t n) {
  Answer<WriteReply> answer;
  shard->Write(NumberedWrite(n), {}, answer.done());
  ASSERT_TRUE(answer.Wait().ok()) << answer.Wait().status();
}

// The files whose names begin or end so.
std::vector<fs::path> FilesLike(const fs::path& folder,
                                const std::string& part) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, part) || absl::EndsWith(name, part)) {
      files.push_back(entry.path());
    }
  }
  return files;
}

ShardDescription DescriptionOf(Shard* shard) {
  Answer<ShardDescription> description;
  shard->Describe({}, description.done());
  return *description.Wait();
}

// Until the rows that were sealed are in files.
void AwaitSegmentFiles(Shard* shard) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (DescriptionOf(shard).segment_files.in_use == 0) {
    ASSERT_LT(absl::Now(), deadline) << "no segment file was written";
    std::this_thread::yield();
  }
}

// The log that was written to last.
fs::path NewestLog(const fs::path& folder) {
  fs::path newest;
  for (const fs::path& log : FilesLike(folder, ".log")) {
    if (newest.empty() || log.filename() > newest.filename()) newest = log;
  }
  return newest;
}

class Damage : public ::testing::Test {
 protected:
  // A store with tables, and a log whose length after each write is known.
  Damage() {
    ShardOptions options = LoneShard(original());
    options.tail_rows = 1 << 20;  // one segment is all there ever is
    for (int64_t first = 0; first < kOld; first += 20) {
      const auto shard = OpenNumbered(options);
      // Rows that a start reads from the store go to files.
      if (first > 0) AwaitSegmentFiles(shard.get());
      for (int64_t n = first; n < first + 20; ++n) Write(shard.get(), n);
    }
    // From here on nothing but writes goes to the log.
    ShardOptions quiet = options;
    quiet.merge_bytes = 1;
    const auto shard = OpenNumbered(quiet);
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (FilesLike(original() + "/segments", "0").size() != 2) {
      EXPECT_LT(absl::Now(), deadline) << "more than a manifest and a segment";
      if (absl::Now() >= deadline) break;
      std::this_thread::yield();
    }
    log_size_.push_back(LogSize());
    for (int64_t n = kOld; n < kOld + kNew; ++n) {
      Write(shard.get(), n);
      log_size_.push_back(LogSize());
    }
    // As a crash leaves it: copied while it is open.
    fs::copy(original(), folder_.path() + "/crashed",
             fs::copy_options::recursive);
  }

  std::string original() const { return folder_.path() + "/original"; }
  int64_t LogSize() const {
    return static_cast<int64_t>(fs::file_size(NewestLog(original())));
  }

  // A fresh copy of the store.
  std::string Copy() {
    const std::string copy = folder_.path() + "/copy";
    fs::remove_all(copy);
    fs::copy(folder_.path() + "/crashed", copy, fs::copy_options::recursive);
    return copy;
  }

  // Opens the store and reads all of it: how many writes it shows, or why it
  // refuses. Anything else fails the test.
  absl::StatusOr<int64_t> WritesIn(const std::string& path) {
    ShardOptions options = LoneShard(path);
    std::vector<std::string> said;  // by this thread and the keeper's
    Mutex mutex;
    options.warn = [&said, &mutex](absl::string_view what) {
      MutexLock lock(&mutex);
      said.emplace_back(what);
    };
    int64_t refused = 0;
    const auto writes = WritesIn(options, path, &refused);
    // The keeper reads the store too, if it comes to that before the end.
    const auto of_store = std::stable_partition(
        said.begin(), said.end(), [](const std::string& warning) {
          return !absl::StartsWith(warning, "segment files cannot be written");
        });
    warnings_.assign(said.begin(), of_store);
    torn_.clear();
    if (!warnings_.empty() &&
        absl::StrContains(warnings_[0], "were cut short")) {
      torn_ = warnings_[0];
      warnings_.erase(warnings_.begin());
    }
    for (auto at = of_store; at != said.end(); ++at) {
      EXPECT_TRUE(absl::StrContains(*at, path)) << *at;
    }
    if (writes.ok()) {
      EXPECT_EQ(refused, static_cast<int64_t>(warnings_.size()));
    }
    return writes;
  }

  absl::StatusOr<int64_t> WritesIn(const ShardOptions& options,
                                   const std::string& path, int64_t* refused) {
    const auto shard = Shard::Open(options);
    if (!shard.ok()) return shard.status();
    const ShardDescription description = DescriptionOf(shard->get());
    *refused = description.segment_files.refused;
    const int64_t writes = description.sequence;
    const auto stored = StoredIn(shard->get());
    if (!stored.ok()) return stored.status();
    EXPECT_EQ(*stored, StateAfter(writes)) << path << " shows what never was";
    EXPECT_EQ(Disagreement(shard->get(), *stored), "");
    return writes;
  }

  void ExpectNamed(const absl::Status& status, const std::string& path) {
    EXPECT_TRUE(absl::StrContains(status.message(), path)) << status;
  }

  TempFolder folder_;
  std::vector<int64_t> log_size_;  // after the i-th new write
  // Of the last WritesIn: segment files that were refused.
  std::vector<std::string> warnings_;
  std::string torn_;  // of a log whose end was cut; empty if there was none
};

TEST_F(Damage, ATornTailLosesNoWholeWrite) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  const int64_t size = log_size_.back();
  // Cuts in the last two records; all of them if STRIDE is 1.
  const auto stride = static_cast<int64_t>(Setting("STRIDE", 19));
  for (int64_t keep = log_size_[kNew - 2]; keep <= size;
       keep += 1 + static_cast<int64_t>(
                       random() % static_cast<uint64_t>(2 * stride - 1))) {
    const std::string copy = Copy();
    fs::resize_file(NewestLog(copy), static_cast<uintmax_t>(keep));
    int64_t whole = kOld;
    for (size_t i = 1; i < log_size_.size(); ++i) {
      whole += log_size_[i] <= keep ? 1 : 0;
    }
    const auto writes = WritesIn(copy);
    if (writes.ok()) {
      ASSERT_EQ(*writes, whole) << "kept " << keep << " of " << size;
    } else {
      ExpectNamed(writes.status(), copy);
    }
  }
}

TEST_F(Damage, ACutTailIsWarnedOf) {
  const std::string copy = Copy();
  fs::resize_file(NewestLog(copy),
                  static_cast<uintmax_t>(log_size_.back() - 7));
  EXPECT_EQ(WritesIn(copy).value(), kOld + kNew - 1);
  EXPECT_TRUE(absl::StrContains(
      torn_, NewestLog(folder_.path() + "/crashed").filename().string()))
      << torn_;
  EXPECT_EQ(WritesIn(copy).value(), kOld + kNew - 1);
  EXPECT_EQ(torn_, "") << "it was cut for good";
}

TEST_F(Damage, AZeroedHeaderOfTheLogIsNamedNotAnEmptyShard) {
  const std::string copy = Copy();
  {
    std::fstream log(NewestLog(copy),
                     std::ios::in | std::ios::out | std::ios::binary);
    log << std::string(16, '\0');
  }
  const absl::Status refused = WritesIn(copy).status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  ExpectNamed(refused, NewestLog(copy));
}

// One bit of a file.
struct Flip {
  fs::path file;
  int64_t at = 0;
  int bit = 0;
};

void Apply(const Flip& flip) {
  std::fstream stream(flip.file,
                      std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(flip.at);
  const int byte = stream.get();
  stream.seekp(flip.at);
  stream.put(static_cast<char>(byte ^ (1 << flip.bit)));
}

TEST_F(Damage, FlippedBitsAreNoticedOrHarmless) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  for (const auto& [kind, flips] :
       std::vector<std::pair<std::string, int>>{{".sst", 25},
                                                {".log", 25},
                                                {"MANIFEST", 30},
                                                {".seg", 40},
                                                {".manifest", 20},
                                                {"CURRENT", 17},
                                                {"OPTIONS", 4},
                                                {"IDENTITY", 3}}) {
    int noticed = 0;
    for (int i = 0; i < flips; ++i) {
      const std::string copy = Copy();
      const bool derived = kind == ".seg" || kind == ".manifest";
      const std::vector<fs::path> files =
          FilesLike(derived ? copy + "/segments" : copy, kind);
      ASSERT_FALSE(files.empty()) << kind;
      Flip flip;
      flip.file = files[random() % files.size()];
      const auto size = static_cast<int64_t>(fs::file_size(flip.file));
      if (size == 0) continue;
      flip.at =
          kind == "CURRENT"
              ? i % size
              : static_cast<int64_t>(random() % static_cast<uint64_t>(size));
      flip.bit = static_cast<int>(random() % 8);
      SCOPED_TRACE(absl::StrCat(flip.file.filename().string(), " byte ",
                                flip.at, " of ", size, " bit ", flip.bit));
      Apply(flip);
      const auto writes = WritesIn(copy);
      EXPECT_TRUE(writes.ok() || !derived) << writes.status();
      if (writes.ok()) {
        EXPECT_EQ(*writes, kOld + kNew);
      } else {
        ++noticed;
        ExpectNamed(writes.status(), copy);
      }
      for (const std::string& warning : warnings_) {
        ++noticed;
        EXPECT_TRUE(derived && absl::StrContains(warning, flip.file.string()))
            << warning;
      }
    }
    if (kind == ".manifest") {
      EXPECT_EQ(noticed, flips);
    }
    // Most of a small segment file is between its sections.
    if (kind == ".seg") {
      EXPECT_GT(noticed, 0);
    }
    if (kind != "OPTIONS" && kind != "IDENTITY" && kind != ".seg") {
      EXPECT_GT(noticed, flips / 2) << kind;
    }
  }
}

// What can be wrong with a file of segments, beside bits.
void Spoil(const fs::path& file, const fs::path& foreign, int how,
           Random& random) {
  const uintmax_t size = fs::file_size(file);
  switch (how) {
    case 0:
      fs::remove(file);
      break;
    case 1:
      fs::resize_file(file, random() % size);
      break;
    case 2:
      fs::resize_file(file, size + 1);
      break;
    case 3:  // of another shard, under its name
      fs::copy_file(foreign, file, fs::copy_options::overwrite_existing);
      break;
    case 4:  // as a disk returns it that never wrote it
      fs::resize_file(file, 0);
      fs::resize_file(file, size);
      break;
    default:
      fs::resize_file(file, 0);
  }
}

TEST_F(Damage, ASpoiltSegmentFileIsNamedAndMadeAgain) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  // The same history, so the same names; but another cluster.
  const std::string elsewhere = folder_.path() + "/elsewhere";
  ShardOptions foreign = LoneShard(elsewhere);
  foreign.cluster_uuid = "another";
  for (int i = 0; i < 2; ++i) {
    const auto shard = OpenNumbered(foreign);
    if (i > 0) AwaitSegmentFiles(shard.get());
    for (int64_t n = 0; i == 0 && n < 20; ++n) Write(shard.get(), n);
  }
  for (const std::string kind : {".seg", ".manifest"}) {
    for (int how = 0; how < 6; ++how) {
      SCOPED_TRACE(absl::StrCat(kind, ", spoilt in way ", how));
      const std::string copy = Copy();
      const auto files = FilesLike(copy + "/segments", kind);
      ASSERT_EQ(files.size(), 1u);
      Spoil(files[0], FilesLike(elsewhere + "/segments", kind).at(0), how,
            random);
      ASSERT_EQ(WritesIn(copy).value(), kOld + kNew);
      ASSERT_EQ(warnings_.size(), 1u);
      EXPECT_TRUE(absl::StrContains(warnings_[0], files[0].string()))
          << warnings_[0];
      { AwaitSegmentFiles(OpenNumbered(LoneShard(copy)).get()); }
      EXPECT_EQ(WritesIn(copy).value(), kOld + kNew);
      EXPECT_TRUE(warnings_.empty()) << warnings_[0];
    }
  }
}

// Files of an earlier moment, put back: the store knows that they are not the
// ones that count.
TEST_F(Damage, SegmentFilesOfAnEarlierMomentAreRefused) {
  const std::string path = folder_.path() + "/store";
  const fs::path saved = folder_.path() + "/saved";
  ShardOptions options = LoneShard(path);
  options.tail_rows = 8;
  {
    const auto shard = OpenNumbered(options);
    int64_t n = 0;
    for (; n < 20; ++n) Write(shard.get(), n);
    AwaitSegmentFiles(shard.get());
    // While it works, files may vanish under the copying; not those that count.
    fs::create_directory(saved);
    for (const fs::path& file : FilesLike(path + "/segments", "0")) {
      std::error_code vanished;
      fs::copy_file(file, saved / file.filename(), vanished);
    }
    // Until none of them counts.
    for (bool old = true; old; ++n) {
      Write(shard.get(), n);
      old = false;
      for (const fs::path& file : FilesLike(path + "/segments", ".manifest")) {
        old = old || fs::exists(saved / file.filename());
      }
    }
  }
  const int64_t writes = WritesIn(path).value();
  fs::remove_all(path + "/segments");
  fs::copy(saved, path + "/segments", fs::copy_options::recursive);
  EXPECT_EQ(WritesIn(path).value(), writes);
  EXPECT_EQ(warnings_.size(), 1u);
}

// A store that was set back to an earlier moment, with the files of later.
TEST_F(Damage, SegmentFilesOfALaterMomentAreRefused) {
  const std::string path = folder_.path() + "/store";
  const std::string saved = folder_.path() + "/saved";
  ShardOptions options = LoneShard(path);
  options.tail_rows = 8;
  for (int64_t first = 0; first < 40; first += 20) {
    if (first > 0) fs::copy(path, saved, fs::copy_options::recursive);
    const auto shard = OpenNumbered(options);
    for (int64_t n = first; n < first + 20; ++n) Write(shard.get(), n);
    AwaitSegmentFiles(shard.get());
  }
  fs::remove_all(saved + "/segments");
  fs::copy(path + "/segments", saved + "/segments",
           fs::copy_options::recursive);
  EXPECT_EQ(WritesIn(saved).value(), 20);
  // Other writes than those that were lost, to the same points.
  {
    const auto shard = OpenNumbered(LoneShard(saved));
    AwaitSegmentFiles(shard.get());
    for (int64_t n = 20; n < 30; ++n) Write(shard.get(), n);
  }
  EXPECT_EQ(WritesIn(saved).value(), 30);
}

TEST(ShardDamage, AStoreKeepsItsNameAndTakesNoCatalogueOfAnothers) {
  ShardHarness shard;
  shard.Open();
  const std::string name = shard->store_id();
  EXPECT_EQ(name.size(), 32u);
  EXPECT_EQ(shard.Describe().store_id, name);
  shard.Reopen();
  EXPECT_EQ(shard->store_id(), name);
  ShardHarness other;
  other.Open();
  EXPECT_NE(other->store_id(), name);

  Catalogue catalogue =
      TestCatalogue(1, {TestCollection("c", 1, 1, Metric::kSquaredL2, 1)});
  catalogue.stores = {name};
  const absl::Status refused = other.PutCatalogue(0, catalogue).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_NE(refused.message().find(name), absl::string_view::npos) << refused;
  EXPECT_EQ(other.Describe().catalogue_version, 0);
  ASSERT_TRUE(shard.PutCatalogue(0, catalogue).ok());
  shard.Reopen();
  Answer<Catalogue> read;
  shard->ReadCatalogue({}, read.done());
  EXPECT_EQ(read.Wait()->stores, catalogue.stores);
}

}  // namespace
}  // namespace coterie
