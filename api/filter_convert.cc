#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/attribute_convert.h"
#include "api/filter.h"
#include "api/points_convert.h"
#include "api/status_details.h"

namespace coterie {
namespace {

absl::StatusOr<Condition> DecodeMatch(const v1::MatchCondition& match,
                                      const std::string& field,
                                      const Limits& limits) {
  absl::Status status = CheckAttributeKey(
      match.attribute(), absl::StrCat(field, ".attribute"), limits);
  if (!status.ok()) return status;
  const std::string list = absl::StrCat(field, ".any_of");
  if (match.any_of().empty()) {
    return InvalidField(list, "no values: give at least one");
  }
  if (match.any_of_size() > limits.filter_values) {
    return OverLimit(list, match.any_of_size(), "filter_values",
                     limits.filter_values);
  }
  MatchCondition decoded;
  decoded.attribute = match.attribute();
  decoded.any_of.reserve(static_cast<size_t>(match.any_of_size()));
  for (int i = 0; i < match.any_of_size(); ++i) {
    const std::string path = absl::StrCat(list, "[", i, "]");
    absl::StatusOr<AttributeValue> value =
        DecodeAttributeValue(match.any_of(i), path);
    if (!value.ok()) return value.status();
    if (!std::holds_alternative<std::string>(*value) &&
        !std::holds_alternative<int64_t>(*value) &&
        !std::holds_alternative<bool>(*value)) {
      const char* kind =
          std::holds_alternative<double>(*value) ? "a double" : "a list";
      return InvalidField(path, absl::StrCat(kind,
                                             " cannot be matched: give a "
                                             "string, int or bool"));
    }
    decoded.any_of.push_back(*std::move(value));
  }
  std::vector<AttributeValue>& values = decoded.any_of;
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return Condition(std::move(decoded));
}

absl::StatusOr<RangeCondition::Bound> DecodeBound(double value, bool inclusive,
                                                  const std::string& field) {
  if (std::isnan(value)) return InvalidField(field, "nan is not a number");
  return RangeCondition::Bound{value, inclusive};
}

absl::StatusOr<Condition> DecodeRange(const v1::RangeCondition& range,
                                      const std::string& field,
                                      const Limits& limits) {
  absl::Status status = CheckAttributeKey(
      range.attribute(), absl::StrCat(field, ".attribute"), limits);
  if (!status.ok()) return status;
  RangeCondition decoded;
  decoded.attribute = range.attribute();
  if (range.lower_case() != v1::RangeCondition::LOWER_NOT_SET) {
    const bool inclusive = range.lower_case() == v1::RangeCondition::kGte;
    const absl::StatusOr<RangeCondition::Bound> bound =
        DecodeBound(inclusive ? range.gte() : range.gt(), inclusive,
                    absl::StrCat(field, inclusive ? ".gte" : ".gt"));
    if (!bound.ok()) return bound.status();
    decoded.lower = *bound;
  }
  if (range.upper_case() != v1::RangeCondition::UPPER_NOT_SET) {
    const bool inclusive = range.upper_case() == v1::RangeCondition::kLte;
    const absl::StatusOr<RangeCondition::Bound> bound =
        DecodeBound(inclusive ? range.lte() : range.lt(), inclusive,
                    absl::StrCat(field, inclusive ? ".lte" : ".lt"));
    if (!bound.ok()) return bound.status();
    decoded.upper = *bound;
  }
  if (!decoded.lower.has_value() && !decoded.upper.has_value()) {
    return InvalidField(field, "no bound: give gte, gt, lte or lt");
  }
  return Condition(std::move(decoded));
}

absl::StatusOr<Condition> DecodeIds(const v1::IdCondition& ids,
                                    const std::string& field,
                                    const Limits& limits) {
  if (ids.ids_size() > limits.ids_per_request) {
    return OverLimit(absl::StrCat(field, ".ids"), ids.ids_size(),
                     "ids_per_request", limits.ids_per_request);
  }
  IdCondition decoded;
  decoded.ids.assign(ids.ids().begin(), ids.ids().end());
  std::sort(decoded.ids.begin(), decoded.ids.end());
  decoded.ids.erase(std::unique(decoded.ids.begin(), decoded.ids.end()),
                    decoded.ids.end());
  return Condition(std::move(decoded));
}

absl::StatusOr<Condition> DecodeCondition(const v1::Condition& condition,
                                          const std::string& field,
                                          const Limits& limits) {
  switch (condition.kind_case()) {
    case v1::Condition::kMatch:
      return DecodeMatch(condition.match(), absl::StrCat(field, ".match"),
                         limits);
    case v1::Condition::kRange:
      return DecodeRange(condition.range(), absl::StrCat(field, ".range"),
                         limits);
    case v1::Condition::kHasAttribute: {
      const std::string& key = condition.has_attribute().attribute();
      absl::Status status = CheckAttributeKey(
          key, absl::StrCat(field, ".has_attribute.attribute"), limits);
      if (!status.ok()) return status;
      return Condition(HasAttributeCondition{key});
    }
    case v1::Condition::kIds:
      return DecodeIds(condition.ids(), absl::StrCat(field, ".ids"), limits);
    case v1::Condition::KIND_NOT_SET:
      break;
  }
  return InvalidField(field,
                      "no condition: give match, range, has_attribute or ids");
}

absl::Status DecodeList(
    const google::protobuf::RepeatedPtrField<v1::Condition>& conditions,
    const std::string& field, const Limits& limits,
    std::vector<Condition>* out) {
  out->reserve(static_cast<size_t>(conditions.size()));
  for (int i = 0; i < conditions.size(); ++i) {
    absl::StatusOr<Condition> condition = DecodeCondition(
        conditions[i], absl::StrCat(field, "[", i, "]"), limits);
    if (!condition.ok()) return condition.status();
    out->push_back(*std::move(condition));
  }
  return absl::OkStatus();
}

void EncodeRange(const RangeCondition& range, v1::RangeCondition* out) {
  out->set_attribute(range.attribute);
  if (range.lower.has_value()) {
    if (range.lower->inclusive) {
      out->set_gte(range.lower->value);
    } else {
      out->set_gt(range.lower->value);
    }
  }
  if (range.upper.has_value()) {
    if (range.upper->inclusive) {
      out->set_lte(range.upper->value);
    } else {
      out->set_lt(range.upper->value);
    }
  }
}

void EncodeCondition(const Condition& condition, v1::Condition* out) {
  if (const auto* match = std::get_if<MatchCondition>(&condition)) {
    v1::MatchCondition* m = out->mutable_match();
    m->set_attribute(match->attribute);
    for (const AttributeValue& value : match->any_of) {
      EncodeAttributeValue(value, m->add_any_of());
    }
  } else if (const auto* range = std::get_if<RangeCondition>(&condition)) {
    EncodeRange(*range, out->mutable_range());
  } else if (const auto* has = std::get_if<HasAttributeCondition>(&condition)) {
    out->mutable_has_attribute()->set_attribute(has->attribute);
  } else {
    const std::vector<PointId>& ids = std::get<IdCondition>(condition).ids;
    out->mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  }
}

}  // namespace

void EncodeFilter(const Filter& filter, v1::Filter* out) {
  for (const Condition& c : filter.must) EncodeCondition(c, out->add_must());
  for (const Condition& c : filter.should) {
    EncodeCondition(c, out->add_should());
  }
  for (const Condition& c : filter.must_not) {
    EncodeCondition(c, out->add_must_not());
  }
}

absl::StatusOr<Filter> DecodeFilter(const v1::Filter& filter,
                                    absl::string_view field,
                                    const Limits& limits) {
  const int64_t conditions = int64_t{filter.must_size()} +
                             filter.should_size() + filter.must_not_size();
  if (conditions > limits.filter_conditions) {
    return OverLimit(field, conditions, "filter_conditions",
                     limits.filter_conditions);
  }
  Filter decoded;
  absl::Status status = DecodeList(filter.must(), absl::StrCat(field, ".must"),
                                   limits, &decoded.must);
  if (!status.ok()) return status;
  status = DecodeList(filter.should(), absl::StrCat(field, ".should"), limits,
                      &decoded.should);
  if (!status.ok()) return status;
  status = DecodeList(filter.must_not(), absl::StrCat(field, ".must_not"),
                      limits, &decoded.must_not);
  if (!status.ok()) return status;
  return decoded;
}

}  // namespace coterie
