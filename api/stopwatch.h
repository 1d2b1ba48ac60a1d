// Seconds since it was made. Immutable; any thread.

#ifndef COTERIE_API_STOPWATCH_H_
#define COTERIE_API_STOPWATCH_H_

#include <chrono>

namespace coterie {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

}  // namespace coterie

#endif  // COTERIE_API_STOPWATCH_H_
