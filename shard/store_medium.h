// What a store lies on, when it is not simply the machine's disk: for tests
// that cut the power, fill the disk or damage it.
//
// Stateless; any thread.

#ifndef COTERIE_SHARD_STORE_MEDIUM_H_
#define COTERIE_SHARD_STORE_MEDIUM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shard/record_store.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace coterie {

struct StoreMedium {
  // Outlives the store. Null: the machine's.
  rocksdb::Env* env = nullptr;
  // False: writes return before they are on disk, so that a test can show what
  // is lost then.
  bool sync = true;
};

// As RecordStore::Open.
absl::StatusOr<std::unique_ptr<RecordStore>> OpenRecordStoreOn(
    const StoreMedium& medium, absl::string_view path);

}  // namespace coterie

#endif  // COTERIE_SHARD_STORE_MEDIUM_H_
