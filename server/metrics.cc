#include "server/metrics.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "index/simd.h"
#include "server/machine_memory.h"

namespace coterie {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// From a look-up in memory to the longest default deadline.
const std::vector<double>& SecondsBounds() {
  static const auto* const bounds = new std::vector<double>{
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
      0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};
  return *bounds;
}

using Labels = std::vector<ClientMetric::Label>;

class Families {
 public:
  void Gauge(const char* name, const char* help, double value,
             Labels labels = {}) {
    Add(name, help, MetricType::Gauge, std::move(labels)).gauge.value = value;
  }
  void Counter(const char* name, const char* help, double value,
               Labels labels = {}) {
    Add(name, help, MetricType::Counter, std::move(labels)).counter.value =
        value;
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  ClientMetric& Add(const char* name, const char* help, MetricType type,
                    Labels labels) {
    MetricFamily* family = nullptr;
    for (MetricFamily& known : families_) {
      if (known.name == name) {
        family = &known;
      }
    }
    if (family == nullptr) {
      family = &families_.emplace_back();
      family->name = name;
      family->help = help;
      family->type = type;
    }
    ClientMetric& metric = family->metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
  }

  std::vector<MetricFamily> families_;
};

void AddQueue(const QueueState& queue, Labels labels, Families* out) {
  labels.push_back({"class", WorkClassName(queue.work_class)});
  out->Gauge("coterie_shard_queue_length", "Calls of the class that wait.",
             queue.length, labels);
  out->Gauge("coterie_shard_queue_capacity",
             "Calls of the class that may wait; more are refused.",
             queue.capacity, labels);
  out->Counter("coterie_shard_queue_refused_total",
               "Calls refused because that many waited.",
               static_cast<double>(queue.refused), labels);
  out->Counter("coterie_shard_queue_taken_total", "Calls that had their turn.",
               static_cast<double>(queue.taken), labels);
  out->Counter("coterie_shard_queue_wait_seconds_total",
               "Seconds that those had waited.", queue.wait_seconds, labels);
}

void AddShard(const ShardDescription& shard, Families* out) {
  const Labels labels = {{"shard", absl::StrCat(shard.shard_id)}};
  const auto gauge = [&](const char* name, const char* help, int64_t value) {
    out->Gauge(name, help, static_cast<double>(value), labels);
  };
  using State = ShardDescription::State;
  gauge("coterie_shard_up", "1 if the shard answers and has loaded.",
        shard.state == State::kServing ? 1 : 0);
  if (shard.state == State::kUnreachable) {
    return;  // what it holds is not known
  }
  gauge("coterie_shard_points", "Live points.", shard.points);
  gauge("coterie_shard_memory_bytes", "Memory of vectors and structures.",
        shard.memory_bytes);
  gauge("coterie_shard_sequence", "Last applied write.", shard.sequence);
  gauge("coterie_shard_incarnation", "Starts of the shard's store.",
        shard.incarnation);
  gauge("coterie_shard_catalogue_version", "Version of the catalogue's copy.",
        shard.catalogue_version);
  for (const QueueState& queue : shard.queues) AddQueue(queue, labels, out);
  gauge("coterie_shard_threads", "Scanning threads.", shard.threads);
  gauge("coterie_shard_segment_files", "Segment files in use.",
        shard.segment_files.in_use);
  gauge("coterie_shard_segment_files_refused",
        "At start: files missing or damaged; their rows were read from the "
        "store.",
        shard.segment_files.refused);
  out->Counter("coterie_shard_segment_file_failures_total",
               "Attempts to write segment files that failed.",
               static_cast<double>(shard.segment_files.write_failures), labels);
}

}  // namespace

Metrics::Metrics(Sources sources)
    : sources_(std::move(sources)),
      handling_(prometheus::BuildHistogram()
                    .Name("coterie_rpc_handling_seconds")
                    .Help("Seconds from an RPC's arrival to its end, by "
                          "method and code; _count counts RPCs.")
                    .Register(registry_)) {}

RpcObserver Metrics::Observer() {
  return
      [this](absl::string_view method, absl::StatusCode code, double seconds) {
        handling_
            .Add({{"method", std::string(method)},
                  {"code", absl::StatusCodeToString(code)}},
                 SecondsBounds())
            .Observe(seconds);
      };
}

std::vector<MetricFamily> Metrics::Collect() const {
  Families out;
  out.Gauge("coterie_build_info", "Always 1; the build is in the labels.", 1,
            {{"version", sources_.version},
             {"role", sources_.role},
             {"simd", std::string(SimdTargetName(ActiveSimdTarget()))}});
  out.Gauge("coterie_serving", "1 while health says SERVING.",
            sources_.health->serving() ? 1 : 0);
  out.Gauge("coterie_resident_bytes", "Memory of the whole process.",
            static_cast<double>(ResidentBytes()));
  out.Gauge("coterie_inflight_request_bytes",
            "Memory of requests being handled.",
            static_cast<double>(sources_.budget->used()));
  out.Gauge("coterie_inflight_request_limit_bytes",
            "Bound of coterie_inflight_request_bytes.",
            static_cast<double>(sources_.budget->limit()));
  out.Counter("coterie_inflight_refused_total",
              "Requests refused because others held that bound.",
              static_cast<double>(sources_.budget->refused()));
  out.Counter("coterie_duplicate_ids_total",
              "Ids met on more than one shard: certificates are withheld. "
              "Anything but 0 is an alarm.",
              static_cast<double>(sources_.duplicate_ids()));
  for (const auto& [collection, recall] : sources_.recalls()) {
    out.Gauge("coterie_recall_at_k",
              "Part of the exact neighbours that searches by an index find, of "
              "those that measured it and of samples, averaged.",
              recall, {{"collection", collection}});
  }
  if (sources_.links != nullptr) {
    const WireCounters::Totals totals = sources_.links->totals();
    out.Counter("coterie_link_sent_messages_total",
                "Messages to shards in other processes.",
                static_cast<double>(totals.messages_sent));
    out.Counter("coterie_link_sent_bytes_total", "Bytes of those, framed.",
                static_cast<double>(totals.bytes_sent));
    out.Counter("coterie_link_received_messages_total",
                "Messages from shards in other processes.",
                static_cast<double>(totals.messages_received));
    out.Counter("coterie_link_received_bytes_total", "Bytes of those, framed.",
                static_cast<double>(totals.bytes_received));
  }
  for (const ShardDescription& shard : sources_.shards()) {
    AddShard(shard, &out);
  }
  std::vector<MetricFamily> families = out.Take();
  for (MetricFamily& family : registry_.Collect()) {
    families.push_back(std::move(family));
  }
  return families;
}

}  // namespace coterie
