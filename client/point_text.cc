#include "client/point_text.h"

#include <charconv>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/numbers.h"

namespace coterie {
namespace {

// As many digits as give the same double back.
std::string DoubleText(double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value);
  return std::string(digits, end.ptr);
}

}  // namespace

std::string AttributeText(const v1::AttributeValue& value) {
  switch (value.kind_case()) {
    case v1::AttributeValue::kStringValue:
      return value.string_value();
    case v1::AttributeValue::kIntValue:
      return absl::StrCat(value.int_value());
    case v1::AttributeValue::kDoubleValue:
      return DoubleText(value.double_value());
    case v1::AttributeValue::kBoolValue:
      return value.bool_value() ? "true" : "false";
    case v1::AttributeValue::kStringsValue:
      return absl::StrCat(
          "[", absl::StrJoin(value.strings_value().values(), ", "), "]");
    case v1::AttributeValue::KIND_NOT_SET:
      break;
  }
  return "";
}

std::string AttributeText(const AttributeMap& attributes,
                          const std::string& name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? "" : AttributeText(found->second);
}

std::vector<std::string> AttributeColumns(
    const std::vector<std::string>& wanted,
    const std::vector<const AttributeMap*>& points) {
  if (!wanted.empty()) return wanted;
  std::set<std::string> names;
  for (const AttributeMap* attributes : points) {
    for (const auto& [name, value] : *attributes) names.insert(name);
  }
  return {names.begin(), names.end()};
}

v1::AttributeSelector SelectAttributes(const std::vector<std::string>& wanted) {
  v1::AttributeSelector selector;
  if (wanted.empty()) {
    selector.set_all(true);
  } else {
    selector.mutable_names()->mutable_values()->Assign(wanted.begin(),
                                                       wanted.end());
  }
  return selector;
}

v1::Vector PackVector(absl::Span<const float> values) {
  v1::Vector vector;
  vector.mutable_packed()->set_dtype(v1::F32);
  vector.mutable_packed()->set_data(values.data(),
                                    values.size() * sizeof(float));
  return vector;
}

std::string VectorText(const v1::Vector& vector) {
  if (vector.has_values()) {
    return VectorText(std::vector<float>(vector.values().values().begin(),
                                         vector.values().values().end()));
  }
  const std::string& data = vector.packed().data();
  if (vector.packed().dtype() != v1::F32 || data.size() % sizeof(float) != 0) {
    return absl::StrCat("(", data.size(), " bytes of type ",
                        v1::DType_Name(vector.packed().dtype()), ")");
  }
  std::vector<float> values(data.size() / sizeof(float));
  std::memcpy(values.data(), data.data(), data.size());
  return VectorText(values);
}

}  // namespace coterie
