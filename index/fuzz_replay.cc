// The main function of a fuzz target without libFuzzer: runs the target on each
// corpus file named on the command line, then on seeded mutations of them.

#ifndef COTERIE_LIBFUZZER

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "index/test_vectors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

constexpr int kMutations = 20000;

Input Mutated(const std::vector<Input>& corpus, std::mt19937_64& random) {
  Input input = corpus[random() % corpus.size()];
  for (uint64_t edits = 1 + random() % 8; edits > 0; --edits) {
    const size_t at = input.empty() ? 0 : random() % input.size();
    const uint8_t byte = static_cast<uint8_t>(random());
    switch (random() % 4) {
      case 0:
        input.insert(input.begin() + static_cast<int64_t>(at), byte);
        break;
      case 1:
        if (!input.empty()) input[at] = byte;
        break;
      case 2:
        input.resize(at);
        break;
      default: {
        const Input& other = corpus[random() % corpus.size()];
        input.insert(input.end(), other.begin(), other.end());
        if (input.size() > 4096) input.resize(4096);
      }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Input> corpus;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", argv[i]);
      return 1;
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
    std::printf("replaying %s\n", argv[i]);
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(corpus.back().data(), corpus.back().size());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no corpus files given\n");
    return 1;
  }
  const uint64_t seed = coterie::TestSeed();
  std::printf("%d mutations, SEED=%llu\n", kMutations,
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  for (int i = 0; i < kMutations; ++i) {
    const Input input = Mutated(corpus, random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  return 0;
}

#endif  // COTERIE_LIBFUZZER
