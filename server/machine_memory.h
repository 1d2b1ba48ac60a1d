// How much memory this process may use.

#ifndef COTERIE_SERVER_MACHINE_MEMORY_H_
#define COTERIE_SERVER_MACHINE_MEMORY_H_

#include <cstdint>
#include <string>

namespace coterie {

// Bytes: the least of the machine's memory and the limits of this process's
// control groups (versions 1 and 2). Stateless. `root` is "/" but in tests.
int64_t UsableMemoryBytes(const std::string& root = "/");

// Bytes resident in memory now, as the system counts them; 0 if it does not
// say.
int64_t ResidentBytes();

}  // namespace coterie

#endif  // COTERIE_SERVER_MACHINE_MEMORY_H_
