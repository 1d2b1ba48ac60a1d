// Bytes -> a message of ShardService -> its Decode function: requests are
// refused as their decoders say, replies as INTERNAL, or what comes out keeps
// what api/shard_convert.h promises and returns unchanged through Encode. The
// first byte chooses the limits (lowest bit) and the message (the rest, modulo
// 11). Replies answer a fixed request. Requests to cluster, to assign, to train
// and to predict are here as well.

#include <google/protobuf/stubs/logging.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "api/clustering_convert.h"
#include "api/fuzz_check.h"
#include "api/job_convert.h"
#include "api/shard_convert.h"
#include "api/training_convert.h"

namespace coterie {
namespace {

void CheckMisfit(const absl::Status& status) {
  FuzzCheck(absl::IsInternal(status), "replies that do not fit are INTERNAL");
  FuzzCheck(!status.message().empty(), "and say why");
}

// Encode and Decode are inverse: what was decoded, encoded, is decoded again to
// what encodes alike.
template <typename Message, typename Domain, typename Decode>
void CheckReturns(const Domain& domain, Decode decode) {
  Message once;
  EncodeShardRequest(domain, &once);
  const auto again = decode(once);
  FuzzCheck(again.ok(), "what was encoded is decoded");
  Message twice;
  EncodeShardRequest(*again, &twice);
  FuzzCheck(once.SerializeAsString().size() == twice.SerializeAsString().size(),
            "requests return unchanged");
}

void TrySearch(const v1::ShardSearchRequest& message, const Limits& limits) {
  const auto decode = [&](const v1::ShardSearchRequest& m) {
    return DecodeShardRequest(m, limits);
  };
  const auto request = decode(message);
  if (!request.ok()) return CheckRefusal(request.status());
  FuzzCheck(!request->queries.empty(), "there are queries");
  FuzzCheck(static_cast<int64_t>(request->queries.size()) <= limits.queries,
            "queries keep their limit");
  FuzzCheck(request->k >= 1 && request->k <= limits.k, "k keeps its limit");
  FuzzCheck(static_cast<int64_t>(request->queries.size()) * request->k <=
                limits.queries_times_k,
            "queries x k keeps its limit");
  for (const SearchRequest::Query& query : request->queries) {
    CheckVector(std::get<std::vector<float>>(query), limits);
  }
  FuzzCheck(!request->radius.has_value() || std::isfinite(*request->radius),
            "the radius is finite");
  CheckReturns<v1::ShardSearchRequest>(*request, decode);
}

void TryWrite(const v1::ShardWriteRequest& message, const Limits& limits) {
  const auto decode = [&](const v1::ShardWriteRequest& m) {
    return DecodeShardRequest(m, limits);
  };
  const auto batch = decode(message);
  if (!batch.ok()) return CheckRefusal(batch.status());
  FuzzCheck(
      static_cast<int64_t>(batch->upserts.size()) <= limits.points_per_upsert,
      "points keep their limit");
  for (const Point& point : batch->upserts) CheckVector(point.vector, limits);
  CheckReturns<v1::ShardWriteRequest>(*batch, decode);
}

void TryCatalogue(const v1::CatalogueRecord& message) {
  const auto catalogue = DecodeCatalogue(message);
  if (!catalogue.ok()) return CheckRefusal(catalogue.status());
  for (const CollectionSpec& spec : catalogue->collections) {
    FuzzCheck(static_cast<int32_t>(spec.owner.size()) == spec.slots,
              "every slot has an owner");
    FuzzCheck(spec.number < catalogue->next_number, "numbers are in use");
    FuzzCheck(catalogue->Find(spec.name) != nullptr, "names are sorted");
  }
  v1::CatalogueRecord encoded;
  EncodeCatalogue(*catalogue, &encoded);
  const auto again = DecodeCatalogue(encoded);
  FuzzCheck(again.ok() && again->collections == catalogue->collections,
            "catalogues return unchanged");
}

void TrySearchReply(const v1::ShardSearchResponse& message) {
  SearchRequest asked;
  asked.queries.assign(2, std::vector<float>{1, 2});
  asked.k = 3;
  asked.with_vectors = true;
  asked.with_attributes.all = true;
  const auto reply = DecodeShardReply(message, asked);
  if (!reply.ok()) return CheckMisfit(reply.status());
  FuzzCheck(reply->results.size() == 2 && reply->accounts.size() == 2,
            "each query is answered");
  for (const std::vector<Hit>& hits : reply->results) {
    for (const Hit& hit : hits) {
      FuzzCheck(std::isfinite(hit.neighbor.distance), "distances are finite");
      FuzzCheck(hit.vector.size() == 2, "vectors have their length");
    }
  }
  FuzzCheck(reply->rows_live >= 0, "counts are not negative");
  v1::ShardSearchResponse encoded;
  EncodeShardReply(*reply, &encoded);
  FuzzCheck(DecodeShardReply(encoded, asked).ok(),
            "what was encoded is decoded");
}

void TryGetReply(const v1::ShardGetResponse& message) {
  GetRequest asked;
  asked.ids = {1, 2, 1, 3};
  asked.with_vectors = true;
  const auto reply = DecodeShardReply(message, asked);
  if (!reply.ok()) return CheckMisfit(reply.status());
  FuzzCheck(reply->points.size() + reply->missing.size() == 4,
            "each id is answered");
}

void TryBegin(const v1::BeginJobRequest& message, const Limits& limits) {
  const auto decode = [&](const v1::BeginJobRequest& m) {
    return DecodeShardRequest(m, limits);
  };
  const auto begin = decode(message);
  if (!begin.ok()) return CheckRefusal(begin.status());
  FuzzCheck(begin->job.epoch >= 1, "jobs have an epoch");
  FuzzCheck(begin->lease > absl::ZeroDuration(), "leases last");
  CheckReturns<v1::BeginJobRequest>(*begin, decode);
}

void TryRecords(const v1::ReadRecordsResponse& message) {
  const auto records = DecodeShardReply(message, {"c", 0, "p", true});
  if (!records.ok()) return CheckMisfit(records.status());
  for (const StoredRecord& record : *records) {
    FuzzCheck(record.key.substr(0, 1) == "p", "keys are what was asked for");
    FuzzCheck(record.version >= 1, "what is there has a version");
  }
}

void TryTrain(const v1::TrainKMeansRequest& message, const Limits& limits) {
  const auto request = DecodeTrainKMeans(message, limits);
  if (!request.ok()) return CheckRefusal(request.status());
  KMeansOptions options = request->options;
  if (!request->initial_clustering.empty()) return;
  // What is left to check is whether the collection fits.
  options.dimension =
      options.given.empty()
          ? 3
          : static_cast<int64_t>(options.given.size()) / options.k;
  if (options.seeding == KMeansSeeding::kGiven) return;
  FuzzCheck(ValidateKMeansOptions(options).ok() ||
                options.polish != KMeansPolish::kNone,
            "options that decode are options");
}

void TryAssign(const v1::AssignRequest& message, const Limits& limits) {
  const auto request = DecodeAssign(message, limits);
  if (!request.ok()) return CheckRefusal(request.status());
  FuzzCheck(request->ids.empty() != request->vectors.empty(),
            "either ids or vectors");
  FuzzCheck(request->top_m >= 1 && request->top_m <= limits.k,
            "top_m keeps its limit");
}

void TryTrainSgd(const v1::TrainSgdRequest& message, const Limits& limits) {
  const auto request = DecodeTrainSgd(message, limits);
  if (!request.ok()) return CheckRefusal(request.status());
  FuzzCheck(!request->label_attribute.empty(), "rows have labels");
  // What is left to check is whether the collection fits.
  SgdOptions options = request->options;
  options.model.dimension = 1;
  options.blocks = 0;
  options.top_k = 1;
  FuzzCheck(ValidateSgdOptions(options).ok(),
            "options that decode are options");
  FuzzCheck(options.max_updates >= 1, "there is something to do");
}

void TryPredict(const v1::PredictRequest& message, const Limits& limits) {
  const auto request = DecodePredict(message, limits);
  if (!request.ok()) return CheckRefusal(request.status());
  FuzzCheck(request->ids.empty() != request->vectors.empty(),
            "either ids or vectors");
  for (const std::vector<float>& vector : request->vectors) {
    CheckVector(vector, limits);
  }
}

template <typename Message>
bool Parse(const uint8_t* data, size_t size, Message* message) {
  return message->ParseFromArray(data, static_cast<int>(size));
}

}  // namespace
}  // namespace coterie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace coterie;
  // Text that is not UTF-8 is expected here, not news.
  static const bool quiet = (google::protobuf::SetLogHandler(nullptr), true);
  (void)quiet;
  if (size == 0) return 0;
  const Limits limits = FuzzLimits((data[0] & 1) != 0);
  const int message = (data[0] >> 1) % 11;
  ++data;
  --size;
  v1::ShardSearchRequest search;
  v1::ShardWriteRequest write;
  v1::CatalogueRecord catalogue;
  v1::ShardSearchResponse found;
  v1::ShardGetResponse got;
  v1::BeginJobRequest begin;
  v1::ReadRecordsResponse records;
  v1::TrainKMeansRequest train;
  v1::AssignRequest assign;
  v1::TrainSgdRequest sgd;
  v1::PredictRequest predict;
  switch (message) {
    case 0:
      if (Parse(data, size, &search)) TrySearch(search, limits);
      break;
    case 1:
      if (Parse(data, size, &write)) TryWrite(write, limits);
      break;
    case 2:
      if (Parse(data, size, &catalogue)) TryCatalogue(catalogue);
      break;
    case 3:
      if (Parse(data, size, &found)) TrySearchReply(found);
      break;
    case 4:
      if (Parse(data, size, &got)) TryGetReply(got);
      break;
    case 5:
      if (Parse(data, size, &begin)) TryBegin(begin, limits);
      break;
    case 6:
      if (Parse(data, size, &records)) TryRecords(records);
      break;
    case 7:
      if (Parse(data, size, &train)) TryTrain(train, limits);
      break;
    case 8:
      if (Parse(data, size, &assign)) TryAssign(assign, limits);
      break;
    case 9:
      if (Parse(data, size, &sgd)) TryTrainSgd(sgd, limits);
      break;
    default:
      if (Parse(data, size, &predict)) TryPredict(predict, limits);
  }
  return 0;
}
