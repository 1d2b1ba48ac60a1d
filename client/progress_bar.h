// Progress of long work on stderr: a bar that redraws itself on a terminal,
// a line each 10 % elsewhere (logs, CI).
//
// Not thread-safe. Has no clock: the caller says what time it is.

#ifndef COTERIE_CLIENT_PROGRESS_BAR_H_
#define COTERIE_CLIENT_PROGRESS_BAR_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/time/time.h"

namespace coterie {

class ProgressBar {
 public:
  struct Options {
    std::string label;
    // Of what is counted, in the plural: "rows".
    std::string unit = "rows";
    // Work to be done, in units; 0 is done at once.
    int64_t total = 0;
    bool terminal = false;
    // Columns of the terminal; the bar shrinks to fit.
    int columns = 80;
  };

  // `out` outlives this object.
  ProgressBar(Options options, std::ostream* out, absl::Time start);

  // `done` of the total are done, 0 <= done <= total. Draws at most ten times
  // a second on a terminal, and at each tenth of the work elsewhere.
  void Update(int64_t done, absl::Time now);

  // A whole line of its own, above the bar.
  void Note(const std::string& line);

  // Removes the bar and prints what was done, in how long, how fast.
  void Finish(absl::Time now);

  // Removes the bar, e.g. before an error is reported.
  void Clear();

 private:
  std::string Line(absl::Time now) const;

  const Options options_;
  std::ostream* const out_;
  const absl::Time start_;
  int64_t done_ = 0;
  absl::Time last_draw_ = absl::InfinitePast();
  // Tenths already announced, when not on a terminal.
  int64_t tenths_ = 0;
  bool drawn_ = false;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_PROGRESS_BAR_H_
