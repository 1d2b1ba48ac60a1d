// coterie jobs and coterie assign.

#include <grpcpp/grpcpp.h>

#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/kmeans_output.h"
#include "client/numbers.h"
#include "client/point_text.h"
#include "client/sgd_output.h"
#include "client/table.h"

namespace coterie {
namespace {

constexpr char kJobsHelp[] = R"(Examples:
  coterie jobs
  coterie jobs words
  coterie jobs words kmeans-50 --watch
  coterie jobs words kmeans-50 --cancel
  coterie jobs words kmeans-50 --resume
  coterie jobs words kmeans-50 --delete

A job goes by its collection and its name. One that was cancelled or interrupted
is resumed from its checkpoint, by any coordinator, with the same result. While
it is resumed here, Ctrl-C cancels it; --watch only looks on. --delete removes
a job that does not run, and what it stored.)";

constexpr char kAssignHelp[] = R"(Examples:
  coterie assign words kmeans-50 --id 17 --id 18
  coterie assign words kmeans-50 --vector=0.1,-0.2,... --top 3

Which clusters points belong to, nearest first. Of a point that took part in the
clustering the first is its label.)";

class JobsCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("jobs", "List, watch, cancel and resume jobs");
    command->add_option("COLLECTION", collection_, "Of this collection");
    command->add_option("JOB", name_, "This job");
    command->add_flag("--watch", watch_, "Follow it while it runs");
    command->add_flag("--cancel", cancel_, "End it; it can be resumed");
    command->add_flag("--resume", resume_, "Go on with it");
    command->add_flag("--delete", delete_, "Remove it and its result");
    command->footer(kJobsHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    const int acts = watch_ + cancel_ + resume_ + delete_;
    if (acts > 1) {
      return UsageError("only one of --watch, --cancel, --resume and --delete",
                        "See: coterie jobs --help");
    }
    if (acts == 1 && name_.empty()) {
      return UsageError("name the collection and the job",
                        "Like this: coterie jobs words kmeans-50 --resume");
    }
    if (watch_ || resume_) return Follow(session);
    if (cancel_) return Cancel(*session);
    if (delete_) return Delete(*session);
    return name_.empty() ? List(*session) : Get(*session);
  }

 private:
  absl::Status Follow(Session* session) const {
    session->set_default_timeout(absl::Hours(24));
    v1::GetJobRequest asked;
    asked.set_collection(collection_);
    asked.set_name(name_);
    const auto job = session->Call(
        session->stubs().jobs, &v1::JobService::StubInterface::GetJob, asked);
    if (!job.ok()) return job.status();
    grpc::ClientContext context;
    session->Prepare(&context);
    std::unique_ptr<grpc::ClientReaderInterface<v1::JobEvent>> reader;
    if (watch_) {
      v1::WatchJobRequest request;
      request.set_collection(collection_);
      request.set_name(name_);
      reader = session->stubs().jobs->WatchJob(&context, request);
    } else {
      v1::ResumeJobRequest request;
      request.set_collection(collection_);
      request.set_name(name_);
      reader = session->stubs().jobs->ResumeJob(&context, request);
    }
    const std::string label = absl::StrCat(collection_, " ", name_);
    if (job->job().kind() == v1::SGD_TRAINING) {
      const auto run = FollowSgdAndShow(*session, label, reader.get());
      if (!run.ok()) return run.status();
      if (session->json()) {
        session->PrintJson(run->model);
      } else {
        PrintModel(*session, run->model);
      }
      return absl::OkStatus();
    }
    const auto result = FollowAndShow(*session, label, reader.get());
    if (!result.ok()) return result.status();
    if (session->json()) {
      session->PrintJson(*result);
      return absl::OkStatus();
    }
    return PrintClusters(*session, *result, {});
  }

  absl::Status Cancel(const Session& session) const {
    v1::CancelJobRequest request;
    request.set_collection(collection_);
    request.set_name(name_);
    const auto response =
        session.Call(session.stubs().jobs,
                     &v1::JobService::StubInterface::CancelJob, request);
    if (!response.ok()) return response.status();
    Print(session, *response, {response->job()});
    return absl::OkStatus();
  }

  absl::Status Delete(const Session& session) const {
    v1::GetJobRequest asked;
    asked.set_collection(collection_);
    asked.set_name(name_);
    const auto job = session.Call(
        session.stubs().jobs, &v1::JobService::StubInterface::GetJob, asked);
    if (!job.ok()) return job.status();
    absl::Status deleted;
    if (job->job().kind() == v1::SGD_TRAINING) {
      v1::DeleteModelRequest request;
      request.set_collection(collection_);
      request.set_name(name_);
      deleted =
          session
              .Call(session.stubs().training,
                    &v1::TrainingService::StubInterface::DeleteModel, request)
              .status();
    } else {
      v1::DeleteClusteringRequest request;
      request.set_collection(collection_);
      request.set_name(name_);
      deleted =
          session
              .Call(session.stubs().clusterings,
                    &v1::ClusteringService::StubInterface::DeleteClustering,
                    request)
              .status();
    }
    if (!deleted.ok()) return deleted;
    session.out() << "deleted " << collection_ << ' ' << name_ << '\n';
    return absl::OkStatus();
  }

  absl::Status Get(const Session& session) const {
    v1::GetJobRequest request;
    request.set_collection(collection_);
    request.set_name(name_);
    const auto response = session.Call(
        session.stubs().jobs, &v1::JobService::StubInterface::GetJob, request);
    if (!response.ok()) return response.status();
    Print(session, *response, {response->job()});
    return absl::OkStatus();
  }

  absl::Status List(const Session& session) const {
    v1::ListJobsRequest request;
    request.set_collection(collection_);
    const auto response =
        session.Call(session.stubs().jobs,
                     &v1::JobService::StubInterface::ListJobs, request);
    if (!response.ok()) return response.status();
    Print(session, *response,
          {response->jobs().begin(), response->jobs().end()});
    return absl::OkStatus();
  }

  template <typename Response>
  static void Print(const Session& session, const Response& response,
                    const std::vector<v1::Job>& jobs) {
    if (session.json()) return session.PrintJson(response);
    Table table({{"collection", Align::kLeft},
                 {"job", Align::kLeft},
                 {"state", Align::kLeft},
                 {"iterations"},
                 {"checkpoint"},
                 {"inertia or loss"},
                 {"age s"},
                 {"coordinator", Align::kLeft}});
    for (const v1::Job& job : jobs) {
      table.AddRow(
          {job.collection(), job.name(), v1::Job::State_Name(job.state()),
           WithCommas(job.iterations()),
           WithCommas(job.checkpoint_iterations()),
           absl::StrFormat("%.6g", job.kind() == v1::SGD_TRAINING
                                       ? job.sgd_report().loss()
                                       : job.kmeans_progress().inertia()),
           absl::StrFormat("%.0f", job.age_seconds()), job.owner()});
    }
    table.Print(session.out());
    for (const v1::Job& job : jobs) {
      if (!job.has_error()) continue;
      session.out() << job.collection() << ' ' << job.name() << ": "
                    << job.error().message() << '\n';
    }
  }

  std::string collection_;
  std::string name_;
  bool watch_ = false;
  bool cancel_ = false;
  bool resume_ = false;
  bool delete_ = false;
};

class AssignCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("assign", "Find the clusters of points");
    command->add_option("COLLECTION", collection_, "Collection")->required();
    command->add_option("CLUSTERING", clustering_, "Of coterie kmeans")
        ->required();
    command->add_option("--id", ids_, "A stored point; repeat for more")
        ->allow_extra_args(false);
    command->add_option("--vector", vector_, "A new one: \"0.1,-0.2,...\"");
    command->add_option("--top", top_, "Clusters of each (default: 1)");
    command->footer(kAssignHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    if (ids_.empty() == !vector_.has_value()) {
      return UsageError("give points by --id or one by --vector",
                        "Like this: coterie assign words kmeans-50 --id 17");
    }
    v1::AssignRequest request;
    request.set_collection(collection_);
    request.set_clustering(clustering_);
    request.set_top_m(top_);
    for (const std::string& text : ids_) {
      const absl::StatusOr<uint64_t> id = ParsePointId(text);
      if (!id.ok()) {
        return UsageError(absl::StrCat("--id: ", id.status().message()),
                          "Like this: --id 17");
      }
      request.add_ids(*id);
    }
    if (vector_.has_value()) {
      const absl::StatusOr<std::vector<float>> vector = ParseVector(*vector_);
      if (!vector.ok()) {
        return UsageError(vector.status().message(),
                          "Like this: --vector=0.1,-0.2,0.3");
      }
      *request.add_vectors() = PackVector(*vector);
    }
    const auto response =
        session->Call(session->stubs().clusterings,
                      &v1::ClusteringService::StubInterface::Assign, request);
    if (!response.ok()) return response.status();
    if (session->json()) {
      session->PrintJson(*response);
      return absl::OkStatus();
    }
    Table table({{"point"}, {"rank"}, {"cluster"}, {"distance"}});
    for (int i = 0; i < response->assignments_size(); ++i) {
      const v1::Assignment& point = response->assignments(i);
      const std::string name =
          ids_.empty() ? "vector" : ids_[static_cast<size_t>(i)];
      if (!point.found()) table.AddRow({name, "", "none", ""});
      for (int j = 0; j < point.clusters_size(); ++j) {
        table.AddRow({name, absl::StrCat(j + 1),
                      absl::StrCat(point.clusters(j)),
                      DistanceText(point.distances(j))});
      }
    }
    table.Print(session->out());
    return absl::OkStatus();
  }

 private:
  std::string collection_;
  std::string clustering_;
  std::vector<std::string> ids_;
  std::optional<std::string> vector_;
  int32_t top_ = 1;
};

}  // namespace

std::unique_ptr<Command> NewJobsCommand() {
  return std::make_unique<JobsCommand>();
}
std::unique_ptr<Command> NewAssignCommand() {
  return std::make_unique<AssignCommand>();
}

}  // namespace coterie
