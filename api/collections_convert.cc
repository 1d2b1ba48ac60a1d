#include "api/collections_convert.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "api/status_details.h"

namespace coterie {
namespace {

absl::StatusOr<Metric> DecodeMetric(v1::Metric metric) {
  switch (metric) {
    case v1::SQUARED_L2:
      return Metric::kSquaredL2;
    case v1::INNER_PRODUCT:
      return Metric::kInnerProduct;
    case v1::COSINE:
      return Metric::kCosine;
    default:
      break;
  }
  return InvalidField("collection.metric",
                      absl::StrCat(static_cast<int>(metric),
                                   " is not a metric: give SQUARED_L2, "
                                   "INNER_PRODUCT or COSINE"));
}

v1::Metric EncodeMetric(Metric metric) {
  switch (metric) {
    case Metric::kSquaredL2:
      return v1::SQUARED_L2;
    case Metric::kInnerProduct:
      return v1::INNER_PRODUCT;
    case Metric::kCosine:
      return v1::COSINE;
  }
  return v1::METRIC_UNSPECIFIED;
}

absl::StatusOr<IndexSpec> DecodeIndex(const v1::IndexSpec& index,
                                      const std::string& field) {
  IndexSpec spec;
  switch (index.kind_case()) {
    case v1::IndexSpec::kTree:
      spec.kind = IndexKind::kTree;
      return spec;
    case v1::IndexSpec::kLsh:
      spec.kind = IndexKind::kLsh;
      spec.bytes_per_row = index.lsh().bytes_per_row() == 0
                               ? IndexSpec::kDefaultBytesPerRow
                               : index.lsh().bytes_per_row();
      spec.target_recall = index.lsh().target_recall() == 0
                               ? IndexSpec::kDefaultRecall
                               : index.lsh().target_recall();
      return spec;
    case v1::IndexSpec::kFaiss:
      spec.kind = IndexKind::kFaiss;
      spec.factory = index.faiss().factory();
      spec.target_recall = index.faiss().target_recall() == 0
                               ? IndexSpec::kDefaultRecall
                               : index.faiss().target_recall();
      return spec;
    case v1::IndexSpec::KIND_NOT_SET:
      break;
  }
  return InvalidField(field, "not set: give tree, lsh or faiss");
}

void EncodeIndex(const IndexSpec& spec, v1::IndexSpec* out) {
  if (spec.kind == IndexKind::kTree) {
    out->mutable_tree();
    return;
  }
  if (spec.kind == IndexKind::kFaiss) {
    out->mutable_faiss()->set_factory(spec.factory);
    out->mutable_faiss()->set_target_recall(spec.target_recall);
    return;
  }
  out->mutable_lsh()->set_bytes_per_row(spec.bytes_per_row);
  out->mutable_lsh()->set_target_recall(spec.target_recall);
}

void EncodeIndexState(const IndexState& state, v1::IndexState* out) {
  // The same numbers.
  out->set_kind(static_cast<v1::IndexState::Kind>(state.kind));
  out->set_segments(state.segments);
  out->set_segments_ready(state.segments_ready);
  out->set_rows(state.rows);
  out->set_rows_ready(state.rows_ready);
  out->set_bytes(state.bytes);
  out->set_bytes_expected(state.bytes_expected);
  out->set_note(state.note);
}

v1::ShardDescription::State EncodeState(ShardDescription::State state) {
  switch (state) {
    case ShardDescription::State::kServing:
      return v1::ShardDescription::SERVING;
    case ShardDescription::State::kLoading:
      return v1::ShardDescription::LOADING;
    case ShardDescription::State::kUnreachable:
      return v1::ShardDescription::UNREACHABLE;
  }
  return v1::ShardDescription::STATE_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<CollectionSpec> DecodeCollection(
    const v1::Collection& collection, const Limits& limits) {
  const absl::StatusOr<Metric> metric = DecodeMetric(collection.metric());
  if (!metric.ok()) return metric.status();
  CollectionSpec spec;
  spec.name = collection.name();
  spec.dimension = collection.dimension();
  spec.metric = *metric;
  spec.slots = collection.slots();
  if (spec.slots == 0) {
    spec.slots =
        static_cast<int32_t>(std::min(int64_t{kDefaultSlots}, limits.slots));
  }
  for (int i = 0; i < collection.indexes_size(); ++i) {
    auto index = DecodeIndex(collection.indexes(i),
                             absl::StrCat("collection.indexes[", i, "]"));
    if (!index.ok()) return index.status();
    spec.indexes.push_back(*index);
  }
  const absl::Status status = ValidateCollection(spec, limits);
  if (!status.ok()) return status;
  return spec;
}

void EncodeCollection(const CollectionSpec& spec, v1::Collection* out) {
  out->set_name(spec.name);
  out->set_dimension(spec.dimension);
  out->set_metric(EncodeMetric(spec.metric));
  out->set_slots(spec.slots);
  for (const IndexSpec& index : spec.indexes) {
    EncodeIndex(index, out->add_indexes());
  }
}

void EncodeShardStats(const ShardCollectionStats& shard,
                      v1::ShardCollectionStats* out) {
  out->set_shard_id(shard.shard_id);
  out->set_points(shard.points);
  out->set_dead_rows(shard.dead_rows);
  out->set_sealed_segments(shard.sealed_segments);
  out->set_tail_rows(shard.tail_rows);
  out->set_memory_bytes(shard.memory_bytes);
  out->set_slots(shard.slots);
  out->set_sequence(shard.sequence);
  for (const IndexState& index : shard.indexes) {
    EncodeIndexState(index, out->add_indexes());
  }
}

void EncodeStats(const CollectionSpec& spec,
                 const std::vector<ShardCollectionStats>& shards,
                 v1::CollectionStats* out) {
  int64_t points = 0;
  int64_t memory_bytes = 0;
  for (const ShardCollectionStats& shard : shards) {
    points += shard.points;
    memory_bytes += shard.memory_bytes;
    EncodeShardStats(shard, out->add_shards());
  }
  out->set_points(points);
  out->set_vector_bytes(points * spec.dimension *
                        static_cast<int64_t>(sizeof(float)));
  out->set_memory_bytes(memory_bytes);
}

void EncodeShard(const ShardDescription& shard, v1::ShardDescription* out) {
  out->set_shard_id(shard.shard_id);
  out->set_address(shard.address);
  out->set_state(EncodeState(shard.state));
  out->set_reason(shard.reason);
  out->set_incarnation(shard.incarnation);
  out->set_sequence(shard.sequence);
  out->set_points(shard.points);
  out->set_memory_bytes(shard.memory_bytes);
  out->set_queue_length(shard.queue_length);
  out->set_queue_capacity(shard.queue_capacity);
  out->set_threads(shard.threads);
  v1::ShardSegmentFiles* const files = out->mutable_segment_files();
  files->set_in_use(shard.segment_files.in_use);
  files->set_refused(shard.segment_files.refused);
  files->set_write_failures(shard.segment_files.write_failures);
  for (const QueueState& queue : shard.queues) {
    v1::ShardQueue* encoded = out->add_queues();
    // The same order, from 1.
    encoded->set_work_class(static_cast<v1::ShardQueue::WorkClass>(
        static_cast<int>(queue.work_class) + 1));
    encoded->set_length(queue.length);
    encoded->set_capacity(queue.capacity);
    encoded->set_refused(queue.refused);
    encoded->set_taken(queue.taken);
    encoded->set_wait_seconds(queue.wait_seconds);
  }
}

}  // namespace coterie
