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

constexpr int kMutationsOfEach = 1000;

std::vector<std::string> Corpus() {
  std::vector<std::string> inputs;
  for (const auto& entry :
       std::filesystem::directory_iterator("client/npy_corpus")) {
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

// A few random edits; digits turn into digits more often than chance would,
// for these are what shapes are made of.
std::string Mutate(std::string input, std::mt19937_64* random) {
  const uint64_t edits = 1 + (*random)() % 4;
  for (uint64_t i = 0; i < edits && !input.empty(); ++i) {
    const size_t at = (*random)() % input.size();
    switch ((*random)() % 5) {
      case 0:
        input[at] = static_cast<char>((*random)());
        break;
      case 1:
        input[at] = static_cast<char>(input[at] ^ 1 << (*random)() % 8);
        break;
      case 2:
        input.insert(at, 1, static_cast<char>('0' + (*random)() % 10));
        break;
      case 3:
        input.erase(at, 1 + (*random)() % 4);
        break;
      case 4:
        input.resize(at);
        break;
    }
  }
  return input;
}

TEST(NpyFileFuzz, KeepsItsPromisesOnTheCorpus) {
  const std::vector<std::string> corpus = Corpus();
  ASSERT_GE(corpus.size(), 8U) << "the corpus is missing";
  for (const std::string& input : corpus) Try(input);
}

TEST(NpyFileFuzz, KeepsItsPromisesOnMutationsOfTheCorpus) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  for (const std::string& input : Corpus()) {
    for (int i = 0; i < kMutationsOfEach; ++i) Try(Mutate(input, &random));
  }
}

}  // namespace
}  // namespace coterie
