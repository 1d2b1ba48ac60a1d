// A disk for tests that loses power, fills up or damages what it holds: it
// stands between RocksDB and the machine's files.
//
// Thread-safe. Files lie where they are said to lie; what was appended but not
// synced, and files made, renamed or removed in a folder that was not synced
// since, are undone by DropUnsynced(), as a machine may do when its power is
// cut. (A removal is not undone: it costs nothing that a store relies on.)

#ifndef COTERIE_SHARD_FAULTY_DISK_H_
#define COTERIE_SHARD_FAULTY_DISK_H_

#include <cstdint>
#include <memory>

#include "shard/record_store.h"

namespace coterie {

class FaultyDisk {
 public:
  FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;
  // REQUIRES: the stores on it are closed.
  ~FaultyDisk();

  // Opens stores on this disk, which outlives them. sync = false: they
  // acknowledge before they have synced.
  StoreOpener Opener(bool sync = true);

  // From now on whatever writes or syncs fails.
  void CutPower();
  // Undoes what was not synced when the power was cut; the bytes lost. What is
  // kept of each file is its synced part, or up to `keep` bytes more.
  // REQUIRES: CutPower was called, the stores on it are closed.
  int64_t DropUnsynced(int64_t keep = 0);

  // How many bytes more fit on it; -1: any number. Appends beyond fail with
  // "no space left".
  void SetRoom(int64_t bytes);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_FAULTY_DISK_H_
