// What the fuzz targets of api check of every outcome. Stateless; any thread.

#ifndef COTERIE_API_FUZZ_CHECK_H_
#define COTERIE_API_FUZZ_CHECK_H_

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/status/status.h"
#include "api/limits.h"
#include "api/quoted.h"
#include "api/status_details.h"

namespace coterie {

// Ends the process if `holds` is false: to a fuzzer that is a finding.
inline void FuzzCheck(bool holds, const char* claim) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", claim);
  std::abort();
}

// A refusal says what is wrong, in few printable words.
inline void CheckRefusal(const absl::Status& status) {
  FuzzCheck(status.code() == absl::StatusCode::kInvalidArgument,
            "refusals are INVALID_ARGUMENT");
  FuzzCheck(FieldOf(status).has_value() && !FieldOf(status)->empty(),
            "refusals name a field");
  FuzzCheck(status.message().size() < 2000, "messages are short");
  for (const char c : status.message()) {
    FuzzCheck(c >= ' ' && c <= '~', "messages are printable ASCII");
  }
}

// Components as domain code requires them.
inline void CheckVector(const std::vector<float>& vector,
                        const Limits& limits) {
  FuzzCheck(!vector.empty(), "vectors are not empty");
  FuzzCheck(static_cast<int64_t>(vector.size()) <= limits.dimension,
            "vectors keep the limit dimension");
  for (const float x : vector) {
    FuzzCheck(std::isfinite(x), "components are finite");
    FuzzCheck(x != 0 || !std::signbit(x), "zeros are positive");
  }
}

// The defaults, or bounds so tight that small inputs meet them.
inline Limits FuzzLimits(bool tight) {
  Limits limits;
  if (!tight) return limits;
  limits.dimension = 3;
  limits.k = 5;
  limits.queries = 2;
  limits.queries_times_k = 8;
  limits.points_per_upsert = 2;
  limits.ids_per_request = 2;
  limits.attributes_per_point = 2;
  limits.attribute_key_bytes = 3;
  limits.attribute_set_bytes = 12;
  limits.filter_conditions = 2;
  limits.filter_values = 1;
  limits.collection_name_bytes = 4;
  limits.slots = 4;
  return limits;
}

}  // namespace coterie

#endif  // COTERIE_API_FUZZ_CHECK_H_
