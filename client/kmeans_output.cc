#include "client/kmeans_output.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "api/v1/search.pb.h"
#include "client/kmeans_plot.h"
#include "client/numbers.h"
#include "client/point_text.h"
#include "client/printable.h"
#include "client/table.h"

namespace coterie {
namespace {

constexpr int kCells = 20;
// Of iterations, where there is no terminal.
constexpr int64_t kFirstLines = 5;
constexpr int64_t kLineEvery = 10;
// Queries of one search for members.
constexpr int kQueriesPerCall = 64;

// A point by its attribute, or by its id.
std::string NameOf(const v1::Hit& hit, const std::string& attribute) {
  const auto found = hit.attributes().find(attribute);
  if (found == hit.attributes().end()) return absl::StrCat(hit.id());
  return AttributeText(found->second);
}

// For each of the clusters the names of the points nearest to it.
absl::StatusOr<std::vector<std::string>> Members(
    const Session& session, const v1::Clustering& clustering,
    const std::vector<int>& clusters, const ClusterListing& listing) {
  std::vector<std::string> members;
  for (size_t begin = 0; begin < clusters.size(); begin += kQueriesPerCall) {
    v1::SearchRequest request;
    request.set_collection(clustering.collection());
    request.set_k(listing.members);
    if (!listing.attribute.empty()) {
      *request.mutable_with_attributes() =
          SelectAttributes({listing.attribute});
    }
    const size_t end = std::min(begin + kQueriesPerCall, clusters.size());
    for (size_t i = begin; i < end; ++i) {
      *request.add_queries()->mutable_vector() =
          clustering.clusters(clusters[i]).centroid();
    }
    const auto response =
        session.Call(session.stubs().search,
                     &v1::SearchService::StubInterface::Search, request);
    if (!response.ok()) return response.status();
    for (const v1::QueryResult& result : response->results()) {
      members.push_back(absl::StrJoin(
          result.hits(), " ", [&](std::string* out, const v1::Hit& hit) {
            out->append(NameOf(hit, listing.attribute));
          }));
    }
  }
  members.resize(clusters.size());
  return members;
}

std::string StopText(v1::Clustering::Stop stop) {
  switch (stop) {
    case v1::Clustering::CONVERGED:
      return "converged";
    case v1::Clustering::TOLERANCE:
      return "within tolerance";
    case v1::Clustering::RELATIVE_TOLERANCE:
      return "inertia settled";
    case v1::Clustering::MAX_ITERATIONS:
      return "not converged";
    case v1::Clustering::STALLED:
      return "nothing left to gain";
    default:
      return "stopped";
  }
}

absl::StatusOr<v1::Clustering> Concluded(const grpc::Status& finished,
                                         v1::Clustering result) {
  if (!finished.ok()) return FromGrpcStatus(finished);
  if (result.clusters_size() == 0) {
    return absl::InternalError("the server's stream ended without a result");
  }
  return result;
}

}  // namespace

std::string KMeansBar::Line(const v1::KMeansProgress& progress) const {
  // All rows move in the first iteration.
  const double rows =
      std::max<double>(1, static_cast<double>(seen_.front().points_moved()));
  const double settled = std::clamp(
      1 - static_cast<double>(progress.points_moved()) / rows, 0.0, 1.0);
  const int full = static_cast<int>(settled * kCells);
  const std::string bar =
      session_.terminal().err_is_terminal
          ? absl::StrCat("[", std::string(full, '='),
                         std::string(kCells - full, ' '), "] ")
          : "";
  const int64_t bytes =
      progress.cost().bytes_sent() + progress.cost().bytes_received();
  return absl::StrFormat(
      "%s  %s%5.1f%% settled  iteration %d  inertia %.6g  %s moved  %s  %s ms",
      label_, bar, 100 * settled, progress.iteration(), progress.inertia(),
      WithCommas(progress.points_moved()), HumanBytes(bytes),
      Milliseconds(progress.seconds()));
}

void KMeansBar::Update(const v1::KMeansProgress& progress) {
  seen_.push_back(progress);
  if (!session_.terminal().err_is_terminal) {
    const int64_t n = progress.iteration();
    if (n <= kFirstLines || n % kLineEvery == 0) {
      session_.err() << Line(progress) << std::endl;
    }
    return;
  }
  drawn_ = true;
  session_.err() << "\r\x1b[K"
                 << Printable(Line(progress),
                              std::max(1, session_.terminal().columns - 1))
                 << std::flush;
}

void KMeansBar::Clear() {
  if (!drawn_) return;
  drawn_ = false;
  session_.err() << "\r\x1b[K" << std::flush;
}

absl::StatusOr<v1::Clustering> TrainAndShow(
    const Session& session, const v1::TrainKMeansRequest& request,
    const std::string& plot) {
  KMeansBar bar(session, absl::StrCat("kmeans ", request.collection(),
                                      " k=", request.k()));
  grpc::ClientContext context;
  session.Prepare(&context);
  const auto reader =
      session.stubs().clusterings->TrainKMeans(&context, request);
  v1::TrainKMeansResponse event;
  v1::Clustering result;
  while (reader->Read(&event)) {
    if (event.has_progress()) bar.Update(event.progress());
    if (event.has_result()) result = std::move(*event.mutable_result());
  }
  bar.Clear();
  auto concluded = Concluded(reader->Finish(), std::move(result));
  if (!concluded.ok() || plot.empty()) return concluded;
  const absl::Status plotted =
      WriteKMeansPlot(absl::StrCat(request.collection(), ", k = ", request.k()),
                      bar.seen(), plot);
  if (!plotted.ok()) return plotted;
  return concluded;
}

absl::StatusOr<v1::Clustering> FollowAndShow(
    const Session& session, const std::string& label,
    grpc::ClientReaderInterface<v1::JobEvent>* reader) {
  KMeansBar bar(session, label);
  v1::JobEvent event;
  v1::Clustering result;
  while (reader->Read(&event)) {
    if (event.has_kmeans_progress()) bar.Update(event.kmeans_progress());
    if (event.has_kmeans_result()) {
      result = std::move(*event.mutable_kmeans_result());
    }
  }
  bar.Clear();
  return Concluded(reader->Finish(), std::move(result));
}

absl::Status PrintClusters(const Session& session,
                           const v1::Clustering& clustering,
                           const ClusterListing& listing) {
  std::vector<int> order(static_cast<size_t>(clustering.clusters_size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return clustering.clusters(a).weight() > clustering.clusters(b).weight();
  });
  const auto shown = static_cast<size_t>(
      std::clamp<int64_t>(listing.clusters, 0, clustering.clusters_size()));
  order.resize(shown);
  std::vector<std::string> members(shown);
  // Nearest by inner product is not nearest to a mean.
  if (listing.members > 0 && clustering.metric() != v1::INNER_PRODUCT) {
    auto found = Members(session, clustering, order, listing);
    if (!found.ok()) return found.status();
    members = *std::move(found);
  }
  Table table({{"cluster"}, {"weight"}, {"nearest", Align::kLeft}});
  for (size_t i = 0; i < order.size(); ++i) {
    const v1::Cluster& cluster = clustering.clusters(order[i]);
    table.AddRow({absl::StrCat(order[i]),
                  absl::StrFormat("%.6g", cluster.weight()), members[i]});
  }
  table.Print(session.out());
  session.out() << absl::StrFormat(
      "%s of %s, inertia %.6g, %s (%s), %.2f s, %s sent, %s received\n",
      Plural(clustering.clusters_size(), "cluster"),
      Plural(clustering.rows(), "row"), clustering.inertia(),
      Plural(clustering.iterations(), "iteration"), StopText(clustering.stop()),
      clustering.seconds(), HumanBytes(clustering.bytes_sent()),
      HumanBytes(clustering.bytes_received()));
  session.out() << "stored as " << clustering.name() << '\n';
  if (clustering.labelled() > 0) {
    session.out() << Plural(clustering.labelled(), "point") << " labelled\n";
  }
  if (clustering.davies_bouldin() > 0) {
    session.out() << absl::StrFormat(
        "Calinski-Harabasz %.6g, Davies-Bouldin %.4g, imbalance %.3g\n",
        clustering.calinski_harabasz(), clustering.davies_bouldin(),
        clustering.imbalance());
  }
  for (const std::string& warning : clustering.warnings()) {
    session.out() << "warning: " << warning << '\n';
  }
  return absl::OkStatus();
}

}  // namespace coterie
