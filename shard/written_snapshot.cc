#include "shard/written_snapshot.h"

namespace coterie {

Written Write(Metric metric, int64_t dimension, int64_t writes,
              int64_t tail_rows, Random& random) {
  SegmentTuning tuning;
  tuning.tail_rows = tail_rows;
  CollectionState state(
      TestCollection("c", 1, static_cast<int32_t>(dimension), metric, 5), 0,
      tuning);
  Written written;
  for (int64_t sequence = 1; sequence <= writes; ++sequence) {
    const PointId id = random() % static_cast<uint64_t>(writes);
    if (random() % 5 == 0) {
      state.Delete(id, sequence);
      written.model.erase(id);
    } else {
      const std::vector<float> vector = RandomVector(dimension, random);
      state.Upsert(id, vector, sequence);
      written.model[id] = vector;
    }
    if (sequence % 100 == 0) state.Maintain();
  }
  written.snapshot = state.Publish(writes);
  return written;
}

}  // namespace coterie
