#include "shard/shard_testing.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/distance.h"

#ifdef __SANITIZE_THREAD__
// Debian's RocksDB is not instrumented: ThreadSanitizer sees its copies of
// memory but not the atomics that order them. None of our code is called by
// it, so what happens below its functions is its own affair; our threads
// around it are still watched.
//
// Nor is Debian's Abseil: the counter of a status that two threads share is in
// there, so the last release seems to race with earlier reads of the text.
extern "C" const char* __tsan_default_suppressions() {
  return "race:rocksdb\ndeadlock:rocksdb\n"
         "race:absl::debian3::Status::Unref\n";
}
#endif

namespace coterie {

TempFolder::TempFolder() {
  const char* parent = std::getenv("TEST_TMPDIR");
  path_ = absl::StrCat(parent == nullptr ? "/tmp" : parent, "/shard.XXXXXX");
  [[maybe_unused]] const char* made = mkdtemp(path_.data());
  assert(made != nullptr);
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void Gate::Open() {
  const std::shared_ptr<State> state = state_;
  MutexLock lock(&state->mutex);
  state->open = true;
  state->changed.NotifyAll();
}

void Gate::Wait() {
  const std::shared_ptr<State> state = state_;
  MutexLock lock(&state->mutex);
  while (!state->open) state->changed.Wait(&state->mutex);
}

CollectionSpec TestCollection(absl::string_view name, uint32_t number,
                              int32_t dimension, Metric metric, int32_t slots,
                              int32_t owner) {
  CollectionSpec spec;
  spec.name = std::string(name);
  spec.number = number;
  spec.dimension = dimension;
  spec.metric = metric;
  spec.slots = slots;
  spec.owner.assign(static_cast<size_t>(slots), owner);
  return spec;
}

Catalogue TestCatalogue(int64_t version, std::vector<CollectionSpec> specs) {
  Catalogue catalogue;
  catalogue.version = version;
  for (const CollectionSpec& spec : specs) {
    catalogue.next_number = std::max(catalogue.next_number, spec.number + 1);
  }
  std::sort(specs.begin(), specs.end(),
            [](const CollectionSpec& a, const CollectionSpec& b) {
              return a.name < b.name;
            });
  catalogue.collections = std::move(specs);
  return catalogue;
}

std::vector<float> RandomVector(int64_t dimension, Random& random) {
  std::vector<float> vector(static_cast<size_t>(dimension));
  for (float& x : vector) x = static_cast<float>(random() % 7) - 3;
  vector[random() % vector.size()] = static_cast<float>(1 + random() % 3);
  return vector;
}

Attributes RandomAttributes(Random& random) {
  Attributes attributes;
  for (uint64_t left = random() % 4; left > 0; --left) {
    const std::string key = absl::StrCat("key", random() % 5);
    switch (random() % 5) {
      case 0:
        attributes[key] = absl::StrCat("value", random() % 3);
        break;
      case 1:
        attributes[key] = static_cast<int64_t>(random());
        break;
      case 2:
        attributes[key] = static_cast<double>(random() % 100) / 8;
        break;
      case 3:
        attributes[key] = random() % 2 == 0;
        break;
      default:
        attributes[key] = std::vector<std::string>(random() % 3, "item");
    }
  }
  return attributes;
}

std::vector<Neighbor> CanonicalSearch(
    Metric metric, const std::map<PointId, std::vector<float>>& points,
    VectorView query, int64_t k, std::optional<double> radius) {
  std::vector<Neighbor> all;
  for (const auto& [id, vector] : points) {
    const double distance = CanonicalDistance(metric, query, vector);
    if (!radius.has_value() || distance <= *radius)
      all.push_back({id, distance});
  }
  std::sort(all.begin(), all.end(), NeighborLess);
  if (static_cast<int64_t>(all.size()) > k) all.resize(static_cast<size_t>(k));
  return all;
}

}  // namespace coterie
