#include "client/progress_bar.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/numbers.h"
#include "client/printable.h"

namespace coterie {
namespace {

constexpr absl::Duration kRedraw = absl::Milliseconds(100);
constexpr int64_t kBarCells = 30;
// Erase from the cursor to the end of the line.
constexpr char kErase[] = "\r\x1b[K";

double PerSecond(int64_t done, absl::Duration elapsed) {
  const double seconds = absl::ToDoubleSeconds(elapsed);
  return seconds > 0 ? static_cast<double>(done) / seconds : 0;
}

}  // namespace

ProgressBar::ProgressBar(Options options, std::ostream* out, absl::Time start)
    : options_(std::move(options)), out_(out), start_(start) {}

std::string ProgressBar::Line(absl::Time now) const {
  const double share =
      options_.total == 0
          ? 1
          : static_cast<double>(done_) / static_cast<double>(options_.total);
  const double rate = PerSecond(done_, now - start_);
  const auto left = static_cast<double>(options_.total - done_);
  const std::string eta =
      rate > 0 ? ClockTime(absl::Seconds(left / rate)) : "-:--";
  const std::string tail = absl::StrFormat(
      "%3d%%  %s/%s %s  %s %s/s  ETA %s", static_cast<int>(share * 100),
      WithCommas(done_), WithCommas(options_.total), options_.unit,
      WithCommas(static_cast<int64_t>(rate)), options_.unit, eta);
  if (!options_.terminal) return absl::StrCat(options_.label, " ", tail);
  // Brackets, spaces, and the last column, which some terminals wrap at.
  const int64_t room = options_.columns - PrintedWidth(options_.label) -
                       static_cast<int64_t>(tail.size()) - 6;
  const int64_t cells = std::clamp<int64_t>(room, 0, kBarCells);
  std::string line = absl::StrCat(options_.label, "  ");
  if (cells >= 5) {
    const auto full = static_cast<int64_t>(share * static_cast<double>(cells));
    absl::StrAppend(&line, "[", std::string(full, '='),
                    std::string(cells - full, ' '), "] ");
  }
  absl::StrAppend(&line, tail);
  return Printable(line, std::max(1, options_.columns - 1));
}

void ProgressBar::Update(int64_t done, absl::Time now) {
  done_ = std::clamp<int64_t>(done, 0, options_.total);
  if (options_.terminal) {
    if (now - last_draw_ < kRedraw) return;
    last_draw_ = now;
    drawn_ = true;
    *out_ << kErase << Line(now) << std::flush;
    return;
  }
  // In double: ten times a count of rows may not fit.
  const auto tenths =
      options_.total == 0
          ? int64_t{0}
          : static_cast<int64_t>(10.0 * static_cast<double>(done_) /
                                 static_cast<double>(options_.total));
  if (tenths <= tenths_) return;
  tenths_ = tenths;
  *out_ << Line(now) << std::endl;
}

void ProgressBar::Note(const std::string& line) {
  Clear();
  *out_ << line << std::endl;
}

void ProgressBar::Finish(absl::Time now) {
  Clear();
  const absl::Duration elapsed = std::max(now - start_, absl::ZeroDuration());
  *out_ << options_.label << ": " << WithCommas(done_) << ' ' << options_.unit
        << absl::StrFormat(
               " in %.1f s (%s %s/s)", absl::ToDoubleSeconds(elapsed),
               WithCommas(static_cast<int64_t>(PerSecond(done_, elapsed))),
               options_.unit)
        << std::endl;
}

void ProgressBar::Clear() {
  if (!drawn_) return;
  drawn_ = false;
  last_draw_ = absl::InfinitePast();
  *out_ << kErase << std::flush;
}

}  // namespace coterie
