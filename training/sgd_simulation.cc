#include "training/sgd_simulation.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "training/sgd_codec.h"
#include "training/sgd_draw.h"

namespace coterie {

void SgdSimulationData::SetWorkers(const std::vector<int32_t>& wanted,
                                   int32_t workers) {
  // Each worker's ids are those of it in order.
  std::vector<std::vector<PointId>> spare(static_cast<size_t>(workers));
  std::vector<size_t> used(static_cast<size_t>(workers));
  PointId next = 1;
  ids.assign(wanted.size(), 0);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const size_t w = static_cast<size_t>(wanted[i]);
    while (used[w] == spare[w].size()) {
      spare[static_cast<size_t>(SgdWorkerOf(next, workers))].push_back(next);
      ++next;
    }
    ids[i] = spare[w][used[w]++];
  }
}

SgdSimulation::SgdSimulation(const SgdSimulationData& data, int32_t shards,
                             std::vector<int32_t> shard_of)
    : data_(data),
      shards_(shards),
      shard_of_(std::move(shard_of)),
      values_(static_cast<size_t>(shards)),
      labels_(static_cast<size_t>(shards)),
      ids_(static_cast<size_t>(shards)) {
  const size_t d = static_cast<size_t>(data.dimension);
  for (size_t i = 0; i < shard_of_.size(); ++i) {
    const size_t s = static_cast<size_t>(shard_of_[i]);
    const auto row = data.values.begin() + static_cast<int64_t>(i * d);
    values_[s].insert(values_[s].end(), row, row + data.dimension);
    labels_[s].push_back(data.labels[i]);
    ids_[s].push_back(data.ids[i]);
  }
}

absl::Status SgdSimulation::MakeShard(const SgdJob& job, int32_t shard) {
  const size_t s = static_cast<size_t>(shard);
  const SgdTask& task = job.task();
  absl::StatusOr<SgdRows> rows = SgdRows::Create(
      task.model, {task.workers, task.seed, task.held_out},
      {{{values_[s].data(), static_cast<int64_t>(ids_[s].size()),
         data_.dimension, data_.dimension},
        ids_[s].data(),
        labels_[s].data(),
        nullptr}});
  if (!rows.ok()) return rows.status();
  nodes_[s].shard.clear();
  nodes_[s].shard.emplace_back(task, *std::move(rows));
  return absl::OkStatus();
}

absl::Status SgdSimulation::Begin(const SgdJob& job) {
  nodes_ = std::vector<Node>(static_cast<size_t>(shards_));
  now_ = 0;
  for (int32_t s = 0; s < shards_; ++s) {
    if (absl::Status status = MakeShard(job, s); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SgdSimulation::Run(SgdJob& job) {
  if (absl::Status s = Begin(job); !s.ok()) return s;
  while (!job.Done()) {
    int32_t first = -1;
    for (int32_t s = 0; s < shards_; ++s) {
      Node& node = nodes_[static_cast<size_t>(s)];
      const SgdStep* step = job.NextStep(s);
      if (!node.busy && step != nullptr && step->number > node.last_number) {
        const std::string bytes = EncodeSgdStep(job.task(), *step);
        absl::StatusOr<SgdStep> received = DecodeSgdStep(bytes);
        if (!received.ok()) return received.status();
        node.step = *std::move(received);
        node.last_number = step->number;
        node.busy = true;
        node.done_at = now_ + (seconds ? seconds(s, step->number) : 1.0);
      }
      if (node.busy &&
          (first < 0 ||
           node.done_at < nodes_[static_cast<size_t>(first)].done_at)) {
        first = s;
      }
    }
    if (first < 0) return absl::InternalError("every shard waits");
    Node& node = nodes_[static_cast<size_t>(first)];
    now_ = node.done_at;
    node.busy = false;
    if (restart_ == first) {
      restart_ = -1;
      if (absl::Status s = MakeShard(job, first); !s.ok()) return s;
      job.ShardRestarted(first);
      continue;
    }
    absl::StatusOr<SgdPartial> partial =
        node.shard[0].Run(node.step, threads, [] { return false; });
    if (!partial.ok()) return partial.status();
    const std::string bytes = EncodeSgdPartial(job.task(), *partial);
    absl::StatusOr<SgdPartial> received = DecodeSgdPartial(job.task(), bytes);
    if (!received.ok()) return received.status();
    const int64_t before = job.progress().update;
    if (absl::Status s = job.Accept(first, *received, now_); !s.ok()) return s;
    if (job.progress().update != before && on_update && !on_update(job, now_)) {
      return absl::OkStatus();
    }
  }
  return job.status();
}

}  // namespace coterie
