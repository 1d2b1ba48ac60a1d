#include "shard/numbered_writes.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

constexpr int32_t kSlots = 8;

}  // namespace

Catalogue NumberedCatalogue() {
  return TestCatalogue(1,
                       {TestCollection("c", 1, 2, Metric::kSquaredL2, kSlots)});
}

WriteBatch NumberedWrite(int64_t n) {
  WriteBatch batch;
  batch.collection = "c";
  for (uint64_t i = 0; i < 5; ++i) {
    const uint64_t hash = SplitMix64(static_cast<uint64_t>(n) * 8 + i);
    const PointId id = SplitMix64(hash % 200);
    if (hash >> 60 == 0) {
      batch.deletes.push_back(id);
    } else {
      batch.upserts.push_back(
          {id, {static_cast<float>(n), static_cast<float>(i)}, {{"n", n}}});
    }
  }
  return batch;
}

void ApplyNumbered(int64_t n, NumberedState* state) {
  const WriteBatch batch = NumberedWrite(n);
  for (const Point& point : batch.upserts) {
    (*state)[point.id] = {point.vector, point.attributes};
  }
  for (const PointId id : batch.deletes) state->erase(id);
}

NumberedState StateAfter(int64_t n) {
  NumberedState state;
  for (int64_t i = 0; i < n; ++i) ApplyNumbered(i, &state);
  return state;
}

ShardOptions LoneShard(const std::string& path) {
  ShardOptions options;
  options.cluster_uuid = "cluster";
  options.path = path;
  options.tail_rows = 100;
  return options;
}

std::unique_ptr<Shard> OpenNumbered(const ShardOptions& options) {
  auto shard = Shard::Open(options);
  absl::Status status = shard.status();
  if (status.ok()) {
    Answer<int64_t> created;
    (*shard)->PutCatalogue(0, NumberedCatalogue(), {}, created.done());
    status = created.Wait().status();
    if (absl::IsAborted(status)) status = absl::OkStatus();  // it has it
  }
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::abort();
  }
  return *std::move(shard);
}

absl::StatusOr<NumberedState> StoredIn(Shard* shard) {
  ScanRequest request;
  request.collection = "c";
  request.with_vectors = true;
  request.with_attributes.all = true;
  const auto scanner = shard->Scan(request, {});
  NumberedState stored;
  for (bool end = false; !end;) {
    Answer<ScanPage> answer;
    scanner->Next(answer.done());
    const auto page = answer.Wait();
    if (!page.ok()) return page.status();
    for (const Point& point : page->points) {
      stored[point.id] = {point.vector, point.attributes};
    }
    end = page->end;
  }
  return stored;
}

std::string Disagreement(Shard* shard, const NumberedState& stored) {
  Answer<CountReply> count;
  shard->Count({"c", {}}, {}, count.done());
  if (!count.Wait().ok()) return count.Wait().status().ToString();
  if (count.Wait()->count != static_cast<int64_t>(stored.size())) {
    return absl::StrCat(count.Wait()->count, " are counted, ", stored.size(),
                        " scanned");
  }
  SearchRequest request;
  request.collection = "c";
  request.queries.push_back(std::vector<float>{3, 1});
  request.k = 10000;
  Answer<ShardSearchReply> answer;
  shard->Search(std::make_shared<const SearchRequest>(std::move(request)), {},
                answer.done());
  const auto found = answer.Wait();
  if (!found.ok()) return found.status().ToString();
  std::map<PointId, std::vector<float>> vectors;
  for (const auto& [id, point] : stored) vectors[id] = point.first;
  const std::vector<Neighbor> expected =
      CanonicalSearch(Metric::kSquaredL2, vectors, std::vector<float>{3, 1},
                      static_cast<int64_t>(stored.size()));
  std::vector<Neighbor> got;
  for (const Hit& hit : found->results[0]) got.push_back(hit.neighbor);
  return got == expected ? "" : "search and scan differ";
}

}  // namespace coterie
