#include "coordinator/measured_search.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace coterie {
namespace {

// For the exact search that follows a sampled one.
constexpr absl::Duration kSampleTimeout = absl::Seconds(30);

using Found = std::vector<std::vector<Neighbor>>;  // by query

// Asks for the exact answer; the recall of what was found, query by query.
void Compare(const SearchFunction& search, std::shared_ptr<RecallMeter> meter,
             const SearchRequest& request, Found found, CallContext call,
             Done<std::vector<double>> done) {
  auto exact = std::make_shared<SearchRequest>(request);
  exact->strategy = ExactStrategy();
  exact->with_vectors = false;
  exact->with_attributes = {};
  exact->profile = false;
  search(std::move(exact), std::move(call),
         [meter = std::move(meter), name = request.collection,
          found = std::move(found),
          done = std::move(done)](absl::StatusOr<SearchReply> all) mutable {
           if (!all.ok()) {
             done(all.status());
             return;
           }
           const Found truth = NeighborsOf(*all);
           std::vector<double> recalls;
           for (size_t q = 0; q < truth.size(); ++q) {
             recalls.push_back(RecallOf(found[q], truth[q]));
             meter->Record(name, recalls.back());
           }
           done(std::move(recalls));
         });
}

}  // namespace

Done<SearchReply> MeasuringRecall(SearchFunction search,
                                  std::shared_ptr<RecallMeter> meter,
                                  std::shared_ptr<const SearchRequest> request,
                                  CallContext call, Done<SearchReply> done) {
  return [search = std::move(search), meter = std::move(meter),
          request = std::move(request), call = std::move(call),
          done = std::move(done)](absl::StatusOr<SearchReply> reply) mutable {
    const bool wanted = request->measure_recall;
    if (!reply.ok() || (!wanted && !meter->Sample())) {
      done(std::move(reply));
      return;
    }
    Found found = NeighborsOf(*reply);
    if (!wanted) {
      done(std::move(reply));
      CallContext later;
      later.deadline = absl::Now() + kSampleTimeout;
      Compare(search, meter, *request, std::move(found), std::move(later),
              [meter](const absl::StatusOr<std::vector<double>>&) {
                meter->Done();
              });
      return;
    }
    Compare(search, meter, *request, std::move(found), std::move(call),
            [reply = *std::move(reply), done = std::move(done)](
                absl::StatusOr<std::vector<double>> recalls) mutable {
              if (!recalls.ok()) {
                done(recalls.status());
                return;
              }
              for (size_t q = 0; q < recalls->size(); ++q) {
                reply.results[q].recall = (*recalls)[q];
              }
              done(std::move(reply));
            });
  };
}

}  // namespace coterie
