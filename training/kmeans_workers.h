// The threads of a k-means step, which are called its workers.

#ifndef COTERIE_TRAINING_KMEANS_WORKERS_H_
#define COTERIE_TRAINING_KMEANS_WORKERS_H_

#include "training/step_threads.h"

namespace coterie {

using KMeansWorkers = StepThreads;

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_WORKERS_H_
