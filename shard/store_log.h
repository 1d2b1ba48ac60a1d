// What RocksDB warns of, in a file LOG beside the store.
//
// RocksDB's own writer of that file, where it is built with assertions as
// Debian builds it, ends the process at the first line after one that could not
// be written, so a full disk would end it. Here such a line is lost, and
// nothing else happens.

#ifndef COTERIE_SHARD_STORE_LOG_H_
#define COTERIE_SHARD_STORE_LOG_H_

#include <memory>
#include <string>

#include "rocksdb/env.h"

namespace coterie {

// Warnings and worse; thread-safe. The file begins with the first of them; what
// was there before is LOG.old. Each takes 1 MiB at most: a file that is full is
// begun anew. `env` outlives the logger.
std::shared_ptr<rocksdb::Logger> MakeStoreLog(rocksdb::Env* env,
                                              const std::string& folder);

}  // namespace coterie

#endif  // COTERIE_SHARD_STORE_LOG_H_
