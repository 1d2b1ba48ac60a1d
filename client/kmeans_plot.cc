#include "client/kmeans_plot.h"

#include <cstdint>

#include "client/curve_plot.h"

namespace coterie {

PngImage PlotKMeans(const std::string& title,
                    absl::Span<const v1::KMeansProgress> iterations) {
  CurvePanel inertia{.title = "inertia"};
  CurvePanel bytes{.title = "bytes by iteration",
                   .ink = Ink::kRed,
                   .from_zero = true,
                   .bytes = true};
  for (const v1::KMeansProgress& progress : iterations) {
    inertia.values.push_back(progress.inertia());
    const int64_t sent =
        progress.cost().bytes_sent() + progress.cost().bytes_received();
    const int64_t packed =
        progress.statistics_bytes_down() + progress.statistics_bytes_up();
    bytes.values.push_back(static_cast<double>(sent > 0 ? sent : packed));
  }
  return PlotCurves(title, inertia, bytes);
}

absl::Status WriteKMeansPlot(const std::string& title,
                             absl::Span<const v1::KMeansProgress> iterations,
                             const std::string& path) {
  return WritePng(PlotKMeans(title, iterations), path);
}

}  // namespace coterie
