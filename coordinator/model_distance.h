// Distance by the textbook, for models in tests: not the canonical one, whose
// order of summation they need not know. Stateless; any thread.

#ifndef COTERIE_COORDINATOR_MODEL_DISTANCE_H_
#define COTERIE_COORDINATOR_MODEL_DISTANCE_H_

#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {

// In double, smaller is nearer. REQUIRES: equal sizes; no zero vector under
// COSINE.
double ModelDistance(Metric metric, VectorView q, VectorView x);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_MODEL_DISTANCE_H_
