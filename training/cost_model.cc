#include "training/cost_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace coterie {
namespace {

struct Factor {
  absl::string_view name;
  int64_t value;
};

absl::Status CheckCount(Factor count) {
  if (count.value < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(count.name, " is ", count.value, "; must be >= 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckSeconds(absl::string_view name, double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", seconds, "; must be finite and >= 0"));
  }
  return absl::OkStatus();
}

absl::Status FiniteResult(absl::string_view what, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat(what, " is ", value, "; does not fit into a double"));
}

absl::StatusOr<int64_t> Product(std::initializer_list<Factor> factors) {
  bool zero = false;
  for (const Factor& factor : factors) {
    if (absl::Status s = CheckCount(factor); !s.ok()) return s;
    zero = zero || factor.value == 0;
  }
  if (zero) return 0;
  int64_t product = 1;
  for (const Factor& factor : factors) {
    if (__builtin_mul_overflow(product, factor.value, &product)) {
      std::string text;
      for (const Factor& f : factors) {
        absl::StrAppend(&text, text.empty() ? "" : " * ", f.name, " ", f.value);
      }
      return absl::OutOfRangeError(
          absl::StrCat(text, " exceeds ", std::numeric_limits<int64_t>::max()));
    }
  }
  return product;
}

absl::StatusOr<int64_t> Sum(Factor a, Factor b) {
  for (const Factor& term : {a, b}) {
    if (absl::Status s = CheckCount(term); !s.ok()) return s;
  }
  int64_t sum = 0;
  if (__builtin_add_overflow(a.value, b.value, &sum)) {
    return absl::OutOfRangeError(
        absl::StrCat(a.name, " ", a.value, " + ", b.name, " ", b.value,
                     " exceeds ", std::numeric_limits<int64_t>::max()));
  }
  return sum;
}

// The same error, led by which shard it is about.
absl::Status OfShard(size_t i, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("shard ", i, ": ", status.message()));
}

struct ShardCost {
  int64_t messages = 0;
  double transfer_seconds = 0;
};

absl::StatusOr<ShardCost> CostOfShard(const ShardStep& shard) {
  if (absl::Status s = CheckSeconds("compute_seconds", shard.compute_seconds);
      !s.ok()) {
    return s;
  }
  absl::StatusOr<int64_t> messages = Sum({"messages_down", shard.messages_down},
                                         {"messages_up", shard.messages_up});
  if (!messages.ok()) return messages.status();
  absl::StatusOr<int64_t> bytes =
      Sum({"bytes_down", shard.bytes_down}, {"bytes_up", shard.bytes_up});
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<double> seconds =
      TransferSeconds(shard.link, *messages, *bytes);
  if (!seconds.ok()) return seconds.status();
  return ShardCost{*messages, *seconds};
}

// Adds a shard's counts to the totals.
absl::Status AddCounts(const ShardStep& shard, int64_t messages,
                       StepPrediction& total) {
  absl::StatusOr<int64_t> sum =
      Sum({"messages so far", total.messages}, {"messages", messages});
  if (!sum.ok()) return sum.status();
  total.messages = *sum;
  sum = Sum({"bytes_down so far", total.bytes_down},
            {"bytes_down", shard.bytes_down});
  if (!sum.ok()) return sum.status();
  total.bytes_down = *sum;
  sum = Sum({"bytes_up so far", total.bytes_up}, {"bytes_up", shard.bytes_up});
  if (!sum.ok()) return sum.status();
  total.bytes_up = *sum;
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateLinkModel(const LinkModel& link) {
  if (absl::Status s = CheckSeconds("alpha_seconds", link.alpha_seconds);
      !s.ok()) {
    return s;
  }
  // Written so that NaN fails.
  if (!(link.beta_bytes_per_second > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("beta_bytes_per_second is ",
                                                   link.beta_bytes_per_second,
                                                   "; must be > 0"));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> TransferSeconds(const LinkModel& link, int64_t messages,
                                       int64_t bytes) {
  if (absl::Status s = ValidateLinkModel(link); !s.ok()) return s;
  if (absl::Status s = CheckCount({"messages", messages}); !s.ok()) return s;
  if (absl::Status s = CheckCount({"bytes", bytes}); !s.ok()) return s;
  const double seconds =
      static_cast<double>(messages) * link.alpha_seconds +
      static_cast<double>(bytes) / link.beta_bytes_per_second;
  if (absl::Status s = FiniteResult("transfer time", seconds); !s.ok()) {
    return s;
  }
  return seconds;
}

absl::StatusOr<int64_t> KMeansUplinkBytes(int64_t k, int64_t dimension,
                                          int64_t bytes_per_value) {
  absl::StatusOr<int64_t> row = Sum({"dimension", dimension}, {"count", 1});
  if (!row.ok()) return row.status();
  return Product({{"k", k},
                  {"dimension + 1", *row},
                  {"bytes_per_value", bytes_per_value}});
}

absl::StatusOr<int64_t> KMeansDownlinkBytes(int64_t k, int64_t dimension,
                                            int64_t bytes_per_value) {
  return Product({{"k", k},
                  {"dimension", dimension},
                  {"bytes_per_value", bytes_per_value}});
}

absl::StatusOr<int64_t> SgdGradientBytes(int64_t parameters,
                                         int64_t bytes_per_value) {
  return Product(
      {{"parameters", parameters}, {"bytes_per_value", bytes_per_value}});
}

absl::StatusOr<int64_t> BlockSparsifiedBytes(int64_t parameters, int64_t blocks,
                                             int64_t blocks_sent,
                                             int64_t bytes_per_value,
                                             int64_t bytes_per_block_id) {
  if (blocks < 1 || blocks > parameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("blocks is ", blocks,
                     "; must be in [1, parameters = ", parameters, "]"));
  }
  if (blocks_sent < 0 || blocks_sent > blocks) {
    return absl::InvalidArgumentError(
        absl::StrCat("blocks_sent is ", blocks_sent,
                     "; must be in [0, blocks = ", blocks, "]"));
  }
  const int64_t block =
      parameters / blocks + (parameters % blocks == 0 ? 0 : 1);
  // blocks_sent * block may overflow only above `parameters`.
  int64_t values = 0;
  if (__builtin_mul_overflow(blocks_sent, block, &values)) values = parameters;
  values = std::min(values, parameters);
  absl::StatusOr<int64_t> payload =
      Product({{"values", values}, {"bytes_per_value", bytes_per_value}});
  if (!payload.ok()) return payload.status();
  absl::StatusOr<int64_t> ids =
      Product({{"blocks_sent", blocks_sent},
               {"bytes_per_block_id", bytes_per_block_id}});
  if (!ids.ok()) return ids.status();
  return Sum({"payload", *payload}, {"block ids", *ids});
}

absl::StatusOr<int64_t> ActivationBytes(int64_t batch, int64_t hidden,
                                        int64_t bytes_per_value) {
  return Product({{"batch", batch},
                  {"hidden", hidden},
                  {"bytes_per_value", bytes_per_value}});
}

absl::StatusOr<int64_t> SearchCandidates(int64_t shards, int64_t k) {
  return Product({{"shards", shards}, {"k", k}});
}

absl::StatusOr<int64_t> SearchCandidateBytes(int64_t shards, int64_t k,
                                             int64_t bytes_per_candidate) {
  return Product({{"shards", shards},
                  {"k", k},
                  {"bytes_per_candidate", bytes_per_candidate}});
}

absl::StatusOr<int64_t> GlobalBatchSize(int64_t workers, int64_t local_batch) {
  return Product({{"workers", workers}, {"local_batch", local_batch}});
}

absl::StatusOr<StarTraffic> StarTotals(int64_t shards,
                                       int64_t down_bytes_per_shard,
                                       int64_t up_bytes_per_shard) {
  absl::StatusOr<int64_t> messages =
      Product({{"shards", shards}, {"messages_per_shard", 2}});
  if (!messages.ok()) return messages.status();
  absl::StatusOr<int64_t> down = Product(
      {{"shards", shards}, {"down_bytes_per_shard", down_bytes_per_shard}});
  if (!down.ok()) return down.status();
  absl::StatusOr<int64_t> up =
      Product({{"shards", shards}, {"up_bytes_per_shard", up_bytes_per_shard}});
  if (!up.ok()) return up.status();
  return StarTraffic{*messages, *down, *up};
}

absl::StatusOr<StepPrediction> PredictStarStep(
    absl::Span<const ShardStep> shards, StarLinks links) {
  if (shards.empty()) {
    return absl::InvalidArgumentError("shards is empty; a step needs >= 1");
  }
  StepPrediction step;
  double slowest = 0;
  double transfers = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    absl::StatusOr<ShardCost> cost = CostOfShard(shards[i]);
    if (!cost.ok()) return OfShard(i, cost.status());
    if (absl::Status s = AddCounts(shards[i], cost->messages, step); !s.ok()) {
      return OfShard(i, s);
    }
    const double compute = shards[i].compute_seconds;
    step.compute_seconds = std::max(step.compute_seconds, compute);
    slowest = std::max(slowest, cost->transfer_seconds + compute);
    transfers += cost->transfer_seconds;
  }
  if (links == StarLinks::kSerial) {
    step.communication_seconds = transfers;
    step.step_seconds = transfers + step.compute_seconds;
  } else {
    step.step_seconds = slowest;
    step.communication_seconds = slowest - step.compute_seconds;
  }
  if (absl::Status s = FiniteResult("step time", step.step_seconds); !s.ok()) {
    return s;
  }
  absl::StatusOr<double> ratio = ComputeToCommunicationRatio(
      step.compute_seconds, step.communication_seconds);
  if (!ratio.ok()) return ratio.status();
  step.ratio = *ratio;
  return step;
}

absl::StatusOr<double> ComputeToCommunicationRatio(
    double compute_seconds, double communication_seconds) {
  if (absl::Status s = CheckSeconds("compute_seconds", compute_seconds);
      !s.ok()) {
    return s;
  }
  if (absl::Status s =
          CheckSeconds("communication_seconds", communication_seconds);
      !s.ok()) {
    return s;
  }
  if (communication_seconds == 0) {
    return std::numeric_limits<double>::infinity();
  }
  return compute_seconds / communication_seconds;
}

absl::StatusOr<double> CommunicationFraction(double compute_seconds,
                                             double communication_seconds) {
  absl::StatusOr<double> ratio =
      ComputeToCommunicationRatio(compute_seconds, communication_seconds);
  if (!ratio.ok()) return ratio.status();
  // Through R, as the sum of the two times may overflow.
  return 1 / (1 + *ratio);
}

}  // namespace coterie
