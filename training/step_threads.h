// How a training step runs on several threads: the caller says.

#ifndef COTERIE_TRAINING_STEP_THREADS_H_
#define COTERIE_TRAINING_STEP_THREADS_H_

#include <cstdint>
#include <functional>

#include "absl/functional/function_ref.h"

namespace coterie {

struct StepThreads {
  using Body = absl::FunctionRef<void(int32_t thread, int64_t task)>;

  // Threads are numbered from 0 to below this.
  int32_t count = 1;
  // Calls body(thread, task) for each task in [0, tasks) and returns when all
  // have ended; a thread runs one task at a time. Null: on the calling thread.
  std::function<void(int64_t tasks, Body body)> run;

  void ForEach(int64_t tasks, Body body) const {
    if (run) {
      run(tasks, body);
      return;
    }
    for (int64_t task = 0; task < tasks; ++task) body(0, task);
  }
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_STEP_THREADS_H_
