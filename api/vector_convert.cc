#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/half_floats.h"
#include "api/points_convert.h"
#include "api/status_details.h"

namespace coterie {
namespace {

absl::Status CheckDimension(int64_t components, absl::string_view field,
                            const Limits& limits) {
  if (components == 0) return InvalidField(field, "the vector is empty");
  if (components > limits.dimension) {
    return OverLimit(field, components, "dimension", limits.dimension);
  }
  return absl::OkStatus();
}

// Refuses NaN and Inf and makes every zero +0. `list` names the components.
absl::Status Normalise(std::vector<float>* components, absl::string_view list) {
  for (size_t i = 0; i < components->size(); ++i) {
    float& x = (*components)[i];
    if (!std::isfinite(x)) {
      return InvalidField(absl::StrCat(list, "[", i, "]"),
                          absl::StrCat(x, " is not a finite number"));
    }
    if (x == 0) x = 0;  // -0 too
  }
  return absl::OkStatus();
}

uint32_t LittleEndian(const char* bytes, int count) {
  uint32_t value = 0;
  for (int i = 0; i < count; ++i) {
    value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  }
  return value;
}

float ReadF32(const char* p) {
  return std::bit_cast<float>(LittleEndian(p, 4));
}
float ReadF16(const char* p) {
  return Binary16ToFloat(static_cast<uint16_t>(LittleEndian(p, 2)));
}
float ReadBf16(const char* p) {
  return Bfloat16ToFloat(static_cast<uint16_t>(LittleEndian(p, 2)));
}
float ReadI8(const char* p) { return static_cast<int8_t>(*p); }

template <int kBytes, float (*kRead)(const char*)>
absl::StatusOr<std::vector<float>> Unpack(const std::string& data,
                                          absl::string_view field,
                                          const Limits& limits) {
  const auto bytes = static_cast<int64_t>(data.size());
  if (bytes % kBytes != 0) {
    return InvalidField(absl::StrCat(field, ".data"),
                        absl::StrCat(bytes, " bytes are not a multiple of ",
                                     kBytes, ", the size of an element"));
  }
  absl::Status status = CheckDimension(bytes / kBytes, field, limits);
  if (!status.ok()) return status;
  std::vector<float> components(data.size() / kBytes);
  for (size_t i = 0; i < components.size(); ++i) {
    components[i] = kRead(data.data() + i * kBytes);
  }
  status = Normalise(&components, field);
  if (!status.ok()) return status;
  return components;
}

absl::StatusOr<std::vector<float>> DecodePacked(const v1::PackedVector& packed,
                                                const std::string& field,
                                                const Limits& limits) {
  switch (packed.dtype()) {
    case v1::F32:
      return Unpack<4, ReadF32>(packed.data(), field, limits);
    case v1::F16:
      return Unpack<2, ReadF16>(packed.data(), field, limits);
    case v1::BF16:
      return Unpack<2, ReadBf16>(packed.data(), field, limits);
    case v1::I8:
      return Unpack<1, ReadI8>(packed.data(), field, limits);
    default:
      return InvalidField(absl::StrCat(field, ".dtype"),
                          absl::StrCat(static_cast<int>(packed.dtype()),
                                       " is not an element type: use F32, "
                                       "F16, BF16 or I8"));
  }
}

}  // namespace

absl::StatusOr<std::vector<float>> DecodeVector(const v1::Vector& vector,
                                                absl::string_view field,
                                                const Limits& limits) {
  switch (vector.encoding_case()) {
    case v1::Vector::kValues: {
      const std::string list = absl::StrCat(field, ".values");
      const auto& values = vector.values().values();
      absl::Status status = CheckDimension(values.size(), list, limits);
      if (!status.ok()) return status;
      std::vector<float> components(values.begin(), values.end());
      status = Normalise(&components, list);
      if (!status.ok()) return status;
      return components;
    }
    case v1::Vector::kPacked:
      return DecodePacked(vector.packed(), absl::StrCat(field, ".packed"),
                          limits);
    case v1::Vector::ENCODING_NOT_SET:
      break;
  }
  return InvalidField(field, "not set: give values or packed");
}

void EncodeVector(VectorView vector, v1::Vector* out) {
  v1::PackedVector* packed = out->mutable_packed();
  packed->set_dtype(v1::F32);
  std::string* data = packed->mutable_data();
  data->resize(vector.size() * 4);
  char* to = data->data();
  for (const float x : vector) {
    const auto bits = std::bit_cast<uint32_t>(x);
    for (int i = 0; i < 4; ++i) *to++ = static_cast<char>(bits >> (8 * i));
  }
}

}  // namespace coterie
