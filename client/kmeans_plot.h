// The course of a k-means job as a picture: inertia and bytes by iteration.
// Stateless.

#ifndef COTERIE_CLIENT_KMEANS_PLOT_H_
#define COTERIE_CLIENT_KMEANS_PLOT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "api/v1/clustering.pb.h"
#include "client/png_image.h"

namespace coterie {

// Two curves over iterations, one above the other: inertia, and the bytes that
// went over the links (in one process: those of the packed statistics).
PngImage PlotKMeans(const std::string& title,
                    absl::Span<const v1::KMeansProgress> iterations);

// Writes it to a file, replacing one that is there. UNKNOWN or what the system
// says, naming the file.
absl::Status WriteKMeansPlot(const std::string& title,
                             absl::Span<const v1::KMeansProgress> iterations,
                             const std::string& path);

}  // namespace coterie

#endif  // COTERIE_CLIENT_KMEANS_PLOT_H_
