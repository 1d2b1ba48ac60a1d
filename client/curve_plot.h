// Curves over a job's steps as a picture. Stateless.

#ifndef COTERIE_CLIENT_CURVE_PLOT_H_
#define COTERIE_CLIENT_CURVE_PLOT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/png_image.h"

namespace coterie {

struct CurvePanel {
  std::string title;
  Ink ink = Ink::kBlue;
  std::vector<double> values = {};  // finite
  bool from_zero = false;
  bool bytes = false;
  // Of the first and the last value; empty: 1 and how many there are.
  std::string first = {};
  std::string last = {};
};

// Two panels, one above the other.
PngImage PlotCurves(const std::string& title, const CurvePanel& upper,
                    const CurvePanel& lower);

// Replaces a file that is there. UNKNOWN naming it if it cannot be written.
absl::Status WritePng(const PngImage& image, const std::string& path);

}  // namespace coterie

#endif  // COTERIE_CLIENT_CURVE_PLOT_H_
