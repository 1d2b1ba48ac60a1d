#include "api/limits.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

struct Entry {
  const char* name;
  int64_t Limits::*value;
  int64_t most;
};

// Lengths and counts in protobuf and gRPC are 32 bits; a larger bound would
// wrap there and refuse everything or nothing.
constexpr int64_t kWire = std::numeric_limits<int32_t>::max();

constexpr Entry kEntries[] = {
    // Up to here the error bounds of the integer scan are proven.
    {"dimension", &Limits::dimension, 16384},
    {"k", &Limits::k, kWire},
    {"queries", &Limits::queries, kWire},
    {"queries_times_k", &Limits::queries_times_k, kWire},
    {"points_per_upsert", &Limits::points_per_upsert, kWire},
    {"ids_per_request", &Limits::ids_per_request, kWire},
    {"attributes_per_point", &Limits::attributes_per_point, kWire},
    {"attribute_key_bytes", &Limits::attribute_key_bytes, kWire},
    {"attribute_set_bytes", &Limits::attribute_set_bytes, kWire},
    {"filter_conditions", &Limits::filter_conditions, kWire},
    {"filter_values", &Limits::filter_values, kWire},
    {"collection_name_bytes", &Limits::collection_name_bytes, kWire},
    {"collections", &Limits::collections, kWire},
    {"slots", &Limits::slots, 1024},
    {"message_bytes", &Limits::message_bytes, kWire},
    {"scan_page_bytes", &Limits::scan_page_bytes, kWire},
};

}  // namespace

std::vector<std::pair<std::string, int64_t>> Limits::Table() const {
  std::vector<std::pair<std::string, int64_t>> table;
  for (const Entry& entry : kEntries) {
    table.emplace_back(entry.name, this->*entry.value);
  }
  return table;
}

absl::Status Limits::Validate() const {
  for (const Entry& entry : kEntries) {
    const int64_t value = this->*entry.value;
    if (value < 1 || value > entry.most) {
      return absl::InvalidArgumentError(absl::StrCat(
          "limit ", entry.name, ": ", value, " is not in 1..", entry.most));
    }
  }
  return absl::OkStatus();
}

}  // namespace coterie
