#include "client/curve_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/numbers.h"

namespace coterie {
namespace {

constexpr int kWidth = 900;
constexpr int kHeight = 640;
constexpr int kLeft = 150;
constexpr int kRight = 30;
constexpr int kUpper = 80;
constexpr int kLower = 370;
constexpr int kPanelHeight = 220;
constexpr int kTicks = 4;

void Draw(const CurvePanel& panel, int top, PngImage* image) {
  double low = 0;
  double high = 1;
  if (!panel.values.empty()) {
    const auto [least, most] =
        std::minmax_element(panel.values.begin(), panel.values.end());
    low = panel.from_zero ? 0 : *least;
    high = *most > low ? *most : low + 1;
  }
  const int bottom = top + kPanelHeight;
  const auto y_of = [&](double value) {
    return bottom - static_cast<int>(std::lround((value - low) / (high - low) *
                                                 kPanelHeight));
  };
  const auto n = static_cast<int>(panel.values.size());
  const int room = kWidth - kLeft - kRight;
  const auto x_of = [&](int i) {
    return kLeft + (n > 1 ? i * room / (n - 1) : room / 2);
  };
  for (int tick = 0; tick <= kTicks; ++tick) {
    const double value = low + (high - low) * tick / kTicks;
    const std::string label = panel.bytes
                                  ? HumanBytes(static_cast<int64_t>(value))
                                  : absl::StrFormat("%.4g", value);
    image->Line(kLeft, y_of(value), kWidth - kRight, y_of(value), Ink::kGrey);
    image->Text(kLeft - 8 - PngImage::TextWidth(label), y_of(value) - 7, label,
                Ink::kBlack);
  }
  image->Line(kLeft, top, kLeft, bottom, Ink::kBlack);
  image->Line(kLeft, bottom, kWidth - kRight, bottom, Ink::kBlack);
  image->Text(kLeft, top - 24, panel.title, panel.ink);
  for (int i = 0; i < n; ++i) {
    const int x = x_of(i);
    const int y = y_of(panel.values[static_cast<size_t>(i)]);
    image->Line(x - 2, y, x + 2, y, panel.ink, true);
    if (i > 0) {
      image->Line(x_of(i - 1), y_of(panel.values[static_cast<size_t>(i - 1)]),
                  x, y, panel.ink, true);
    }
  }
  const std::string first = panel.first.empty() ? "1" : panel.first;
  const std::string last = panel.last.empty() ? absl::StrCat(n) : panel.last;
  image->Text(x_of(0), bottom + 8, first, Ink::kBlack);
  if (n > 1) {
    image->Text(x_of(n - 1) - PngImage::TextWidth(last), bottom + 8, last,
                Ink::kBlack);
  }
}

}  // namespace

PngImage PlotCurves(const std::string& title, const CurvePanel& upper,
                    const CurvePanel& lower) {
  PngImage image(kWidth, kHeight);
  image.Text(kLeft, 16, title, Ink::kBlack);
  Draw(upper, kUpper, &image);
  Draw(lower, kLower, &image);
  return image;
}

absl::Status WritePng(const PngImage& image, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << image.Encode();
  file.flush();
  if (file.good()) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat("cannot write ", path));
}

}  // namespace coterie
