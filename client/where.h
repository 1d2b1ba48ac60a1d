// Conditions on attributes as a user writes them: --where 'lang=en'. Stateless.

#ifndef COTERIE_CLIENT_WHERE_H_
#define COTERIE_CLIENT_WHERE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/v1/types.pb.h"

namespace coterie {

// What --help says of the conditions.
extern const char kWhereHelp[];

// A filter of all the conditions, each of them one of
//
//   name             has the attribute; !name: has not
//   name=a,b         is one of the values, or a list that holds one; name!=a,b
//   name>=1.5        a number; also >, <=, <
//
// A value that reads as an integer, true or false stands for that and for the
// text; in double quotes it is text, commas included. A name ends at the first
// of ! = < >. An error says which condition and what is wrong with it.
absl::StatusOr<v1::Filter> ParseWhere(
    const std::vector<std::string>& conditions);

}  // namespace coterie

#endif  // COTERIE_CLIENT_WHERE_H_
