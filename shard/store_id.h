// What tells one store from every other, also from an empty one that stands in
// the place of a lost one.
//
// A store is named once, at random, when it is made; the catalogue records the
// name of each shard's store (api/collection.h).

#ifndef COTERIE_SHARD_STORE_ID_H_
#define COTERIE_SHARD_STORE_ID_H_

#include <string>

#include "absl/status/statusor.h"
#include "shard/record_store.h"

namespace coterie {

// The store's name, 32 hexadecimal digits; gives it one, durably, if it has
// none. DATA_LOSS if the record is damaged. Called once, before anything else
// writes to the store.
absl::StatusOr<std::string> ClaimStoreId(RecordStore* store);

}  // namespace coterie

#endif  // COTERIE_SHARD_STORE_ID_H_
