// The bytes inside a stored record: writing them, and reading what may be
// damaged.
//
// Writers are stateless; a ByteReader belongs to one thread. Numbers in keys
// are big-endian, in values little-endian; lengths and counts are LEB128
// varints in shortest form.

#ifndef COTERIE_SHARD_RECORD_BYTES_H_
#define COTERIE_SHARD_RECORD_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace coterie {

template <typename T>
void PutBigEndian(std::string* out, T value) {
  for (int shift = 8 * (static_cast<int>(sizeof(T)) - 1); shift >= 0;
       shift -= 8) {
    out->push_back(static_cast<char>((value >> shift) & 0xff));
  }
}

template <typename T>
void PutLittleEndian(std::string* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out->push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
}

inline void PutVarint(std::string* out, uint64_t value) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>((value & 0x7f) | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

inline void PutString(std::string* out, absl::string_view value) {
  PutVarint(out, value.size());
  out->append(value.data(), value.size());
}

// Reads values off the front of a record, after its format byte. Not
// thread-safe. The first thing that does not fit makes it fail for good; reads
// then give zeros.
class ByteReader {
 public:
  // Fails unless the format byte is in 1..last_format.
  ByteReader(absl::string_view kind, absl::string_view bytes,
             uint8_t last_format = 1)
      : kind_(kind), bytes_(bytes), format_(Byte()) {
    if (format_ < 1 || format_ > last_format) {
      Fail(absl::StrCat(
          "its format byte is not 1",
          last_format > 1 ? absl::StrCat("..", last_format) : std::string()));
    }
  }

  uint8_t format() const { return format_; }

  bool ok() const { return error_.empty(); }
  size_t remaining() const { return bytes_.size() - at_; }

  void Fail(absl::string_view what) {
    if (!ok()) return;
    error_ = absl::StrCat(kind_, " record of ", bytes_.size(), " bytes: ", what,
                          ", at byte ", at_);
  }

  uint8_t Byte() {
    if (!Need(1)) return 0;
    return static_cast<uint8_t>(bytes_[at_++]);
  }

  template <typename T>
  T LittleEndian() {
    if (!Need(sizeof(T))) return 0;
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<T>(static_cast<uint8_t>(bytes_[at_ + i])) << (8 * i);
    }
    at_ += sizeof(T);
    return value;
  }

  // A count that must not be negative once read as int64.
  int64_t Counter() {
    const uint64_t value = LittleEndian<uint64_t>();
    if (value > uint64_t{std::numeric_limits<int64_t>::max()}) {
      Fail("a counter is negative");
      return 0;
    }
    return static_cast<int64_t>(value);
  }

  // Shortest form only, so that a value has one encoding.
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      if (!ok()) return 0;
      if (shift == 63 && byte > 1) break;
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) {
        if (byte == 0 && shift > 0) break;
        return value;
      }
    }
    Fail("a number is not a shortest-form varint");
    return 0;
  }

  // A count of things that take at least `each` bytes, so at most what is left.
  size_t Count(size_t each) {
    const uint64_t count = Varint();
    if (ok() && count > remaining() / each) {
      Fail(absl::StrCat("it announces ", count, " items"));
      return 0;
    }
    return static_cast<size_t>(count);
  }

  std::string String() {
    const size_t size = Count(1);
    if (!Need(size)) return "";
    std::string value(bytes_.data() + at_, size);
    at_ += size;
    return value;
  }

  // OK if everything was read and nothing failed.
  absl::Status Finish() {
    if (ok() && remaining() != 0) Fail("it goes on after its end");
    return ok() ? absl::OkStatus() : absl::DataLossError(error_);
  }

 private:
  bool Need(size_t bytes) {
    if (ok() && remaining() < bytes) Fail("it is cut short");
    return ok();
  }

  absl::string_view kind_;
  absl::string_view bytes_;
  size_t at_ = 0;
  std::string error_;
  const uint8_t format_;  // after what Byte() uses
};

template <typename T>
T ReadBigEndian(absl::string_view bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value << 8 | static_cast<uint8_t>(bytes[at + i]));
  }
  return value;
}

}  // namespace coterie

#endif  // COTERIE_SHARD_RECORD_BYTES_H_
