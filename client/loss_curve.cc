#include "client/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/printable.h"

namespace coterie {
namespace {

constexpr int kRows = 8;
constexpr int kMargin = 12;  // for the numbers at the left
constexpr size_t kMostKept = 4096;

}  // namespace

std::vector<std::string> LossCurve::Draw(
    const std::vector<std::pair<int64_t, double>>& losses, int columns) {
  const int width = std::clamp(columns - kMargin - 1, 1, 100);
  double low = losses.front().second;
  double high = low;
  for (const auto& [update, loss] : losses) {
    low = std::min(low, loss);
    high = std::max(high, loss);
  }
  const double span = high > low ? high - low : 1;
  const double first = static_cast<double>(losses.front().first);
  const double updates =
      std::max(1.0, static_cast<double>(losses.back().first) - first);
  std::vector<std::string> lines(kRows, std::string(width, ' '));
  for (const auto& [update, loss] : losses) {
    const double along = (static_cast<double>(update) - first) / updates;
    const auto x = static_cast<size_t>(std::lround(along * (width - 1)));
    const auto y =
        static_cast<size_t>(std::lround((high - loss) / span * (kRows - 1)));
    lines[y][x] = '*';
  }
  for (int row = 0; row < kRows; ++row) {
    const std::string number = row == 0 ? absl::StrFormat("%10.4g |", high)
                               : row == kRows - 1
                                   ? absl::StrFormat("%10.4g |", low)
                                   : absl::StrFormat("%10s |", "");
    std::string& line = lines[static_cast<size_t>(row)];
    line = absl::StrCat(number, line);
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

void LossCurve::Add(int64_t update, double loss, const std::string& line) {
  losses_.emplace_back(update, loss);
  if (losses_.size() > kMostKept) {
    // Every second of them; the last one stays.
    std::vector<std::pair<int64_t, double>> kept;
    for (size_t i = 0; i < losses_.size(); i += 2) kept.push_back(losses_[i]);
    kept.back() = losses_.back();
    losses_ = std::move(kept);
  }
  if (!options_.terminal) {
    if (2 * update < 3 * printed_) return;
    printed_ = update;
    *out_ << options_.label << "  " << line << std::endl;
    return;
  }
  Clear();
  const int width = std::max(1, options_.columns - 1);
  for (const std::string& drawn : Draw(losses_, options_.columns)) {
    *out_ << drawn << '\n';
    ++drawn_;
  }
  *out_ << Printable(absl::StrCat(options_.label, "  ", line), width) << '\n'
        << std::flush;
  ++drawn_;
}

void LossCurve::Clear() {
  if (drawn_ == 0) return;
  *out_ << "\x1b[" << drawn_ << "A\x1b[J" << std::flush;
  drawn_ = 0;
}

}  // namespace coterie
