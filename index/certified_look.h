// Whether to ask a plane or a head of a chunk first, or its codes at once.
//
// What ruled out too little is left aside for a while: rows that it lets pass
// cost more than it saves. Not thread-safe.

#ifndef COTERIE_INDEX_CERTIFIED_LOOK_H_
#define COTERIE_INDEX_CERTIFIED_LOOK_H_

#include <algorithm>
#include <cstdint>

namespace coterie::internal_certified {

class LookJudge {
 public:
  // Asked before each chunk.
  bool Pays() {
    if (chunks_without_ == 0) return true;
    --chunks_without_;
    return false;
  }

  // Of a chunk, `found` rows passed, each of which costs the time in which so
  // many bytes of codes are read; `saved` bytes were not. Returns `found`, or
  // -1 if the codes had better be asked at once.
  int64_t Judge(int64_t found, int64_t bytes_a_hit, int64_t saved) {
    constexpr int64_t kLongestPause = 8;
    constexpr int64_t kMostOverSaved = 8;
    // Soon again at first, as a threshold falls fast while it is young.
    chunks_without_ = pause_ =
        bytes_a_hit * found > saved
            ? std::min(std::max<int64_t>(1, 2 * pause_), kLongestPause)
            : 0;
    return bytes_a_hit * found > kMostOverSaved * saved ? -1 : found;
  }

 private:
  int64_t chunks_without_ = 0;  // yet to come
  int64_t pause_ = 0;           // the last such pause
};

}  // namespace coterie::internal_certified

#endif  // COTERIE_INDEX_CERTIFIED_LOOK_H_
