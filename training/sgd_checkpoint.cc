#include "training/sgd_checkpoint.h"

#include <cstdint>

#include "absl/status/status.h"

namespace coterie {
namespace {

constexpr uint8_t kFormat = 1;

}  // namespace

template <typename Archive, typename Self>
requires std::same_as<std::remove_const_t<Self>, SgdWorkerRows>
void Fields(Archive& archive, Self& w) { archive(w.worker, w.rows); }

template <typename Archive, typename Self>
requires std::same_as<std::remove_const_t<Self>, SgdCheckpoint>
void Fields(Archive& archive, Self& c) {
  archive(c.options, c.phase, c.version, c.stop, c.extents, c.checksums,
          c.max_squared_norm, c.x, c.y, c.v, c.h_sum, c.h, c.points, c.buffered,
          c.buffered_answers, c.numbers, c.answers, c.shard_loss, c.shard_rows,
          c.accounts, c.staleness, c.progress);
}

std::string EncodeSgdCheckpoint(const SgdCheckpoint& checkpoint) {
  ByteWriter writer;
  writer(kFormat, checkpoint);
  return writer.Finish();
}

absl::StatusOr<SgdCheckpoint> DecodeSgdCheckpoint(absl::string_view bytes) {
  ByteParser parser(bytes);
  uint8_t format = 0;
  SgdCheckpoint checkpoint;
  parser(format, checkpoint);
  if (format != kFormat) parser.Fail();
  const absl::Status status = parser.Finish("SGD checkpoint");
  if (!status.ok()) return status;
  return checkpoint;
}

}  // namespace coterie
