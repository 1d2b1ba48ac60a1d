#include "server/machine_memory.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace coterie {
namespace {

// A root folder with the given files.
class Root {
 public:
  explicit Root(const std::string& name)
      : path_(testing::TempDir() + "/" + name + "/") {
    std::filesystem::remove_all(path_);
  }
  Root& Put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(
        std::filesystem::path(path_ + file).parent_path());
    std::ofstream(path_ + file) << text;
    return *this;
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(MachineMemory, WithoutGroupsItIsTheMachines) {
  const int64_t machine = UsableMemoryBytes(Root("none").path());
  EXPECT_GT(machine, int64_t{1} << 26);
  EXPECT_EQ(UsableMemoryBytes(Root("max")
                                  .Put("proc/self/cgroup", "0::/a\n")
                                  .Put("sys/fs/cgroup/a/memory.max", "max\n")
                                  .path()),
            machine);
}

TEST(MachineMemory, TheLeastLimitOnTheWayUpCounts) {
  Root v2("v2");
  v2.Put("proc/self/cgroup", "0::/pod/box\n")
      .Put("sys/fs/cgroup/pod/memory.max", "33554432\n")
      .Put("sys/fs/cgroup/pod/box/memory.max", "67108864\n");
  EXPECT_EQ(UsableMemoryBytes(v2.path()), 33554432);
  // Inside a container the group is the root of its own view.
  Root inside("inside");
  inside.Put("proc/self/cgroup", "0::/\n")
      .Put("sys/fs/cgroup/memory.max", "1048576\n");
  EXPECT_EQ(UsableMemoryBytes(inside.path()), 1048576);
}

TEST(MachineMemory, VersionOneGroupsCountToo) {
  Root v1("v1");
  v1.Put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n")
      .Put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "2097152\n");
  EXPECT_EQ(UsableMemoryBytes(v1.path()), 2097152);
}

TEST(MachineMemory, ThisProcessHasSomeResident) {
  EXPECT_GT(ResidentBytes(), 1 << 16);
}

}  // namespace
}  // namespace coterie
