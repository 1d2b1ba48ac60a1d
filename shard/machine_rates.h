// How fast this machine reads rows, for index/planner.h.

#ifndef COTERIE_SHARD_MACHINE_RATES_H_
#define COTERIE_SHARD_MACHINE_RATES_H_

#include "index/planner.h"

namespace coterie {

// Measured when it is first asked for, in about 20 ms; the same ever after. Any
// thread.
const SearchRates& MachineRates();

}  // namespace coterie

#endif  // COTERIE_SHARD_MACHINE_RATES_H_
