#include "api/wire_mutator.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace coterie {
namespace {

// Wire types of the protobuf encoding; groups are not used here.
enum WireType : uint64_t { kVarint = 0, kI64 = 1, kBytes = 2, kI32 = 5 };

struct Field {
  uint64_t tag = 0;   // number << 3 | wire type
  std::string value;  // encoded; of kBytes the content without its length
  uint64_t type() const { return tag & 7; }
};

bool ReadVarint(absl::string_view* in, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (in->empty()) return false;
    const auto byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) {
    out.push_back(static_cast<char>(value | 0x80));
  }
  out.push_back(static_cast<char>(value));
  return out;
}

std::string Fixed(uint64_t bits, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) {
    out.push_back(static_cast<char>(bits >> (8 * i)));
  }
  return out;
}

bool Split(absl::string_view in, std::vector<Field>* fields) {
  while (!in.empty()) {
    Field field;
    if (!ReadVarint(&in, &field.tag) || field.tag < 8) return false;
    uint64_t length = 0;
    switch (field.type()) {
      case kVarint: {
        uint64_t value = 0;
        if (!ReadVarint(&in, &value)) return false;
        field.value = Varint(value);
        break;
      }
      case kI64:
        length = 8;
        break;
      case kI32:
        length = 4;
        break;
      case kBytes:
        if (!ReadVarint(&in, &length)) return false;
        break;
      default:
        return false;
    }
    if (length > in.size()) return false;
    field.value.append(in.data(), length);
    in.remove_prefix(length);
    fields->push_back(std::move(field));
  }
  return true;
}

std::string Join(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& field : fields) {
    out += Varint(field.tag);
    if (field.type() == kBytes) out += Varint(field.value.size());
    out += field.value;
  }
  return out;
}

uint64_t AnyInteger(std::mt19937_64& random) {
  constexpr uint64_t kEdges[] = {0,
                                 1,
                                 2,
                                 5,
                                 64,
                                 1025,
                                 10001,
                                 0x7FFFFFFF,
                                 0x80000000,
                                 0x7FFFFFFFFFFFFFFF,
                                 0x8000000000000000,
                                 ~uint64_t{0}};
  return random() % 4 == 0 ? random() : kEdges[random() % std::size(kEdges)];
}

double AnyNumber(std::mt19937_64& random) {
  constexpr double kEdges[] = {0.0,
                               -0.0,
                               0.5,
                               1,
                               -1,
                               1e30,
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()};
  return kEdges[random() % std::size(kEdges)];
}

void ChangeBytes(std::mt19937_64& random, std::string* bytes) {
  if (random() % 2 == 0 && MutateMessage(random, bytes)) return;
  const size_t at = random() % (bytes->size() + 1);
  switch (random() % 4) {
    case 0:
      bytes->insert(at, 1, static_cast<char>(random()));
      break;
    case 1:
      bytes->erase(at, 1 + random() % 4);
      break;
    case 2:  // over some limit or other
      bytes->append(random() % 20, 'x');
      break;
    default:
      if (at < bytes->size()) (*bytes)[at] = static_cast<char>(random());
  }
}

void ChangeValue(std::mt19937_64& random, Field* field) {
  const bool number = random() % 2 == 0;
  switch (field->type()) {
    case kVarint:
      field->value = Varint(AnyInteger(random));
      break;
    case kI64:
      field->value = Fixed(number ? std::bit_cast<uint64_t>(AnyNumber(random))
                                  : AnyInteger(random),
                           8);
      break;
    case kI32:
      field->value = Fixed(number ? std::bit_cast<uint32_t>(
                                        static_cast<float>(AnyNumber(random)))
                                  : AnyInteger(random),
                           4);
      break;
    default:
      ChangeBytes(random, &field->value);
  }
}

}  // namespace

bool MutateMessage(std::mt19937_64& random, std::string* message) {
  std::vector<Field> fields;
  if (!Split(*message, &fields) || fields.empty()) return false;
  const size_t at = random() % fields.size();
  const auto position = [&fields](size_t i) {
    return fields.begin() + static_cast<std::ptrdiff_t>(i);
  };
  switch (random() % 8) {
    case 0:
      fields.erase(position(at));
      break;
    case 1: {
      const Field copy = fields[at];
      fields.insert(position(random() % (fields.size() + 1)), copy);
      break;
    }
    case 2:
      std::swap(fields[at], fields[random() % fields.size()]);
      break;
    case 3:  // another field of the same wire type
      fields[at].tag = (1 + random() % 10) << 3 | fields[at].type();
      break;
    default:
      ChangeValue(random, &fields[at]);
  }
  *message = Join(fields);
  return true;
}

}  // namespace coterie
