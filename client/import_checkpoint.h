// How far an import has come, so that another run can go on from there.
// Files are replaced atomically and durably. Stateless; any thread.
//
// The rows before `acknowledged_rows` are stored. Those behind it may be: they
// are sent again as the same batches under the same request ids, so that the
// server knows those that it has applied (client/upsert_pipeline.h).

#ifndef COTERIE_CLIENT_IMPORT_CHECKPOINT_H_
#define COTERIE_CLIENT_IMPORT_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace coterie {

struct ImportCheckpoint {
  // Of the request ids.
  std::string client_id;
  // Rows of each batch, and lanes that send them.
  int64_t batch_rows = 0;
  int64_t in_flight = 0;
  // A whole number of batches, or all rows.
  int64_t acknowledged_rows = 0;
  // (what, value): files, collection and options that the rest is true of.
  std::vector<std::pair<std::string, std::string>> identity;
};

// A client id that no other import has: 128 random bits.
std::string NewClientId();

// Size, time of change and a hash of the first 64 KiB of a file, as text: equal
// only if the file is the same as far as that can tell.
absl::StatusOr<std::string> IdentifyFile(const std::string& path);

// INTERNAL if it cannot be written.
absl::Status WriteCheckpoint(const std::string& path,
                             const ImportCheckpoint& checkpoint);

// Nothing if there is no such file. INVALID_ARGUMENT if it is no checkpoint of
// this version.
absl::StatusOr<std::optional<ImportCheckpoint>> ReadCheckpoint(
    const std::string& path);

// FAILED_PRECONDITION naming the first thing that differs, and both values.
absl::Status CheckSameImport(const ImportCheckpoint& saved,
                             const ImportCheckpoint& now,
                             const std::string& path);

// Writes the checkpoint of an import under way. Not thread-safe; the rest of
// this file is.
class CheckpointKeeper {
 public:
  // `required`: the user named the place, so it has to be writable.
  CheckpointKeeper(std::string path, bool required, ImportCheckpoint checkpoint)
      : path_(std::move(path)),
        required_(required),
        checkpoint_(std::move(checkpoint)),
        written_rows_(checkpoint_.acknowledged_rows) {}

  const ImportCheckpoint& checkpoint() const { return checkpoint_; }
  // Whether a file says how far this import has come.
  bool written() const { return written_; }

  // If required, writes the checkpoint, to fail before anything is sent.
  absl::Status Prove();

  // `rows` are acknowledged. Writes if that is news, at most four times a
  // second; after a failure, which is returned once, no more.
  absl::Status Keep(int64_t rows, absl::Time now);
  // As Keep, at once.
  absl::Status Write(int64_t rows);

  // All is stored.
  void Remove() const;

 private:
  const std::string path_;
  const bool required_;
  ImportCheckpoint checkpoint_;
  int64_t written_rows_;
  absl::Time last_ = absl::InfinitePast();
  bool failed_ = false;
  bool written_ = false;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_IMPORT_CHECKPOINT_H_
