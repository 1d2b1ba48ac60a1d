// The name of a cluster's data, as a UUID.
//
// Stateless; any thread.

#ifndef COTERIE_SERVER_CLUSTER_UUID_H_
#define COTERIE_SERVER_CLUSTER_UUID_H_

#include <string>

#include "absl/strings/string_view.h"

namespace coterie {

// Random (RFC 4122 version 4).
std::string NewClusterUuid();

// The same for the same name, everywhere and always (RFC 9562 version 8, over
// 64-bit FNV-1a). For telling clusters apart, not for keeping secrets.
std::string ClusterUuidOf(absl::string_view name);

// Whether `text` reads as xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx in lower-case
// hexadecimal.
bool IsClusterUuid(absl::string_view text);

}  // namespace coterie

#endif  // COTERIE_SERVER_CLUSTER_UUID_H_
