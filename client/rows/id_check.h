// Finds an id that occurs twice among many.
//
// Thread-compatible. Holds 8 bytes an id, of the first kMost; those beyond are
// not looked at, so that memory is bounded (256 MiB).

#ifndef COTERIE_CLIENT_ROWS_ID_CHECK_H_
#define COTERIE_CLIENT_ROWS_ID_CHECK_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace coterie {

class IdCheck {
 public:
  static constexpr size_t kMost = size_t{1} << 25;

  void Add(uint64_t id) {
    if (ids_.size() < kMost) ids_.push_back(id);
  }

  // The least id that was added more than once. O(n log n); ends the check and
  // frees its memory.
  std::optional<uint64_t> FindDuplicate() {
    std::vector<uint64_t> ids = std::move(ids_);
    std::sort(ids.begin(), ids.end());
    const auto twice = std::adjacent_find(ids.begin(), ids.end());
    if (twice == ids.end()) return std::nullopt;
    return *twice;
  }

 private:
  std::vector<uint64_t> ids_;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_ID_CHECK_H_
