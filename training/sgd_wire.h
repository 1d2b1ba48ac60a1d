// Bytes of SGD messages, written and read. For training/sgd_codec.cc.
//
// An object belongs to one thread.

#ifndef COTERIE_TRAINING_SGD_WIRE_H_
#define COTERIE_TRAINING_SGD_WIRE_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace coterie::internal_sgd {

static_assert(std::endian::native == std::endian::little);

// Appends to a string, or only counts.
class Out {
 public:
  explicit Out(std::string* bytes) : bytes_(bytes) {}

  int64_t size() const { return size_; }

  void Raw(const void* data, size_t size) {
    size_ += static_cast<int64_t>(size);
    if (bytes_ != nullptr) {
      bytes_->append(static_cast<const char*>(data), size);
    }
  }
  void Byte(uint8_t value) { Raw(&value, 1); }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte(static_cast<uint8_t>(value | 0x80));
    Byte(static_cast<uint8_t>(value));
  }
  void Varint(int64_t value) { Varint(static_cast<uint64_t>(value)); }
  void Double(double value) { Raw(&value, sizeof(value)); }
  void Values(const std::vector<double>& values, bool wide) {
    if (bytes_ == nullptr) {
      size_ += static_cast<int64_t>(values.size() * (wide ? 8 : 4));
    } else if (wide) {
      Raw(values.data(), values.size() * 8);
    } else {
      for (double value : values) {
        const float narrow = static_cast<float>(value);
        Raw(&narrow, sizeof(narrow));
      }
    }
  }

 private:
  std::string* const bytes_;
  int64_t size_ = 0;
};

// Reads what Out wrote. After the first failure everything reads as 0.
class In {
 public:
  explicit In(absl::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t left() const { return bytes_.size(); }
  void Fail() {
    ok_ = false;
    bytes_ = absl::string_view();
  }
  const char* Take(size_t size) {
    if (bytes_.size() < size) {
      Fail();
      return nullptr;
    }
    const char* at = bytes_.data();
    bytes_.remove_prefix(size);
    return at;
  }
  uint8_t Byte() {
    const char* at = Take(1);
    return at == nullptr ? uint8_t{0} : static_cast<uint8_t>(*at);
  }
  uint64_t Unsigned() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      const uint64_t part = byte & 0x7f;
      // One encoding for each value.
      if ((shift == 63 && part > 1) || (shift > 0 && byte == 0)) break;
      value |= part << shift;
      if (byte < 0x80) return value;
    }
    Fail();
    return 0;
  }
  int64_t Count() {
    const uint64_t value = Unsigned();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Fail();
      return 0;
    }
    return static_cast<int64_t>(value);
  }
  int32_t Small() {
    const int64_t value = Count();
    if (value > std::numeric_limits<int32_t>::max()) {
      Fail();
      return 0;
    }
    return static_cast<int32_t>(value);
  }
  double Double() {
    double value = 0;
    if (const char* at = Take(8)) std::memcpy(&value, at, 8);
    return value;
  }
  bool Flag() {
    const uint8_t byte = Byte();
    if (byte > 1) Fail();
    return byte == 1;
  }
  std::vector<double> Values(int64_t count, bool wide) {
    const size_t width = wide ? 8 : 4;
    std::vector<double> values;
    if (static_cast<uint64_t>(count) > left() / width) {
      Fail();
      return values;
    }
    values.resize(static_cast<size_t>(count));
    const char* at = Take(values.size() * width);
    for (size_t i = 0; i < values.size(); ++i) {
      if (wide) {
        std::memcpy(&values[i], at + 8 * i, 8);
      } else {
        float narrow = 0;
        std::memcpy(&narrow, at + 4 * i, 4);
        values[i] = static_cast<double>(narrow);
      }
    }
    return values;
  }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

// A value of kFp16 or kBf16 to 16 bits: `fraction` of them after the point,
// `bias` of the exponent.
struct Half {
  int fraction;
  int bias;

  uint16_t Pack(double value) const {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    value = std::abs(value);
    if (value == 0) return sign;
    const int exponent = std::max(std::ilogb(value), 1 - bias);
    const double whole = std::ldexp(value, fraction - exponent);
    const int biased =
        whole < std::ldexp(1.0, fraction) ? 0 : exponent + bias - 1;
    return static_cast<uint16_t>(sign + (biased << fraction) +
                                 static_cast<int>(whole));
  }
  // Infinities and NaN become values that are not of the format.
  double Unpack(uint16_t bits) const {
    const int field = (bits & 0x7fff) >> fraction;
    const int rest = bits & ((1 << fraction) - 1);
    if (field == (0x7fff >> fraction)) {
      return std::numeric_limits<double>::infinity();
    }
    const double value = field == 0 ? std::ldexp(rest, 1 - bias - fraction)
                                    : std::ldexp(rest + (1 << fraction),
                                                 field - bias - fraction);
    return (bits & 0x8000) != 0 ? -value : value;
  }
};

inline constexpr Half kFloat16 = {10, 15};
inline constexpr Half kBfloat16 = {7, 127};

}  // namespace coterie::internal_sgd

#endif  // COTERIE_TRAINING_SGD_WIRE_H_
