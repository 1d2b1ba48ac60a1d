// Prints the answer to one query, and the evidence for it. Stateless.

#ifndef COTERIE_CLIENT_SEARCH_OUTPUT_H_
#define COTERIE_CLIENT_SEARCH_OUTPUT_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/v1/search.pb.h"

namespace coterie {

// A table of rank, id, distance and attributes, vectors below when there are
// any, and one line on what the answer covers. `show` are the attributes that
// have a column; empty: all that occur. REQUIRES: one result.
void PrintHits(const v1::SearchResponse& response,
               const std::vector<std::string>& show, std::ostream& out);

// Each shard's account of its rows in plain words, then whether the answer is
// exact and else why not; then a table of the shards' work and a line of
// totals.
void PrintProfile(const v1::SearchResponse& response, std::ostream& out);

// INTERNAL when an answer that calls itself exact does not add up: on some
// shard live rows are not those evaluated, ruled out and filtered, with none
// unseen, or the shards that accounted are not all there are. Checked here as
// well, so that nobody has to take the server's word. REQUIRES: one result.
absl::Status CheckCertificate(const v1::SearchResponse& response);

}  // namespace coterie

#endif  // COTERIE_CLIENT_SEARCH_OUTPUT_H_
