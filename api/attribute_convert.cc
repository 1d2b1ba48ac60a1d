#include "api/attribute_convert.h"

#include <cmath>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/points_convert.h"
#include "api/quoted.h"
#include "api/status_details.h"

namespace coterie {
namespace {

absl::Status CheckText(absl::string_view text, absl::string_view field) {
  if (IsValidUtf8(text)) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(Quoted(text), " is not UTF-8"));
}

}  // namespace

void EncodeAttributeValue(const AttributeValue& value,
                          v1::AttributeValue* out) {
  std::visit(
      [out](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          out->set_string_value(v);
        } else if constexpr (std::is_same_v<T, int64_t>) {
          out->set_int_value(v);
        } else if constexpr (std::is_same_v<T, double>) {
          out->set_double_value(v);
        } else if constexpr (std::is_same_v<T, bool>) {
          out->set_bool_value(v);
        } else {
          v1::StringList* list = out->mutable_strings_value();
          for (const std::string& text : v) list->add_values(text);
        }
      },
      value);
}

absl::Status CheckAttributeKey(absl::string_view key, absl::string_view field,
                               const Limits& limits) {
  if (key.empty()) return InvalidField(field, "the attribute's key is empty");
  const auto bytes = static_cast<int64_t>(key.size());
  if (bytes > limits.attribute_key_bytes) {
    return OverLimit(field, bytes, "attribute_key_bytes",
                     limits.attribute_key_bytes);
  }
  return CheckText(key, field);
}

absl::StatusOr<AttributeValue> DecodeAttributeValue(
    const v1::AttributeValue& value, absl::string_view field) {
  switch (value.kind_case()) {
    case v1::AttributeValue::kStringValue: {
      absl::Status status = CheckText(value.string_value(), field);
      if (!status.ok()) return status;
      return AttributeValue(value.string_value());
    }
    case v1::AttributeValue::kIntValue:
      return AttributeValue(static_cast<int64_t>(value.int_value()));
    case v1::AttributeValue::kDoubleValue:
      if (std::isnan(value.double_value())) {
        return InvalidField(field, "nan is not a number");
      }
      return AttributeValue(value.double_value());
    case v1::AttributeValue::kBoolValue:
      return AttributeValue(value.bool_value());
    case v1::AttributeValue::kStringsValue: {
      const auto& list = value.strings_value().values();
      for (int i = 0; i < list.size(); ++i) {
        absl::Status status =
            CheckText(list[i], absl::StrCat(field, ".strings_value[", i, "]"));
        if (!status.ok()) return status;
      }
      return AttributeValue(std::vector<std::string>(list.begin(), list.end()));
    }
    case v1::AttributeValue::KIND_NOT_SET:
      break;
  }
  return InvalidField(field, "the attribute has no value");
}

absl::StatusOr<Attributes> DecodeAttributes(
    const google::protobuf::Map<std::string, v1::AttributeValue>& attributes,
    absl::string_view field, const Limits& limits) {
  const auto count = static_cast<int64_t>(attributes.size());
  if (count > limits.attributes_per_point) {
    return OverLimit(field, count, "attributes_per_point",
                     limits.attributes_per_point);
  }
  // The proto's map has no order; faults are looked for in that of the keys.
  std::map<absl::string_view, const v1::AttributeValue*> ordered;
  for (const auto& [key, value] : attributes) ordered[key] = &value;
  Attributes decoded;
  for (const auto& [key, value] : ordered) {
    const std::string path = absl::StrCat(field, "[", Quoted(key), "]");
    absl::Status status = CheckAttributeKey(key, path, limits);
    if (!status.ok()) return status;
    absl::StatusOr<AttributeValue> v = DecodeAttributeValue(*value, path);
    if (!v.ok()) return v.status();
    decoded.emplace(std::string(key), *std::move(v));
  }
  const int64_t bytes = AttributeBytes(decoded);
  if (bytes > limits.attribute_set_bytes) {
    return OverLimit(field, bytes, "attribute_set_bytes",
                     limits.attribute_set_bytes);
  }
  return decoded;
}

void EncodeAttributes(
    const Attributes& attributes,
    google::protobuf::Map<std::string, v1::AttributeValue>* out) {
  for (const auto& [key, value] : attributes) {
    EncodeAttributeValue(value, &(*out)[key]);
  }
}

void EncodeSelector(const AttributeSelector& selector,
                    v1::AttributeSelector* out) {
  if (selector.all) {
    out->set_all(true);
    return;
  }
  for (const std::string& name : selector.names) {
    out->mutable_names()->add_values(name);
  }
}

absl::StatusOr<AttributeSelector> DecodeSelector(
    const v1::AttributeSelector& selector, absl::string_view field,
    const Limits& limits) {
  AttributeSelector decoded;
  decoded.all = selector.all();
  const auto& names = selector.names().values();
  if (names.size() > limits.attributes_per_point) {
    return OverLimit(absl::StrCat(field, ".names"), names.size(),
                     "attributes_per_point", limits.attributes_per_point);
  }
  decoded.names.assign(names.begin(), names.end());
  return decoded;
}

}  // namespace coterie
