// A curve of losses in the terminal, drawn anew as training goes on.
//
// Not thread-safe.

#ifndef COTERIE_CLIENT_LOSS_CURVE_H_
#define COTERIE_CLIENT_LOSS_CURVE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace coterie {

class LossCurve {
 public:
  struct Options {
    std::string label;
    bool terminal = false;
    int columns = 80;  // of the terminal
  };

  // `out` outlives this.
  LossCurve(Options options, std::ostream* out)
      : options_(std::move(options)), out_(out) {}

  // The loss after an update, updates rising, and a line on how it goes. On a
  // terminal the curve so far and the line are drawn in place of the last ones;
  // elsewhere a line is printed each time the number of updates has grown by
  // half.
  void Add(int64_t update, double loss, const std::string& line);

  // Removes what was drawn.
  void Clear();

  // The curve as lines of at most `columns` characters: a frame with its
  // highest and lowest loss, updates from left to right.
  static std::vector<std::string> Draw(
      const std::vector<std::pair<int64_t, double>>& losses, int columns);

 private:
  const Options options_;
  std::ostream* const out_;
  std::vector<std::pair<int64_t, double>> losses_;
  int drawn_ = 0;        // lines on the terminal
  int64_t printed_ = 0;  // update of the last line elsewhere
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_LOSS_CURVE_H_
