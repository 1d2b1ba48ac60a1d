// Finds points by the value of an attribute. Stateless.

#ifndef COTERIE_CLIENT_FIND_BY_TEXT_H_
#define COTERIE_CLIENT_FIND_BY_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/session.h"

namespace coterie {

struct TextMatch {
  // 0, 1, or 2 when there are several.
  int64_t points = 0;
  // The smaller id of those seen; meaningful when points > 0.
  uint64_t id = 0;
};

// Looks for points whose `attribute` is `text`: as a string, and when it reads
// as one, as an integer or a boolean. Reads attributes on every shard until
// two points are found. Errors are the server's.
absl::StatusOr<TextMatch> FindByText(const Session& session,
                                     const std::string& collection,
                                     const std::string& attribute,
                                     const std::string& text);

}  // namespace coterie

#endif  // COTERIE_CLIENT_FIND_BY_TEXT_H_
