#include "server/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace coterie {
namespace {

// A limit that is absent or "max" takes nothing away.
void Lower(const std::string& file, int64_t* bytes) {
  std::ifstream in(file);
  std::string text;
  int64_t limit = 0;
  if (in >> text && absl::SimpleAtoi(text, &limit) && limit > 0) {
    *bytes = std::min(*bytes, limit);
  }
}

// The group and every one above it.
void LowerAlong(const std::string& mount, std::string group, const char* name,
                int64_t* bytes) {
  for (;;) {
    Lower(mount + group + "/" + name, bytes);
    if (group.empty() || group == "/") {
      return;
    }
    group.resize(group.find_last_of('/'));
  }
}

}  // namespace

int64_t UsableMemoryBytes(const std::string& root) {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                  static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream groups(root + "proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // hierarchy:controllers:path
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') {
      continue;
    }
    if (parts[0] == "0" && parts[1].empty()) {
      LowerAlong(root + "sys/fs/cgroup", parts[2], "memory.max", &bytes);
    } else if (parts[1].find("memory") != std::string::npos) {
      LowerAlong(root + "sys/fs/cgroup/memory", parts[2],
                 "memory.limit_in_bytes", &bytes);
    }
  }
  return bytes;
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  if (!(statm >> size >> resident)) {
    return 0;
  }
  return resident * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace coterie
