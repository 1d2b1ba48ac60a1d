#include "shard/shard.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "api/status_details.h"
#include "shard/filtered_delete.h"
#include "shard/index_builder.h"
#include "shard/job_calls.h"
#include "shard/log_entry.h"
#include "shard/machine_rates.h"
#include "shard/partition.h"
#include "shard/record_codec.h"
#include "shard/reply_budget.h"
#include "shard/search_batcher.h"
#include "shard/segment_keeper.h"
#include "shard/snapshot_search.h"
#include "shard/store_id.h"
#include "shard/stored_points.h"
#include "shard/walk_scanner.h"
#include "shard/work_queue.h"
#include "shard/write_log.h"

namespace coterie {
namespace {

// A tail of 64 MiB is sealed in about this time.
constexpr absl::Duration kSealingRetry = absl::Milliseconds(200);

absl::Status CheckOptions(const ShardOptions& options) {
  const absl::Status status = options.limits.Validate();
  if (!status.ok()) return status;
  if (options.cluster_uuid.empty() || options.path.empty()) {
    return absl::InvalidArgumentError(
        "a shard needs a cluster uuid and a path");
  }
  if (options.shards_total < 1 || options.shard_id < 0 ||
      options.shard_id >= options.shards_total) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shard id ", options.shard_id, " is not in 0..",
        options.shards_total - 1, " (", options.shards_total, " shards)"));
  }
  if (options.threads < 1 || options.queue_capacity < 1 ||
      options.write_queue_bytes < 1 || options.tail_rows < 1 ||
      options.tail_bytes < 1 || options.unsealed_bytes < 1 ||
      options.merge_bytes < 1 || options.index_bytes < 1 ||
      options.index_rows < 1 || options.jobs < 1 || options.job_bytes < 1) {
    return absl::InvalidArgumentError(
        "threads, queue capacity, write queue bytes, tail rows, tail bytes, "
        "unsealed bytes, merge bytes, index bytes, index rows, jobs and job "
        "bytes must be at least 1");
  }
  return absl::OkStatus();
}

SegmentTuning TuningOf(const ShardOptions& options) {
  SegmentTuning tuning;
  tuning.tail_rows = options.tail_rows;
  tuning.tail_bytes = options.tail_bytes;
  tuning.merge_bytes = options.merge_bytes;
  tuning.index_rows = options.index_rows;
  return tuning;
}

}  // namespace

class Shard::Impl {
 public:
  Impl(ShardOptions options, std::unique_ptr<Partition> partition,
       std::string store_id)
      : options_(std::move(options)),
        store_id_(std::move(store_id)),
        partition_(std::move(partition)),
        keeper_(partition_.get(), options_.warn),
        builder_(partition_.get(), TuningOf(options_), options_.index_bytes,
                 options_.warn != nullptr ? options_.warn
                                          : WarnOnStderr(options_.shard_id)),
        log_(std::make_unique<LocalWriteLog>(
            LocalWriteLog::Options{.queue_bytes = options_.write_queue_bytes},
            partition_.get())),
        queue_(options_.pool != nullptr
                   ? options_.pool
                   : std::make_shared<WorkPool>(options_.threads),
               options_.queue_capacity),
        searches_(options_.queue_capacity, &queue_,
                  [this](const std::string& collection,
                         std::vector<SearchBatcher::Search> searches) {
                    Search(collection, std::move(searches));
                  }),
        jobs_(
            {options_.jobs, options_.job_bytes, options_.limits.message_bytes},
            partition_.get(), &queue_, log_.get(), options_.shard_id) {
    keeper_.Start();
    builder_.Start();
  }

  void Stop() {
    stopped_.store(true);
    queue_.Stop();
    log_->Stop();
    builder_.Stop();
    keeper_.Stop();
  }

  // Runs `read` on a thread of the shard and answers with what it returns;
  // `read` is told how long it waited.
  template <typename Reply, typename Read>
  void Enqueue(WorkClass work_class, CallContext call, Done<Reply> done,
               Read read) {
    queue_.Admit(work_class, std::move(call),
                 [done = std::move(done), read = std::move(read)](
                     const WorkQueue::Admission& admission) mutable {
                   if (admission.status.ok()) {
                     done(read(admission.waited));
                   } else {
                     done(admission.status);
                   }
                 });
  }

  // OK if a call that does not queue may be answered.
  absl::Status Ready(const CallContext& call) const {
    if (stopped_.load()) return absl::UnavailableError("the shard is stopping");
    return call.status();
  }

  // RESOURCE_EXHAUSTED if too many rows wait to be sealed.
  absl::Status RoomForRows() const {
    const int64_t waiting = partition_->unsealed_bytes();
    if (waiting <= options_.unsealed_bytes) return absl::OkStatus();
    return Overloaded(
        absl::StrCat("sealing is behind writing (", waiting,
                     " bytes of rows wait, limit unsealed_bytes is ",
                     options_.unsealed_bytes, ")"),
        kSealingRetry);
  }

  // Answers searches that waited together.
  void Search(const std::string& collection,
              std::vector<SearchBatcher::Search> searches);
  // Adds what the scan does not know.
  absl::Status CompleteReply(const ReadView& view,
                             const SearchBatcher::Search& search,
                             ReplyBudget* budget, ShardSearchReply* reply);

  absl::StatusOr<GetReply> Get(const GetRequest& request,
                               const CallContext& call);
  absl::StatusOr<CountReply> Count(const CountRequest& request,
                                   const CallContext& call);
  void Write(WriteBatch batch, CallContext call, Done<WriteReply> done);
  absl::StatusOr<ShardCollectionStats> Stats(const std::string& collection);
  ShardDescription Describe() const;

  // Whether the catalogue, by its names of stores, can be this shard's.
  absl::Status CheckStore(const Catalogue& catalogue) const {
    const auto i = static_cast<size_t>(options_.shard_id);
    if (i >= catalogue.stores.size() || catalogue.stores[i].empty() ||
        catalogue.stores[i] == store_id_) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "the catalogue is for store ", catalogue.stores[i], ", but shard ", i,
        " runs on store ", store_id_, ": its disk was lost or replaced"));
  }

  const ShardOptions options_;
  const std::string store_id_;
  const std::unique_ptr<Partition> partition_;
  SegmentKeeper keeper_;
  IndexBuilder builder_;
  const std::unique_ptr<WriteLog> log_;
  WorkQueue queue_;
  SearchBatcher searches_;
  JobCalls jobs_;
  std::atomic<bool> stopped_{false};
};

void Shard::Impl::Search(const std::string& collection,
                         std::vector<SearchBatcher::Search> searches) {
  const auto refuse = [&searches](const absl::Status& why) {
    for (SearchBatcher::Search& search : searches) {
      const absl::Status ended = search.call.status();
      search.done(ended.ok() ? why : ended);
    }
  };
  const auto view = partition_->View(collection);
  if (!view.ok()) return refuse(view.status());
  const Filter& filter = searches.front().request->filter;
  absl::StatusOr<FilteredRows> filtered = FilteredRows();
  if (!filter.empty()) {
    filtered = AdmittedRows(partition_->store(), *view, filter,
                            SearchBatcher::CallOf(searches));
  }
  if (!filtered.ok()) return refuse(filtered.status());
  std::vector<ReplyBudget> budgets(searches.size(),
                                   ReplyBudget(options_.limits.message_bytes));
  std::vector<SearchInPass> parts;
  for (size_t i = 0; i < searches.size(); ++i) {
    parts.push_back({searches[i].request.get(), searches[i].call, &budgets[i]});
  }
  auto replies = SearchSnapshot(*view->rows, parts, options_.limits, &queue_,
                                filter.empty() ? nullptr : &*filtered);
  for (size_t i = 0; i < searches.size(); ++i) {
    absl::StatusOr<ShardSearchReply>& reply = replies[i];
    if (reply.ok()) {
      absl::Status complete =
          CompleteReply(*view, searches[i], &budgets[i], &*reply);
      if (!complete.ok()) reply = std::move(complete);
    }
    searches[i].done(std::move(reply));
  }
}

absl::Status Shard::Impl::CompleteReply(const ReadView& view,
                                        const SearchBatcher::Search& search,
                                        ReplyBudget* budget,
                                        ShardSearchReply* reply) {
  reply->shard_id = options_.shard_id;
  reply->catalogue_version = view.catalogue_version;
  reply->sequence = view.sequence;
  reply->times.queue_seconds = absl::ToDoubleSeconds(search.waited);
  return FillAttributes(partition_->store(), view,
                        search.request->with_attributes, search.call, budget,
                        &reply->results);
}

absl::StatusOr<GetReply> Shard::Impl::Get(const GetRequest& request,
                                          const CallContext& call) {
  const auto view = partition_->View(request.collection, request.number);
  if (!view.ok()) return view.status();
  ReplyBudget budget(options_.limits.message_bytes);
  return ReadPoints(partition_->store(), *view, request, call, &budget);
}

absl::StatusOr<CountReply> Shard::Impl::Count(const CountRequest& request,
                                              const CallContext& call) {
  const auto view = partition_->View(request.collection, request.number);
  if (!view.ok()) return view.status();
  if (request.filter.empty()) return CountReply{view->rows->rows_live()};
  const auto filtered =
      AdmittedRows(partition_->store(), *view, request.filter, call);
  if (!filtered.ok()) return filtered.status();
  return CountReply{filtered->count};
}

void Shard::Impl::Write(WriteBatch batch, CallContext call,
                        Done<WriteReply> done) {
  absl::Status status = Ready(call);
  if (status.ok() && !batch.upserts.empty()) status = RoomForRows();
  if (!status.ok()) return done(status);
  const auto view = partition_->View(batch.collection, batch.number);
  if (!view.ok()) return done(view.status());
  if (!batch.delete_where.empty()) {
    return Enqueue<std::vector<LogEntry>>(
        WorkClass::kRead, call,
        [this, call, seen = view->sequence, done = std::move(done)](
            absl::StatusOr<std::vector<LogEntry>> all) mutable {
          if (!all.ok()) return done(all.status());
          AppendAll(log_.get(), *std::move(all), call, seen, std::move(done));
        },
        [this, view = *view, batch = std::move(batch),
         call](absl::Duration) -> absl::StatusOr<std::vector<LogEntry>> {
          const auto filtered =
              AdmittedRows(partition_->store(), view, batch.delete_where, call);
          if (!filtered.ok()) return filtered.status();
          return DeletesOf(*view.rows, *filtered, batch);
        });
  }
  auto entry = EntryOf(std::move(batch), view->rows->spec(), options_.shard_id);
  if (!entry.ok()) return done(entry.status());
  if (entry->slots.empty()) return done(WriteReply{0, 0, view->sequence});
  log_->Append(std::move(*entry), std::move(call), std::move(done));
}

absl::StatusOr<ShardCollectionStats> Shard::Impl::Stats(
    const std::string& collection) {
  const auto view = partition_->View(collection);
  if (!view.ok()) return view.status();
  ShardCollectionStats stats;
  stats.shard_id = options_.shard_id;
  stats.points = view->rows->rows_live();
  for (const auto& segment : view->rows->segments()) {
    stats.dead_rows += segment->rows() - segment->live();
    if (segment->segment()->sealed()) {
      ++stats.sealed_segments;
    } else {
      stats.tail_rows += segment->rows();
    }
  }
  stats.memory_bytes = view->rows->MemoryBytes();
  stats.slots = static_cast<int32_t>(view->rows->slots().size());
  stats.sequence = view->sequence;
  stats.indexes = builder_.States(*view->rows);
  return stats;
}

ShardDescription Shard::Impl::Describe() const {
  ShardDescription description;
  description.shard_id = options_.shard_id;
  const absl::Status health = log_->health();
  description.reason =
      health.ok() ? keeper_.trouble() : std::string(health.message());
  description.cluster_uuid = partition_->identity().cluster_uuid;
  description.shards_total = partition_->identity().shards_total;
  description.store_id = store_id_;
  description.incarnation = partition_->identity().incarnation;
  description.catalogue_version = partition_->catalogue()->version;
  const Partition::Totals totals = partition_->totals();
  description.sequence = totals.sequence;
  description.points = totals.points;
  description.memory_bytes = totals.memory_bytes;
  description.threads = queue_.threads();
  for (int i = 0; i < kWorkClasses; ++i) {
    const auto work_class = static_cast<WorkClass>(i);
    // The queue itself knows of one place a collection.
    description.queues.push_back(work_class == WorkClass::kSearch
                                     ? searches_.state()
                                     : queue_.state(work_class));
  }
  description.segment_files = {
      keeper_.files(), static_cast<int64_t>(partition_->warnings().size()),
      keeper_.failures() + builder_.failures()};
  const QueueState& searches = description.queues.front();
  description.queue_length = searches.length;
  description.queue_capacity = searches.capacity;
  return description;
}

// --- Shard ------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Shard>> Shard::Open(ShardOptions options) {
  const absl::Status status = CheckOptions(options);
  if (!status.ok()) return status;
  Partition::Options partition;
  partition.identity.cluster_uuid = options.cluster_uuid;
  partition.identity.shard_id = options.shard_id;
  partition.identity.shards_total = options.shards_total;
  partition.path = options.path;
  partition.open_store = options.open_store;
  partition.limits = options.limits;
  partition.tuning = TuningOf(options);
  partition.segment_disk = options.segment_disk;
  MachineRates();  // measured before there are searches to plan
  auto opened = Partition::Open(std::move(partition));
  if (!opened.ok()) return opened.status();
  auto store_id = ClaimStoreId((*opened)->store());
  if (!store_id.ok()) return store_id.status();
  return std::unique_ptr<Shard>(new Shard(std::make_unique<Impl>(
      std::move(options), std::move(*opened), std::move(*store_id))));
}

Shard::Shard(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Shard::~Shard() { Stop(); }

int32_t Shard::shard_id() const { return impl_->options_.shard_id; }

const std::string& Shard::cluster_uuid() const {
  return impl_->partition_->identity().cluster_uuid;
}

int64_t Shard::incarnation() const {
  return impl_->partition_->identity().incarnation;
}

const std::string& Shard::store_id() const { return impl_->store_id_; }

void Shard::Stop() { impl_->Stop(); }

void Shard::Search(std::shared_ptr<const SearchRequest> request,
                   CallContext call, Done<ShardSearchReply> done) {
  impl_->searches_.Submit(std::move(request), std::move(call), std::move(done));
}

void Shard::Write(WriteBatch batch, CallContext call, Done<WriteReply> done) {
  impl_->Write(std::move(batch), std::move(call), std::move(done));
}

void Shard::Get(GetRequest request, CallContext call, Done<GetReply> done) {
  impl_->Enqueue(WorkClass::kRead, call, std::move(done),
                 [impl = impl_.get(), request = std::move(request),
                  call](absl::Duration) { return impl->Get(request, call); });
}

void Shard::Count(CountRequest request, CallContext call,
                  Done<CountReply> done) {
  impl_->Enqueue(WorkClass::kRead, call, std::move(done),
                 [impl = impl_.get(), request = std::move(request),
                  call](absl::Duration) { return impl->Count(request, call); });
}

std::unique_ptr<Shard::Scanner> Shard::Scan(ScanRequest request,
                                            CallContext call) {
  const auto start = [&]() -> absl::StatusOr<std::unique_ptr<PointWalk>> {
    auto view = impl_->partition_->View(request.collection, request.number);
    if (!view.ok()) return view.status();
    return PointWalk::Start(impl_->partition_->store(), std::move(*view),
                            std::move(request),
                            impl_->options_.limits.scan_page_bytes);
  };
  auto enqueue = [impl = impl_.get()](CallContext page_call,
                                      Done<ScanPage> done, auto read) {
    impl->Enqueue(WorkClass::kRead, std::move(page_call), std::move(done),
                  std::move(read));
  };
  return std::make_unique<WalkScanner<decltype(enqueue)>>(
      start(), std::move(call), std::move(enqueue));
}

void Shard::ReadCatalogue(CallContext call, Done<Catalogue> done) {
  const absl::Status status = impl_->Ready(call);
  if (!status.ok()) return done(status);
  done(*impl_->partition_->catalogue());
}

void Shard::PutCatalogue(int64_t expected_version, Catalogue catalogue,
                         CallContext call, Done<int64_t> done) {
  const absl::Status fits = impl_->CheckStore(catalogue);
  if (!fits.ok()) return done(fits);
  const auto bytes = static_cast<int64_t>(EncodeCatalogue(catalogue).size());
  impl_->log_->Run(
      bytes, std::move(call),
      [impl = impl_.get(), expected_version, catalogue = std::move(catalogue),
       done = std::move(done)](const absl::Status& admitted) mutable {
        if (!admitted.ok()) {
          done(admitted);
          return absl::OkStatus();
        }
        absl::StatusOr<int64_t> reply = expected_version;
        absl::Status failure = impl->partition_->PutCatalogue(
            expected_version, std::move(catalogue), &reply);
        done(std::move(reply));
        return failure;
      });
}

void Shard::CollectionStats(std::string collection, CallContext call,
                            Done<ShardCollectionStats> done) {
  const absl::Status status = impl_->Ready(call);
  if (!status.ok()) return done(status);
  done(impl_->Stats(collection));
}

void Shard::Describe(CallContext call, Done<ShardDescription> done) {
  const absl::Status status = impl_->Ready(call);
  if (!status.ok()) return done(status);
  done(impl_->Describe());
}

void Shard::BeginJob(JobBegin begin, CallContext call, Done<JobBegun> done) {
  impl_->jobs_.Begin(std::move(begin), std::move(call), std::move(done));
}

void Shard::StepJob(JobStep step, CallContext call, Done<JobAnswer> done) {
  impl_->jobs_.Step(std::move(step), std::move(call), std::move(done));
}

void Shard::LabelRows(JobLabel label, CallContext call,
                      Done<JobLabelled> done) {
  impl_->jobs_.Label(std::move(label), std::move(call), std::move(done));
}

void Shard::EndJob(JobRef job, CallContext call, Done<bool> done) {
  const absl::Status status = impl_->Ready(call);
  if (!status.ok()) return done(status);
  done(impl_->jobs_.End(std::move(job)));
}

void Shard::ReadRecords(RecordsRequest request, CallContext call,
                        Done<std::vector<StoredRecord>> done) {
  impl_->Enqueue(
      WorkClass::kRead, std::move(call), std::move(done),
      [impl = impl_.get(), request = std::move(request)](
          absl::Duration) -> absl::StatusOr<std::vector<StoredRecord>> {
        const auto view =
            impl->partition_->View(request.collection, request.number);
        if (!view.ok()) return view.status();
        return impl->partition_->ReadRecords(
            view->rows->spec().number, request.prefix, request.with_values);
      });
}

void Shard::PutRecord(RecordPut put, CallContext call, Done<int64_t> done) {
  impl_->jobs_.Put(std::move(put), std::move(call), std::move(done));
}

}  // namespace coterie
