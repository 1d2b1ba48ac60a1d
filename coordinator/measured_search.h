// A search whose recall is measured: by itself if it asks so, after its reply
// if it is a sample.
//
// Stateless; any thread. Nothing blocks.

#ifndef COTERIE_COORDINATOR_MEASURED_SEARCH_H_
#define COTERIE_COORDINATOR_MEASURED_SEARCH_H_

#include <functional>
#include <memory>

#include "api/call.h"
#include "api/search.h"
#include "coordinator/recall_meter.h"

namespace coterie {

using SearchFunction = std::function<void(std::shared_ptr<const SearchRequest>,
                                          CallContext, Done<SearchReply>)>;

// What takes the reply to `request` in place of `done`. If the recall is
// wanted, `search` is asked for the exact answer, within `call`, and `done`
// gets the reply with what was found of that, or the failure. Otherwise `done`
// gets the reply as it is, and if the meter takes a sample the exact answer is
// asked for then.
Done<SearchReply> MeasuringRecall(SearchFunction search,
                                  std::shared_ptr<RecallMeter> meter,
                                  std::shared_ptr<const SearchRequest> request,
                                  CallContext call, Done<SearchReply> done);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_MEASURED_SEARCH_H_
