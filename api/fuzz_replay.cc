// Runs a fuzz target without a fuzzer: every file of the folders and files
// named on the command line, then mutations of them, drawn from SEED (or a
// fixed seed). An input is one byte of choices and a serialised message. With
// libFuzzer linked in, that has the main instead.

#ifndef COTERIE_LIBFUZZER

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "api/test_seed.h"
#include "api/wire_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace coterie {
namespace {

constexpr int kMutations = 50000;

// What runs now, for the handler of a crash to print.
char current[256];

void PrintCurrent(int signal) {
  size_t length = 0;
  while (length < sizeof(current) && current[length] != '\0') ++length;
  (void)!write(STDERR_FILENO, current, length);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                         input.size());
}

std::vector<std::filesystem::path> FilesOf(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());  // the folder's order is anyone's
  return files;
}

// One small change to the bytes, whatever they mean.
void MutateBytes(std::mt19937_64& random, const std::string& other,
                 std::string* s) {
  if (s->empty()) s->push_back(static_cast<char>(random()));
  const size_t at = random() % s->size();
  const size_t span = 1 + random() % 8;
  switch (random() % 7) {
    case 0:
      (*s)[at] = static_cast<char>((*s)[at] ^ (1 << (random() % 8)));
      break;
    case 1: {
      constexpr uint8_t kEdges[] = {0, 1, 0x7F, 0x80, 0xFF, 0xF8, 0x7C, 0x3F};
      (*s)[at] = static_cast<char>(kEdges[random() % std::size(kEdges)]);
      break;
    }
    case 2:
      s->insert(at, 1, static_cast<char>(random()));
      break;
    case 3:
      s->erase(at, span);
      break;
    case 4:  // repeats a piece: a second field, an id given twice
      s->insert(at, s->substr(random() % s->size(), 4 * span));
      break;
    case 5:  // grafts the tail of another input
      if (!other.empty()) {
        s->append(other, random() % other.size(), std::string::npos);
      }
      break;
    default:  // a number of all ones: NaN, -1, 2^64 - 1
      s->replace(at, span, std::string(span, '\xFF'));
  }
}

// One change that keeps the message well formed, or else any.
void MutateOnce(std::mt19937_64& random, const std::string& other,
                std::string* s) {
  if (random() % 8 == 0 || s->size() < 2) {
    MutateBytes(random, other, s);
    return;
  }
  std::string message = s->substr(1);
  if (!MutateMessage(random, &message)) MutateBytes(random, other, &message);
  const char choices =
      random() % 16 == 0 ? static_cast<char>(random() % 10) : s->front();
  *s = choices + message;
}

int Main(int argc, char** argv) {
  const uint64_t seed = TestSeed();
  std::fprintf(stderr, "SEED=%llu\n", static_cast<unsigned long long>(seed));
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL}) {
    std::signal(signal, PrintCurrent);
  }
  std::vector<std::string> corpus;
  for (const std::filesystem::path& file : FilesOf(argc, argv)) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in),
                        std::istreambuf_iterator<char>());
    std::snprintf(current, sizeof(current), "failed in %s\n", file.c_str());
    Run(corpus.back());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no corpus: name its folder\n");
    return 1;
  }
  std::mt19937_64 random(seed);
  for (int i = 0; i < kMutations; ++i) {
    std::string input = corpus[random() % corpus.size()];
    const std::string& other = corpus[random() % corpus.size()];
    for (uint64_t n = 1 + random() % 4; n > 0; --n) {
      MutateOnce(random, other, &input);
    }
    std::snprintf(current, sizeof(current), "failed in mutation %d\n", i);
    Run(input);
  }
  std::fprintf(stderr, "%zu files, %d mutations\n", corpus.size(), kMutations);
  return 0;
}

}  // namespace
}  // namespace coterie

int main(int argc, char** argv) { return coterie::Main(argc, argv); }

#endif  // COTERIE_LIBFUZZER
