// Which role a caller needs for each RPC: one table, held complete by a test
// over the service descriptors. Nothing enforces it yet.

#ifndef COTERIE_API_RPC_ROLES_H_
#define COTERIE_API_RPC_ROLES_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace coterie {

enum class RpcRole {
  kRead,      // data and metadata
  kWrite,     // points, jobs and what they store
  kAdmin,     // collections, topology
  kInternal,  // coordinator to shard
};

struct RpcRoleEntry {
  absl::string_view method;  // "coterie.v1.SearchService/Search"
  RpcRole role;
};

// Sorted by method.
absl::Span<const RpcRoleEntry> RpcRoles();

std::optional<RpcRole> RoleOf(absl::string_view method);

}  // namespace coterie

#endif  // COTERIE_API_RPC_ROLES_H_
