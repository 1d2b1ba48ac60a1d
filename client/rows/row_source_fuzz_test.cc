// Replays the corpus through the fuzz target, then seeded mutations of it.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "client/test_seed.h"
#include "gtest/gtest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace coterie {
namespace {

constexpr int kMutationsOfEach = 500;

std::vector<std::string> Corpus() {
  std::vector<std::string> inputs;
  for (const auto& entry :
       std::filesystem::directory_iterator("client/rows/row_source_corpus")) {
    std::ifstream stream(entry.path(), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(stream),
                        std::istreambuf_iterator<char>());
  }
  return inputs;
}

void Try(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                         input.size());
}

// A few random edits behind the byte that chooses the reader. Digits and
// punctuation come more often than chance would: shapes, numbers and quotes are
// made of them.
std::string Mutate(std::string input, std::mt19937_64* random) {
  const std::string likely = "0123456789,:\"\n\r .-+e{}[]\\#\t";
  const uint64_t edits = 1 + (*random)() % 4;
  for (uint64_t i = 0; i < edits && input.size() > 1; ++i) {
    const size_t at = 1 + (*random)() % (input.size() - 1);
    switch ((*random)() % 6) {
      case 0:
        input[at] = static_cast<char>((*random)());
        break;
      case 1:
        input[at] = static_cast<char>(input[at] ^ 1 << (*random)() % 8);
        break;
      case 2:
        input.insert(at, 1, likely[(*random)() % likely.size()]);
        break;
      case 3:
        input.erase(at, 1 + (*random)() % 4);
        break;
      case 4:
        input.insert(at, input.substr(at, 1 + (*random)() % 16));
        break;
      case 5:
        input.resize(at);
        break;
    }
  }
  return input;
}

TEST(RowSourceFuzz, KeepsItsPromisesOnTheCorpus) {
  const std::vector<std::string> corpus = Corpus();
  ASSERT_GE(corpus.size(), 40U) << "the corpus is missing";
  for (const std::string& input : corpus) Try(input);
}

TEST(RowSourceFuzz, KeepsItsPromisesOnMutationsOfTheCorpus) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  for (const std::string& input : Corpus()) {
    for (int i = 0; i < kMutationsOfEach; ++i) Try(Mutate(input, &random));
  }
}

}  // namespace
}  // namespace coterie
