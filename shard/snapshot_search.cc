#include "shard/snapshot_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/status_details.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/planner.h"
#include "index/top_k.h"
#include "shard/index_search.h"
#include "shard/machine_rates.h"
#include "shard/search_pass.h"

namespace coterie {
namespace {

absl::Status CheckBounds(const SearchRequest& request, const Limits& limits) {
  const auto queries = static_cast<int64_t>(request.queries.size());
  if (queries < 1) return InvalidField("queries", "there is none");
  if (queries > limits.queries) {
    return OverLimit("queries", queries, "queries", limits.queries);
  }
  if (request.k < 1) {
    return InvalidField("k", absl::StrCat(request.k, " is less than 1"));
  }
  if (request.k > limits.k) return OverLimit("k", request.k, "k", limits.k);
  if (queries * request.k > limits.queries_times_k) {
    return OverLimit("queries", queries * request.k, "queries_times_k",
                     limits.queries_times_k);
  }
  if (request.radius.has_value() && std::isnan(*request.radius)) {
    return InvalidField("radius", "it is not a number");
  }
  return absl::OkStatus();
}

// Appends the queries as rows, each admitted by the collection's metric.
absl::Status AppendRows(const SearchRequest& request,
                        const CollectionSpec& spec, std::vector<float>* rows) {
  for (size_t i = 0; i < request.queries.size(); ++i) {
    const std::string field = absl::StrCat("queries[", i, "]");
    const auto* vector = std::get_if<std::vector<float>>(&request.queries[i]);
    if (vector == nullptr) {
      return InvalidField(field, "a shard is asked by vector, not by id");
    }
    if (static_cast<int64_t>(vector->size()) != spec.dimension) {
      return InvalidField(
          field, absl::StrCat("dimension ", vector->size(), ", collection '",
                              spec.name, "' has ", spec.dimension));
    }
    const absl::Status status = ValidateVector(spec.metric, *vector);
    if (!status.ok()) return InvalidField(field, status.message());
    rows->insert(rows->end(), vector->begin(), vector->end());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Hit>> HitsOf(const CollectionSnapshot& snapshot,
                                        std::vector<Neighbor> neighbors,
                                        bool with_vectors,
                                        ReplyBudget* budget) {
  std::vector<Hit> hits;
  hits.reserve(neighbors.size());
  if (with_vectors) {
    const absl::Status status =
        budget->Take(static_cast<int64_t>(neighbors.size()) *
                     snapshot.spec().dimension * int64_t{4});
    if (!status.ok()) return status;
  }
  for (const Neighbor& neighbor : neighbors) {
    Hit hit;
    hit.neighbor = neighbor;
    if (with_vectors) {
      const auto vector = snapshot.Find(neighbor.id);
      if (!vector.has_value()) {
        return absl::InternalError(
            absl::StrCat("point ", neighbor.id, " was found but has no row"));
      }
      hit.vector.assign(vector->begin(), vector->end());
    }
    hits.push_back(std::move(hit));
  }
  return hits;
}

// The searches that are sound, as parts of a pass.
struct Admitted {
  std::vector<float> rows;
  std::vector<SearchPass::Part> parts;
  std::vector<size_t> searches;  // by part
};

void Admit(const SearchInPass& search, size_t index, const CollectionSpec& spec,
           const Limits& limits, absl::StatusOr<ShardSearchReply>* reply,
           Admitted* admitted) {
  const SearchRequest& request = *search.request;
  absl::Status status = CheckBounds(request, limits);
  if (status.ok()) status = CheckStrategy(request.strategy, spec);
  const size_t before = admitted->rows.size();
  if (status.ok()) status = AppendRows(request, spec, &admitted->rows);
  if (!status.ok()) {
    admitted->rows.resize(before);
    *reply = std::move(status);
    return;
  }
  SearchPass::Part part;
  part.first = static_cast<int64_t>(before) / spec.dimension;
  part.count = static_cast<int64_t>(request.queries.size());
  // One more than may lie within the radius, to know that too many do.
  part.keep = request.k + (request.radius.has_value() ? 1 : 0);
  part.radius =
      request.radius.value_or(std::numeric_limits<double>::infinity());
  part.call = search.call;
  if (request.thresholds != nullptr) {
    part.shared = absl::MakeSpan(*request.thresholds);
  }
  admitted->parts.push_back(std::move(part));
  admitted->searches.push_back(index);
}

absl::StatusOr<ShardSearchReply> ReplyTo(const SearchInPass& search,
                                         const SearchPass::Part& part,
                                         const CollectionSnapshot& snapshot,
                                         const Limits& limits,
                                         SearchPass* pass) {
  const SearchRequest& request = *search.request;
  ShardSearchReply reply;
  reply.rows_live = snapshot.rows_live();
  reply.slots = snapshot.slots();
  for (int64_t i = 0; i < part.count; ++i) {
    auto neighbors = pass->TakeNeighbors(part.first + i);
    if (!neighbors.ok()) {
      return absl::InternalError(absl::StrCat(
          "queries[", i, "]: ", std::string(neighbors.status().message())));
    }
    if (static_cast<int64_t>(neighbors->size()) > request.k) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "queries[", i, "]: more than ", request.k,
          " points lie within radius ", part.radius, " (limit `k` is ",
          limits.k, "): ask for a smaller radius"));
    }
    auto hits = HitsOf(snapshot, std::move(*neighbors), request.with_vectors,
                       search.budget);
    if (!hits.ok()) return hits.status();
    reply.results.push_back(std::move(*hits));
    reply.accounts.push_back(pass->AccountOf(part.first + i));
  }
  pass->Describe(reply.accounts, &reply.times);
  return reply;
}

// How a search is run, and why if it was left to the shard.
struct Way {
  Strategy strategy;  // never auto
  std::string why;
};

// The part of the rows that a search is answered from, if there are any.
double AdmittedPart(const CollectionSnapshot& snapshot,
                    const FilteredRows* filtered) {
  if (filtered == nullptr || filtered->count == 0) return 1;
  return static_cast<double>(filtered->count) /
         static_cast<double>(snapshot.rows_live());
}

Way WayOfAuto(const SearchRequest& request, double target_recall,
              const CollectionSnapshot& snapshot,
              const FilteredRows* filtered) {
  // Kept while plans look at them.
  std::vector<std::shared_ptr<const SegmentIndex>> indexes;
  std::vector<PlanSegment> segments;
  for (const auto& view : snapshot.segments()) {
    const Segment& segment = *view->segment();
    PlanSegment& planned = segments.emplace_back();
    planned.rows = view->rows();
    planned.coded = segment.codes() != nullptr;
    const auto tree = segment.indexes().Get(IndexKind::kTree);
    const auto lsh = segment.indexes().Get(IndexKind::kLsh);
    const auto faiss = segment.indexes().Get(IndexKind::kFaiss);
    PlanScales& scales = planned.scales;
    if (tree != nullptr) {
      planned.tree = tree->tree();
      scales.tree = tree->scales().tree;
      scales.scan = tree->scales().scan;
    }
    if (lsh != nullptr) {
      planned.lsh = lsh->lsh();
      scales.lsh = lsh->scales().lsh;
      scales.scan = lsh->scales().scan;
    }
    if (faiss != nullptr) {
      planned.faiss = faiss->faiss();
      scales.faiss = faiss->scales().faiss;
      scales.scan = faiss->scales().scan;
    }
    indexes.insert(indexes.end(), {tree, lsh, faiss});
  }
  PlanQuestion question;
  question.dimension = snapshot.spec().dimension;
  question.queries = static_cast<int64_t>(request.queries.size());
  question.k = request.k;
  question.target_recall = target_recall;
  question.admitted = AdmittedPart(snapshot, filtered);
  const Plan plan = ChoosePlan(question, segments, MachineRates());
  Way way;
  way.why = absl::StrCat("auto, ", plan.Reason(), ": ");
  switch (plan.kind) {
    case Plan::Kind::kScan:
      way.strategy = ExactStrategy();
      break;
    case Plan::Kind::kTree:
      way.strategy = TreeStrategy{0, 0, target_recall};
      break;
    case Plan::Kind::kLsh:
      way.strategy = LshStrategy{target_recall, 0};
      break;
    case Plan::Kind::kFaiss:
      way.strategy = FaissStrategy{target_recall, 0, 0, 0};
      break;
  }
  return way;
}

// What a filter leaves is scanned where it is little, whatever was asked for.
Way WayOf(const SearchRequest& request, const CollectionSnapshot& snapshot,
          const FilteredRows* filtered) {
  const Strategy& asked = request.strategy;
  if (std::holds_alternative<ExactStrategy>(asked)) return {asked, ""};
  if (filtered != nullptr &&
      GatherPays(filtered->count, snapshot.rows_live())) {
    return {ExactStrategy(), "the filter leaves few rows, so scanned: "};
  }
  if (const auto* automatic = std::get_if<AutoStrategy>(&asked)) {
    return WayOfAuto(request, automatic->target_recall, snapshot, filtered);
  }
  return {asked, ""};
}

// What all passes over a snapshot have in common.
struct PassContext {
  const CollectionSnapshot& snapshot;
  absl::Span<const SearchInPass> searches;
  const std::vector<Way>& ways;  // by search
  const Limits& limits;
  WorkQueue* queue;
  const FilteredRows* filtered;  // null: all
};

// Searches by an index and then what it does not cover; all at once where it
// met fewer neighbours than there are. Null if it could not be finished.
class IndexedPass {
 public:
  IndexedPass(const PassContext& context, const ScanQueries& queries,
              const SearchPass::Part& part, const Strategy& strategy)
      : context_(context),
        queries_(queries),
        part_(part),
        index_(context.snapshot, queries, strategy, part, context.filtered) {}

  std::unique_ptr<SearchPass> Run() {
    status_ = index_.Run(context_.queue);
    if (!status_.ok()) return nullptr;
    std::unique_ptr<SearchPass> pass;
    suffices_ = context_.filtered == nullptr || std::isfinite(part_.radius) ||
                index_.Suffices(std::min(part_.keep, context_.filtered->count));
    if (!suffices_) {
      pass = std::make_unique<SearchPass>(
          SegmentsOf(context_.snapshot, context_.filtered), queries_,
          std::vector<SearchPass::Part>{part_});
    } else {
      pass = std::make_unique<SearchPass>(index_.rest(), queries_,
                                          std::vector<SearchPass::Part>{part_});
      for (int64_t q = 0; q < queries_.size(); ++q) {
        pass->Seed(q, index_.TakeNeighbors(q), index_.AccountOf(q));
      }
    }
    pass->Run(context_.queue);
    return pass;
  }

  // Why there is none.
  const absl::Status& status() const { return status_; }

  void Describe(ShardTimes* times) const {
    if (suffices_) return index_.Describe(times);
    times->plan.insert(0, "the index met fewer than pass, so scanned: ");
  }

 private:
  const PassContext& context_;
  const ScanQueries& queries_;
  const SearchPass::Part part_;
  IndexSearch index_;
  absl::Status status_;
  bool suffices_ = true;
};

void DescribeFilter(const PassContext& context, std::string* plan) {
  if (context.filtered == nullptr) return;
  absl::StrAppend(plan, "; filter admits ", context.filtered->count, " of ",
                  context.snapshot.rows_live(), " rows");
  if (context.filtered->records_read > 0) {
    absl::StrAppend(plan, ", ", context.filtered->records_read,
                    " decided by their records");
  }
}

// Answers the searches that were admitted to one pass: the part of one search
// by its strategy, those of several by scanning.
void RunPass(const PassContext& context, const Admitted& admitted,
             std::vector<absl::StatusOr<ShardSearchReply>>* replies) {
  const absl::Time start = absl::Now();
  const CollectionSpec& spec = context.snapshot.spec();
  const auto n = static_cast<int64_t>(admitted.rows.size()) / spec.dimension;
  const ScanQueries queries(
      spec.metric, {admitted.rows.data(), n, spec.dimension, spec.dimension});
  const Strategy& strategy = context.ways[admitted.searches.front()].strategy;
  std::optional<IndexedPass> indexed;
  std::unique_ptr<SearchPass> pass;
  if (std::holds_alternative<ExactStrategy>(strategy)) {
    pass = std::make_unique<SearchPass>(
        SegmentsOf(context.snapshot, context.filtered), queries,
        admitted.parts);
    pass->Run(context.queue);
  } else {
    indexed.emplace(context, queries, admitted.parts.front(), strategy);
    pass = indexed->Run();
  }
  for (size_t i = 0; i < admitted.parts.size(); ++i) {
    const SearchInPass& search = context.searches[admitted.searches[i]];
    absl::StatusOr<ShardSearchReply>& reply = (*replies)[admitted.searches[i]];
    if (pass == nullptr || pass->ended(i)) {
      reply = pass == nullptr ? indexed->status() : search.call.status();
      continue;
    }
    reply = ReplyTo(search, admitted.parts[i], context.snapshot, context.limits,
                    pass.get());
    if (!reply.ok()) continue;
    if (indexed.has_value()) indexed->Describe(&reply->times);
    DescribeFilter(context, &reply->times.plan);
    reply->times.plan.insert(0, context.ways[admitted.searches[i]].why);
    reply->times.scan_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  }
}

}  // namespace

std::vector<absl::StatusOr<ShardSearchReply>> SearchSnapshot(
    const CollectionSnapshot& snapshot, absl::Span<const SearchInPass> searches,
    const Limits& limits, WorkQueue* queue, const FilteredRows* filtered) {
  std::vector<Way> ways;
  for (const SearchInPass& search : searches) {
    ways.push_back(WayOf(*search.request, snapshot, filtered));
  }
  const PassContext context = {snapshot, searches, ways,
                               limits,   queue,    filtered};
  std::vector<absl::StatusOr<ShardSearchReply>> replies(searches.size());
  Admitted scans;
  for (size_t i = 0; i < searches.size(); ++i) {
    const bool scan = std::holds_alternative<ExactStrategy>(ways[i].strategy);
    Admitted one;
    Admitted* const to = scan ? &scans : &one;
    Admit(searches[i], i, snapshot.spec(), limits, &replies[i], to);
    if (!one.parts.empty()) RunPass(context, one, &replies);
  }
  if (!scans.parts.empty()) RunPass(context, scans, &replies);
  return replies;
}

absl::StatusOr<ShardSearchReply> SearchSnapshot(
    const CollectionSnapshot& snapshot, const SearchRequest& request,
    const Limits& limits, const CallContext& call, ReplyBudget* budget,
    WorkQueue* queue, const FilteredRows* filtered) {
  const SearchInPass search = {&request, call, budget};
  return std::move(
      SearchSnapshot(snapshot, {&search, 1}, limits, queue, filtered)[0]);
}

}  // namespace coterie
