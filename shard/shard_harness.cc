#include "shard/shard_harness.h"

#include <utility>

#include "gtest/gtest.h"

namespace coterie {

ShardHarness::ShardHarness() {
  options_.cluster_uuid = "cluster";
  options_.path = folder_.path() + "/store";
}

void ShardHarness::Open() {
  auto shard = Shard::Open(options_);
  ASSERT_TRUE(shard.ok()) << shard.status();
  shard_ = std::move(*shard);
}

void ShardHarness::Reopen() {
  Close();
  Open();
}

absl::StatusOr<int64_t> ShardHarness::PutCatalogue(int64_t expected,
                                                   Catalogue catalogue) {
  Answer<int64_t> answer;
  shard_->PutCatalogue(expected, std::move(catalogue), {}, answer.done());
  return answer.Wait();
}

absl::StatusOr<WriteReply> ShardHarness::Write(std::vector<Point> upserts,
                                               std::vector<PointId> deletes,
                                               const std::string& collection) {
  return Apply(WriteBatch{collection, std::move(upserts), std::move(deletes)});
}

absl::StatusOr<WriteReply> ShardHarness::Apply(WriteBatch batch) {
  Answer<WriteReply> answer;
  shard_->Write(std::move(batch), {}, answer.done());
  return answer.Wait();
}

absl::StatusOr<ShardSearchReply> ShardHarness::Search(SearchRequest request,
                                                      CallContext call) {
  Answer<ShardSearchReply> answer;
  shard_->Search(std::make_shared<const SearchRequest>(std::move(request)),
                 std::move(call), answer.done());
  return answer.Wait();
}

absl::StatusOr<GetReply> ShardHarness::Get(std::vector<PointId> ids) {
  Answer<GetReply> answer;
  shard_->Get({"c", std::move(ids), true, {.all = true, .names = {}}}, {},
              answer.done());
  return answer.Wait();
}

absl::StatusOr<int64_t> ShardHarness::Count(Filter filter) {
  Answer<CountReply> answer;
  shard_->Count({"c", std::move(filter)}, {}, answer.done());
  const auto reply = answer.Wait();
  if (!reply.ok()) return reply.status();
  return reply->count;
}

absl::StatusOr<std::vector<Point>> ShardHarness::ScanAll(ScanRequest request) {
  const auto scanner = shard_->Scan(std::move(request), {});
  std::vector<Point> points;
  for (;;) {
    Answer<ScanPage> answer;
    scanner->Next(answer.done());
    auto page = answer.Wait();
    if (!page.ok()) return page.status();
    for (Point& point : page->points) points.push_back(std::move(point));
    if (page->end) return points;
  }
}

ShardDescription ShardHarness::Describe() {
  Answer<ShardDescription> answer;
  shard_->Describe({}, answer.done());
  return answer.Wait().value();
}

absl::StatusOr<ShardCollectionStats> ShardHarness::Stats() {
  Answer<ShardCollectionStats> answer;
  shard_->CollectionStats("c", {}, answer.done());
  return answer.Wait();
}

ScanRequest WholeScan() {
  ScanRequest request;
  request.collection = "c";
  request.with_vectors = true;
  request.with_attributes.all = true;
  return request;
}

SearchRequest SearchFor(std::vector<float> query, int64_t k) {
  SearchRequest request;
  request.collection = "c";
  request.queries.push_back(std::move(query));
  request.k = k;
  return request;
}

std::vector<PointId> IdsOf(const std::vector<Hit>& hits) {
  std::vector<PointId> ids;
  for (const Hit& hit : hits) ids.push_back(hit.neighbor.id);
  return ids;
}

std::unique_ptr<ShardHarness> OpenWithCollection(int32_t dimension,
                                                 Metric metric) {
  auto harness = std::make_unique<ShardHarness>();
  harness->Open();
  const auto version = harness->PutCatalogue(
      0, TestCatalogue(1, {TestCollection("c", 1, dimension, metric, 8)}));
  EXPECT_TRUE(version.ok()) << version.status();
  return harness;
}

}  // namespace coterie
