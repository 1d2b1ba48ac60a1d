// Changes to serialised protobuf messages that keep their framing, so that
// most mutations reach the code behind the parser. For fuzz targets.

#ifndef COTERIE_API_WIRE_MUTATOR_H_
#define COTERIE_API_WIRE_MUTATOR_H_

#include <random>
#include <string>

namespace coterie {

// Changes one field of `message`, at any depth: drops, repeats or moves it, or
// gives it another value of its wire type. Knows no schema: what reads as a
// message is taken for one. False, and `message` unchanged, if its bytes are
// no sequence of fields. Deterministic given `random`. O(size x depth).
bool MutateMessage(std::mt19937_64& random, std::string* message);

}  // namespace coterie

#endif  // COTERIE_API_WIRE_MUTATOR_H_
