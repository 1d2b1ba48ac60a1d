// Structs as bytes and back, by one list of fields for both ways.
//
// A type lists its fields in a function template, found by its argument:
//
//   template <typename Archive, typename Self>
//     requires std::same_as<std::remove_const_t<Self>, Point>
//   void Fields(Archive& archive, Self& self) { archive(self.x, self.y); }
//
// Numbers are little-endian as they lie in memory, counts are 8 bytes; nothing
// is skipped or aligned. Reading checks every length against what is left, so
// it allocates no more than a small multiple of the input, and accepts exactly
// what writing writes. An object belongs to one thread.

#ifndef COTERIE_TRAINING_BYTE_ARCHIVE_H_
#define COTERIE_TRAINING_BYTE_ARCHIVE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace coterie {

static_assert(std::endian::native == std::endian::little);

// FNV-1a, 64 bits (Fowler, Noll, Vo): finds damage, not malice.
inline uint64_t ByteChecksum(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  }
  return hash;
}

class ByteWriter {
 public:
  template <typename... Ts>
  void operator()(const Ts&... values) {
    (Put(values), ...);
  }

  // With the checksum of all that was put.
  std::string Finish() {
    Put(ByteChecksum(out_));
    return std::move(out_);
  }

 private:
  template <typename T>
  void Put(const T& value) {
    if constexpr (std::is_enum_v<T> || std::is_arithmetic_v<T>) {
      out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else {
      Fields(*this, value);
    }
  }
  void Put(const absl::int128& value) {
    Put(absl::Int128Low64(value));
    Put(absl::Int128High64(value));
  }
  void Put(const std::string& value) {
    Put(static_cast<uint64_t>(value.size()));
    out_.append(value);
  }
  template <typename A, typename B>
  void Put(const std::pair<A, B>& value) {
    Put(value.first);
    Put(value.second);
  }
  template <typename K, typename V>
  void Put(const std::map<K, V>& values) {
    Put(static_cast<uint64_t>(values.size()));
    for (const auto& value : values) Put(value);
  }
  template <typename T>
  void Put(const std::vector<T>& values) {
    Put(static_cast<uint64_t>(values.size()));
    if constexpr (std::is_arithmetic_v<T>) {
      out_.append(reinterpret_cast<const char*>(values.data()),
                  values.size() * sizeof(T));
    } else {
      for (const T& value : values) Put(value);
    }
  }

  std::string out_;
};

class ByteParser {
 public:
  explicit ByteParser(absl::string_view bytes) : bytes_(bytes) {}

  // After the first thing that does not fit everything reads as 0 or empty.
  template <typename... Ts>
  void operator()(Ts&... values) {
    (Get(values), ...);
  }

  bool ok() const { return ok_; }
  void Fail() { ok_ = false; }

  // OK if everything was read, nothing is left and the checksum fits; else
  // DATA_LOSS naming `what`.
  absl::Status Finish(absl::string_view what) {
    const size_t end = at_;
    uint64_t checksum = 0;
    Get(checksum);
    if (ok_ && at_ == bytes_.size() &&
        checksum == ByteChecksum(bytes_.substr(0, end))) {
      return absl::OkStatus();
    }
    return absl::DataLossError(absl::StrCat(what, " of ", bytes_.size(),
                                            " bytes is damaged or cut short"));
  }

 private:
  bool Has(uint64_t count, size_t each) {
    ok_ = ok_ && count <= (bytes_.size() - at_) / each;
    return ok_;
  }
  template <typename T>
  void Get(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      Get(byte);
      if (byte > 1) ok_ = false;
      value = byte == 1;
    } else if constexpr (std::is_enum_v<T> || std::is_arithmetic_v<T>) {
      value = T{};
      if (!Has(1, sizeof(T))) return;
      std::memcpy(&value, bytes_.data() + at_, sizeof(T));
      at_ += sizeof(T);
    } else {
      Fields(*this, value);
    }
  }
  void Get(absl::int128& value) {
    uint64_t low = 0;
    int64_t high = 0;
    Get(low);
    Get(high);
    value = absl::MakeInt128(high, low);
  }
  void Get(std::string& value) {
    uint64_t size = 0;
    Get(size);
    value.clear();
    if (!Has(size, 1)) return;
    value.assign(bytes_.data() + at_, static_cast<size_t>(size));
    at_ += static_cast<size_t>(size);
  }
  template <typename A, typename B>
  void Get(std::pair<A, B>& value) {
    Get(value.first);
    Get(value.second);
  }
  // Keys rise, as they were written.
  template <typename K, typename V>
  void Get(std::map<K, V>& values) {
    uint64_t size = 0;
    Get(size);
    values.clear();
    for (uint64_t i = 0; i < size && Has(1, 1); ++i) {
      std::pair<K, V> value;
      Get(value);
      ok_ = ok_ && (values.empty() || values.rbegin()->first < value.first);
      if (ok_) values.insert(values.end(), std::move(value));
    }
  }
  template <typename T>
  void Get(std::vector<T>& values) {
    uint64_t size = 0;
    Get(size);
    values.clear();
    if constexpr (std::is_arithmetic_v<T>) {
      if (!Has(size, sizeof(T))) return;
      values.resize(static_cast<size_t>(size));
      if (size == 0) return;
      std::memcpy(values.data(), bytes_.data() + at_, size * sizeof(T));
      at_ += static_cast<size_t>(size) * sizeof(T);
    } else {
      for (uint64_t i = 0; i < size && Has(1, 1); ++i) {
        Get(values.emplace_back());
      }
    }
  }

  absl::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_BYTE_ARCHIVE_H_
