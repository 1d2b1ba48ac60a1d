// Canonical distances of one query and several rows at once, for those that
// re-score many: sums of different rows do not wait for one another.
//
// Stateless; any thread.

#ifndef COTERIE_INDEX_DISTANCES_H_
#define COTERIE_INDEX_DISTANCES_H_

#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {

inline constexpr int kRowsAtOnce = 4;

// distances[i] = CanonicalDistance(metric, q, row i, q_squared_norm,
// squared_norms[i]), bit for bit. `rows` point to as many floats as q has; the
// same row may be there twice. squared_norms are read for COSINE alone. O(d).
void CanonicalDistances(Metric metric, VectorView q,
                        const float* const (&rows)[kRowsAtOnce],
                        double q_squared_norm,
                        const double (&squared_norms)[kRowsAtOnce],
                        double (&distances)[kRowsAtOnce]);

// dots[i] = CanonicalDot(q, rows.row(i)), bit for bit. REQUIRES: equal
// dimensions; room for rows.n numbers. O(n d).
void CanonicalDots(VectorView q, RowsView rows, double* dots);

}  // namespace coterie

#endif  // COTERIE_INDEX_DISTANCES_H_
