// A shard's records on disk: four ordered maps of bytes to bytes, changed by
// atomic, synced batches and read at snapshots.
//
// Thread-safe, except that a Cursor is used by one thread at a time. This is
// the only target that knows RocksDB. Damage that it detects is DATA_LOSS
// naming store and file; a full disk RESOURCE_EXHAUSTED; other failures of the
// disk UNAVAILABLE.
//
// Memory: 32 MiB of cached blocks and 32 MiB of unflushed writes a store, at
// most 128 open files.

#ifndef COTERIE_SHARD_RECORD_STORE_H_
#define COTERIE_SHARD_RECORD_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace coterie {

// What is kept apart, each with its own order and tuning.
enum class Family : uint8_t { kMeta = 0, kRows = 1, kAttributes = 2, kLog = 3 };

// Changes that happen together or not at all, in this order. Plain data.
class StoreBatch {
 public:
  enum class Kind : uint8_t { kPut, kDelete, kDeleteRange };
  struct Op {
    Kind kind;
    Family family;
    std::string key;
    std::string value;  // kDeleteRange: the end of the range, exclusive
  };

  void Put(Family family, std::string key, std::string value) {
    ops_.push_back({Kind::kPut, family, std::move(key), std::move(value)});
  }
  void Delete(Family family, std::string key) {
    ops_.push_back({Kind::kDelete, family, std::move(key), std::string()});
  }
  void DeleteRange(Family family, std::string begin, std::string end) {
    ops_.push_back(
        {Kind::kDeleteRange, family, std::move(begin), std::move(end)});
  }

  const std::vector<Op>& ops() const { return ops_; }

 private:
  std::vector<Op> ops_;
};

class RecordStore {
 public:
  // The records as they were at one moment. Must not outlive the store.
  class Snapshot {
   public:
    virtual ~Snapshot() = default;
  };

  // Walks keys in order. Not thread-safe; must not outlive the store.
  class Cursor {
   public:
    virtual ~Cursor() = default;
    // False at the end and after an error, which status() tells apart.
    virtual bool Valid() const = 0;
    virtual void Next() = 0;
    // REQUIRES: Valid(). Until the next call of Next.
    virtual absl::string_view key() const = 0;
    virtual absl::string_view value() const = 0;
    virtual absl::Status status() const = 0;
  };

  // Opens or creates the store in folder `path`. FAILED_PRECONDITION if another
  // process has it open; DATA_LOSS if files are damaged or missing. The tail of
  // the write-ahead log, torn by a crash, was never acknowledged and is cut.
  static absl::StatusOr<std::unique_ptr<RecordStore>> Open(
      absl::string_view path);

  virtual ~RecordStore() = default;

  // What was cut at opening, in words; empty if nothing was.
  virtual const std::string& torn_tail() const = 0;

  // Returns once the batch is on disk. After an error it is unknown whether it
  // will be there at the next open.
  virtual absl::Status Write(const StoreBatch& batch) = 0;

  virtual std::shared_ptr<const Snapshot> TakeSnapshot() = 0;

  // Values of `keys` in their order, nullopt where there is none. A null
  // snapshot means now.
  virtual absl::StatusOr<std::vector<std::optional<std::string>>> Read(
      Family family, absl::Span<const std::string> keys,
      const Snapshot* snapshot) = 0;

  // At the first key >= begin; ends before `end`. The snapshot must outlive the
  // cursor; null means now.
  virtual std::unique_ptr<Cursor> Walk(Family family, std::string begin,
                                       std::string end,
                                       const Snapshot* snapshot) = 0;

  // Gives the space of a deleted range back, in the background.
  virtual void Reclaim(Family family, std::string begin, std::string end) = 0;

  virtual int64_t MemoryBytes() const = 0;
};

// Opens a store in a folder.
using StoreOpener = std::function<absl::StatusOr<std::unique_ptr<RecordStore>>(
    absl::string_view path)>;

}  // namespace coterie

#endif  // COTERIE_SHARD_RECORD_STORE_H_
