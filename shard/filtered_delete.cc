#include "shard/filtered_delete.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "api/placement.h"

namespace coterie {
namespace {

// Holds itself until the last entry is done.
class Appending : public std::enable_shared_from_this<Appending> {
 public:
  Appending(WriteLog* log, std::vector<LogEntry> entries, CallContext call,
            int64_t sequence, Done<WriteReply> done)
      : log_(log),
        entries_(std::move(entries)),
        call_(std::move(call)),
        done_(std::move(done)) {
    sum_.sequence = sequence;
  }

  void Next() {
    if (at_ == entries_.size()) return done_(sum_);
    log_->Append(std::move(entries_[at_++]), call_,
                 [self = shared_from_this()](absl::StatusOr<WriteReply> reply) {
                   self->Add(std::move(reply));
                 });
  }

 private:
  void Add(absl::StatusOr<WriteReply> reply) {
    if (!reply.ok()) return done_(reply.status());
    sum_.deleted += reply->deleted;
    sum_.duplicates += reply->duplicates;
    sum_.sequence = reply->sequence;
    Next();
  }

  WriteLog* const log_;
  std::vector<LogEntry> entries_;
  size_t at_ = 0;
  const CallContext call_;
  WriteReply sum_;
  Done<WriteReply> done_;
};

}  // namespace

void AppendAll(WriteLog* log, std::vector<LogEntry> entries, CallContext call,
               int64_t sequence, Done<WriteReply> done) {
  std::make_shared<Appending>(log, std::move(entries), std::move(call),
                              sequence, std::move(done))
      ->Next();
}

std::vector<LogEntry> DeletesOf(const CollectionSnapshot& snapshot,
                                const FilteredRows& filtered,
                                const WriteBatch& batch) {
  const CollectionSpec& spec = snapshot.spec();
  std::vector<std::vector<PointId>> by_slot(static_cast<size_t>(spec.slots));
  for (size_t i = 0; i < filtered.segments.size(); ++i) {
    const Segment& segment = *snapshot.segments()[i]->segment();
    filtered.segments[i].rows.ForEach([&](int64_t row) {
      const PointId id = segment.id(row);
      by_slot[static_cast<size_t>(SlotOf(id, spec.slots))].push_back(id);
    });
  }
  std::vector<LogEntry> entries;
  size_t points = 0;
  for (const SlotState& state : snapshot.slots()) {
    std::vector<PointId>& ids = by_slot[static_cast<size_t>(state.slot)];
    if (ids.empty() && !batch.request_id.has_value()) continue;
    if (entries.empty() ||
        points + ids.size() > static_cast<size_t>(kEntryPoints)) {
      LogEntry& entry = entries.emplace_back();
      entry.collection = spec.number;
      entry.where = batch.delete_where;
      entry.request = batch.request_id;
      points = 0;
    }
    points += ids.size();
    SlotMutations& slot = entries.back().slots.emplace_back();
    slot.slot = state.slot;
    slot.deletes = std::move(ids);
    slot.seen_offset = state.offset;
  }
  return entries;
}

}  // namespace coterie
