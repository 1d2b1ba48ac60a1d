#include "coordinator/model_distance.h"

#include <cmath>
#include <cstddef>

namespace coterie {

double ModelDistance(Metric metric, VectorView q, VectorView x) {
  double dot = 0;
  double qq = 0;
  double xx = 0;
  double squares = 0;
  for (size_t j = 0; j < q.size(); ++j) {
    const double a = q[j];
    const double b = x[j];
    dot += a * b;
    qq += a * a;
    xx += b * b;
    squares += (a - b) * (a - b);
  }
  switch (metric) {
    case Metric::kSquaredL2:
      return squares;
    case Metric::kInnerProduct:
      return 0.0 - dot;
    case Metric::kCosine:
      return 1 - dot / std::sqrt(qq * xx);
  }
  return squares;
}

}  // namespace coterie
