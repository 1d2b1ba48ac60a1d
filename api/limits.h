// Bounds on everything a client can size: one table, a flag for each.
//
// Plain data; copied into whoever checks. Over a bound a request fails with
// INVALID_ARGUMENT naming the limit, before anything is done (architecture
// section 4). Values may be lowered or raised at start; never at run time.

#ifndef COTERIE_API_LIMITS_H_
#define COTERIE_API_LIMITS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace coterie {

struct Limits {
  int64_t dimension = 16384;
  int64_t k = 10000;  // also bounds offset + k, and points within a radius
  int64_t queries = 4096;
  int64_t queries_times_k = 1000000;
  int64_t points_per_upsert = 4096;
  int64_t ids_per_request = 4096;
  int64_t attributes_per_point = 64;
  int64_t attribute_key_bytes = 128;
  int64_t attribute_set_bytes = 16 << 10;
  int64_t filter_conditions = 64;
  int64_t filter_values = 1024;
  int64_t collection_name_bytes = 128;
  int64_t collections = 1024;
  int64_t slots = 1024;
  int64_t message_bytes = 16 << 20;
  int64_t scan_page_bytes = 1 << 20;

  // (name, value) in a fixed order, for Describe and --help.
  std::vector<std::pair<std::string, int64_t>> Table() const;

  // OK if every value is positive and none exceeds what the proofs and the
  // wire format allow (dimension 16,384; slots 1,024; message < 2 GiB).
  // INVALID_ARGUMENT naming the entry otherwise.
  absl::Status Validate() const;
};

}  // namespace coterie

#endif  // COTERIE_API_LIMITS_H_
