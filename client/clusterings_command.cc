// coterie clusterings.

#include <CLI/App.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_join.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/kmeans_output.h"
#include "client/stored_results.h"

namespace coterie {
namespace {

constexpr char kHelp[] = R"(Examples:
  coterie clusterings words
  coterie clusterings words kmeans-50 --show word
  coterie --json clusterings words kmeans-50
  coterie clusterings words kmeans-50 --delete

Without a clustering: the names of all that coterie kmeans has stored. With
one: its largest clusters and the points that lie nearest to their centroids
now; --json has the centroids. coterie assign says which clusters a point is
near to. --delete removes it and its job.)";

class ClusteringsCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command = app->add_subcommand(
        "clusterings", "List, show and delete stored clusterings");
    command->add_option("COLLECTION", collection_, "Collection")->required();
    command->add_option("CLUSTERING", name_, "This one");
    command->add_option("--clusters", listing_.clusters,
                        "Of the largest (default: 20)");
    command->add_option("--members", listing_.members,
                        "Points of each cluster (default: 5)");
    command->add_option("--show", listing_.attribute,
                        "Attribute that names a point");
    command->add_flag("--delete", delete_, "Remove it");
    command->footer(kHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    if (name_.empty() && delete_) {
      return UsageError("name the clustering",
                        "Like this: coterie clusterings words kmeans-50");
    }
    if (listing_.clusters < 0 || listing_.members < 0) {
      return UsageError("--clusters and --members are at least 0",
                        "Like this: --clusters 10 --members 3");
    }
    if (name_.empty()) return List(*session);
    return delete_ ? Delete(*session) : Show(*session);
  }

 private:
  absl::Status List(const Session& session) const {
    return ListNames<v1::ListClusteringsRequest>(
        session, session.stubs().clusterings,
        &v1::ClusteringService::StubInterface::ListClusterings, collection_);
  }

  absl::Status Show(const Session& session) const {
    v1::GetClusteringRequest request;
    request.set_collection(collection_);
    request.set_name(name_);
    const auto response = session.Call(
        session.stubs().clusterings,
        &v1::ClusteringService::StubInterface::GetClustering, request);
    if (!response.ok()) return response.status();
    if (session.json()) {
      session.PrintJson(response->clustering());
      return absl::OkStatus();
    }
    return PrintClusters(session, response->clustering(), listing_);
  }

  absl::Status Delete(const Session& session) const {
    return DeleteNamed<v1::DeleteClusteringRequest>(
        session, session.stubs().clusterings,
        &v1::ClusteringService::StubInterface::DeleteClustering, collection_,
        name_);
  }

  std::string collection_;
  std::string name_;
  ClusterListing listing_;
  bool delete_ = false;
};

}  // namespace

std::unique_ptr<Command> NewClusteringsCommand() {
  return std::make_unique<ClusteringsCommand>();
}

}  // namespace coterie
