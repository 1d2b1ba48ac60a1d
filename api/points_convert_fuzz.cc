// Bytes -> a request of PointService -> its Decode function: a refusal that
// names a field, or a request that keeps what api/points_convert.h promises;
// points return unchanged through Encode. The first byte chooses the limits
// (lowest bit) and the request (the rest, modulo 6).

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "api/fuzz_check.h"
#include "api/points_convert.h"
#include "api/quoted.h"

namespace coterie {
namespace {

void CheckName(const std::string& collection, const Limits& limits) {
  FuzzCheck(!collection.empty(), "a collection is named");
  FuzzCheck(
      static_cast<int64_t>(collection.size()) <= limits.collection_name_bytes,
      "the collection's name keeps its limit");
}

void CheckKey(const std::string& key, const Limits& limits) {
  FuzzCheck(!key.empty(), "keys are not empty");
  FuzzCheck(static_cast<int64_t>(key.size()) <= limits.attribute_key_bytes,
            "keys keep their limit");
  FuzzCheck(IsValidUtf8(key), "keys are UTF-8");
}

void CheckAttributes(const Attributes& attributes, const Limits& limits) {
  FuzzCheck(
      static_cast<int64_t>(attributes.size()) <= limits.attributes_per_point,
      "attributes keep their number");
  FuzzCheck(AttributeBytes(attributes) <= limits.attribute_set_bytes,
            "attributes keep their bytes");
  for (const auto& [key, value] : attributes) {
    CheckKey(key, limits);
    if (const auto* number = std::get_if<double>(&value)) {
      FuzzCheck(!std::isnan(*number), "numbers are not NaN");
    }
    if (const auto* text = std::get_if<std::string>(&value)) {
      FuzzCheck(IsValidUtf8(*text), "text is UTF-8");
    }
  }
}

void CheckIds(const std::vector<PointId>& ids, const Limits& limits) {
  FuzzCheck(!ids.empty(), "there are ids");
  FuzzCheck(static_cast<int64_t>(ids.size()) <= limits.ids_per_request,
            "ids keep their limit");
}

void CheckDistinct(const std::vector<PointId>& ids) {
  const absl::flat_hash_set<PointId> set(ids.begin(), ids.end());
  FuzzCheck(set.size() == ids.size(), "an id stands once in a batch");
}

void CheckRange(const RangeCondition& range) {
  FuzzCheck(range.lower.has_value() || range.upper.has_value(),
            "ranges have a bound");
  FuzzCheck(!range.lower.has_value() || !std::isnan(range.lower->value),
            "lower bounds are not NaN");
  FuzzCheck(!range.upper.has_value() || !std::isnan(range.upper->value),
            "upper bounds are not NaN");
}

void CheckCondition(const Condition& condition, const Limits& limits) {
  if (const auto* match = std::get_if<MatchCondition>(&condition)) {
    CheckKey(match->attribute, limits);
    FuzzCheck(!match->any_of.empty(), "matches have values");
    FuzzCheck(
        static_cast<int64_t>(match->any_of.size()) <= limits.filter_values,
        "values keep their limit");
    FuzzCheck(std::is_sorted(match->any_of.begin(), match->any_of.end()),
              "values are sorted");
    for (const AttributeValue& value : match->any_of) {
      FuzzCheck(!std::holds_alternative<double>(value) &&
                    !std::holds_alternative<std::vector<std::string>>(value),
                "values are string, int or bool");
    }
  } else if (const auto* range = std::get_if<RangeCondition>(&condition)) {
    CheckKey(range->attribute, limits);
    CheckRange(*range);
  } else if (const auto* has = std::get_if<HasAttributeCondition>(&condition)) {
    CheckKey(has->attribute, limits);
  } else {
    const auto& ids = std::get<IdCondition>(condition).ids;
    FuzzCheck(static_cast<int64_t>(ids.size()) <= limits.ids_per_request,
              "ids keep their limit");
    FuzzCheck(std::is_sorted(ids.begin(), ids.end()), "ids are sorted");
    CheckDistinct(ids);
  }
}

void CheckFilter(const Filter& filter, const Limits& limits) {
  FuzzCheck(
      static_cast<int64_t>(filter.must.size() + filter.should.size() +
                           filter.must_not.size()) <= limits.filter_conditions,
      "conditions keep their limit");
  for (const auto* list : {&filter.must, &filter.should, &filter.must_not}) {
    for (const Condition& condition : *list) CheckCondition(condition, limits);
  }
  // Any point may be asked about.
  Admits(filter, 0, {});
  Admits(filter, 1, {{"a", int64_t{1}}, {"b", 0.5}});
}

void CheckSelector(const AttributeSelector& selector, const Limits& limits) {
  FuzzCheck(static_cast<int64_t>(selector.names.size()) <=
                limits.attributes_per_point,
            "names keep their limit");
}

void CheckRequestId(bool has, const WriteBatch& batch) {
  FuzzCheck(batch.request_id.has_value() == has, "a request id stays");
  if (!has) return;
  const auto bytes = static_cast<int64_t>(batch.request_id->client_id.size());
  FuzzCheck(bytes >= 1 && bytes <= kMostClientIdBytes,
            "client ids keep their limit");
  FuzzCheck(IsValidUtf8(batch.request_id->client_id), "client ids are UTF-8");
  FuzzCheck(batch.request_id->sequence >= 0, "sequences are not negative");
}

void Check(const v1::UpsertRequest& request, const WriteBatch& batch,
           const Limits& limits) {
  CheckName(batch.collection, limits);
  CheckRequestId(request.has_request_id(), batch);
  FuzzCheck(batch.deletes.empty(), "an upsert deletes nothing");
  FuzzCheck(!batch.upserts.empty(), "there are points");
  FuzzCheck(
      static_cast<int64_t>(batch.upserts.size()) <= limits.points_per_upsert,
      "points keep their limit");
  std::vector<PointId> ids;
  v1::UpsertRequest encoded;
  encoded.set_collection(batch.collection);
  for (const Point& point : batch.upserts) {
    CheckVector(point.vector, limits);
    CheckAttributes(point.attributes, limits);
    ids.push_back(point.id);
    EncodePoint(point, encoded.add_points());
  }
  CheckDistinct(ids);
  const auto again = DecodeUpsert(encoded, limits);
  FuzzCheck(again.ok() && again->upserts.size() == batch.upserts.size(),
            "what was encoded is decoded");
  for (size_t i = 0; i < batch.upserts.size(); ++i) {
    const Point& a = batch.upserts[i];
    const Point& b = again->upserts[i];
    FuzzCheck(
        a.id == b.id && a.vector == b.vector && a.attributes == b.attributes,
        "points return unchanged");
  }
}

void Check(const v1::DeleteRequest& request, const WriteBatch& batch,
           const Limits& limits) {
  CheckName(batch.collection, limits);
  CheckRequestId(request.has_request_id(), batch);
  FuzzCheck(batch.upserts.empty(), "a delete upserts nothing");
  if (request.has_filter()) {
    CheckFilter(batch.delete_where, limits);
    FuzzCheck(!batch.delete_where.empty(), "a filter asks something");
    FuzzCheck(batch.deletes.empty(), "a filter comes without ids");
    return;
  }
  CheckIds(batch.deletes, limits);
  CheckDistinct(batch.deletes);
}

void Check(const v1::SetAttributesRequest& request, const WriteBatch& batch,
           const Limits& limits) {
  CheckName(batch.collection, limits);
  CheckRequestId(request.has_request_id(), batch);
  FuzzCheck(batch.upserts.empty() && batch.deletes.empty(),
            "updates come alone");
  FuzzCheck(!batch.updates.empty(), "there are updates");
  FuzzCheck(
      static_cast<int64_t>(batch.updates.size()) <= limits.points_per_upsert,
      "updates keep their limit");
  std::vector<PointId> ids;
  for (const AttributeUpdate& update : batch.updates) {
    CheckAttributes(update.attributes, limits);
    ids.push_back(update.id);
  }
  CheckDistinct(ids);
}

void Check(const v1::GetRequest&, const GetRequest& get, const Limits& limits) {
  CheckName(get.collection, limits);
  CheckIds(get.ids, limits);
  CheckSelector(get.with_attributes, limits);
}

void Check(const v1::CountRequest&, const CountRequest& count,
           const Limits& limits) {
  CheckName(count.collection, limits);
  CheckFilter(count.filter, limits);
}

void Check(const v1::ScanRequest&, const ScanRequest& scan,
           const Limits& limits) {
  CheckName(scan.collection, limits);
  FuzzCheck(scan.slices >= 1 && scan.slices <= limits.slots,
            "slices keep their limit");
  FuzzCheck(scan.slice >= 0 && scan.slice < scan.slices,
            "the slice is one of them");
  FuzzCheck(scan.limit >= 0, "the limit is not negative");
  CheckSelector(scan.with_attributes, limits);
  CheckFilter(scan.filter, limits);
}

template <typename Message, typename Decode>
void Try(const uint8_t* data, size_t size, const Limits& limits,
         Decode decode) {
  Message message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return;
  const auto decoded = decode(message, limits);
  if (decoded.ok()) {
    Check(message, *decoded, limits);
  } else {
    CheckRefusal(decoded.status());
  }
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
  const int request = (data[0] >> 1) % 6;
  ++data;
  --size;
  switch (request) {
    case 0:
      Try<v1::UpsertRequest>(data, size, limits, DecodeUpsert);
      break;
    case 1:
      Try<v1::DeleteRequest>(data, size, limits, DecodeDelete);
      break;
    case 2:
      Try<v1::GetRequest>(data, size, limits, DecodeGet);
      break;
    case 3:
      Try<v1::CountRequest>(data, size, limits, DecodeCount);
      break;
    case 4:
      Try<v1::ScanRequest>(data, size, limits, DecodeScan);
      break;
    default:
      Try<v1::SetAttributesRequest>(data, size, limits, DecodeSetAttributes);
  }
  return 0;
}
