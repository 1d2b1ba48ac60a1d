#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/collections.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/kmeans_output.h"
#include "client/numbers.h"
#include "client/point_text.h"
#include "client/table.h"
#include "training/kmeans_quality.h"

namespace coterie {
namespace {

using Train = v1::TrainKMeansRequest;

constexpr char kHelp[] = R"(Examples:
  coterie kmeans words -k 50 --show word
  coterie kmeans words -k 50 --label cluster --runs 5 --plot words.png
  coterie kmeans words -k 10,20,50,100,200
  coterie kmeans pixels -k 1000 --algorithm mini-batch --batch 4096

Clusters the points as they are now, on the shards: points stay where they are,
and writes go on. The result is stored as --name (default: kmeans-K) and is what
"coterie assign" asks. Interrupt it with Ctrl-C and go on later, with the same
result, by: coterie jobs COLLECTION NAME --resume. Several k are tried in turn and
compared; the elbow is where the curve of inertia bends most.)";

const std::map<std::string, Train::Algorithm>& Algorithms() {
  static const auto* names = new std::map<std::string, Train::Algorithm>{
      {"auto", Train::AUTO},
      {"lloyd", Train::LLOYD},
      {"elkan", Train::ELKAN},
      {"hamerly", Train::HAMERLY},
      {"mini-batch", Train::MINI_BATCH},
      {"hartigan", Train::HARTIGAN},
      {"hartigan-wong", Train::HARTIGAN_WONG}};
  return *names;
}

const std::map<std::string, Train::Init>& Inits() {
  static const auto* names = new std::map<std::string, Train::Init>{
      {"parallel", Train::KMEANS_PARALLEL},
      {"plus-plus", Train::KMEANS_PLUS_PLUS},
      {"random", Train::RANDOM}};
  return *names;
}

template <typename T>
std::string Names(const std::map<std::string, T>& choices) {
  return absl::StrJoin(choices, ", ", [](std::string* out, const auto& choice) {
    out->append(choice.first);
  });
}

template <typename T>
absl::StatusOr<T> Choose(const char* flag, const std::string& text,
                         const std::map<std::string, T>& choices) {
  const auto found = choices.find(text);
  if (found != choices.end()) return found->second;
  return UsageError(absl::StrCat(flag, ": '", text, "' is none of them"),
                    absl::StrCat("One of: ", Names(choices)));
}

class KMeansCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("kmeans", "Cluster the points of a collection");
    command->add_option("NAME", collection_, "Collection")->required();
    command->add_option("-k,--k", ks_, "Clusters; several: K,K,...")
        ->required()
        ->delimiter(',')
        ->allow_extra_args(false);
    command->add_option("--name", name_, "Of the result (default: kmeans-K)");
    command->add_option("--algorithm", algorithm_, Names(Algorithms()));
    command->add_option("--init", init_, Names(Inits()));
    command->add_option("--from", from_, "Start from this clustering");
    command->add_option("--seed", seed_, "Of random draws (default: 0)");
    command->add_option("--runs", runs_, "From different seeds, best kept");
    command->add_option("--iterations", iterations_, "At most (default: 300)");
    command->add_option("--tolerance", tolerance_,
                        "Of movement; 0: until no row moves (default: 1e-4)");
    command->add_option("--batch", batch_, "Rows of a mini-batch");
    command->add_option("--weight", weight_, "Attribute that weighs points");
    command->add_flag("--skip-missing", skip_missing_,
                      "Leave points without weight out");
    command->add_option("--label", label_,
                        "Write each point's cluster as this attribute");
    command->add_flag("--measure", measure_, "Also Davies-Bouldin and others");
    command->add_option("--members", members_,
                        "Nearest points shown of a cluster (default: 5)");
    command->add_option("--show", show_, "Attribute that names a point");
    command->add_option("--clusters", clusters_,
                        "Largest clusters shown (default: 20)");
    command->add_option("--plot", plot_,
                        "Inertia and bytes by iteration, as a PNG file");
    command->add_flag("--replace", replace_,
                      "A clustering of this --name is replaced (without --name "
                      "always)");
    command->footer(kHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    session->set_default_timeout(absl::Hours(24));
    std::vector<ElbowPoint> curve;
    Table table({{"k"}, {"inertia"}, {"iterations"}, {"seconds"}, {"bytes"}});
    for (const int64_t k : ks_) {
      absl::StatusOr<Train> request = MakeRequest(k);
      if (!request.ok()) return request.status();
      absl::StatusOr<v1::Clustering> result =
          TrainAndShow(*session, *request, plot_);
      if (!result.ok()) return Advise(result.status());
      if (session->json()) {
        session->PrintJson(*result);
      } else if (ks_.size() == 1) {
        absl::Status shown =
            PrintClusters(*session, *result, {clusters_, members_, show_});
        if (!shown.ok()) return shown;
      }
      curve.push_back({k, result->inertia()});
      table.AddRow(
          {WithCommas(k), absl::StrFormat("%.6g", result->inertia()),
           WithCommas(result->iterations()),
           absl::StrFormat("%.2f", result->seconds()),
           HumanBytes(result->bytes_sent() + result->bytes_received())});
    }
    if (ks_.size() > 1 && !session->json()) {
      table.Print(session->out());
      const int64_t elbow = ElbowOf(curve);
      if (elbow > 0) session->out() << "elbow at k = " << elbow << '\n';
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Train> MakeRequest(int64_t k) const {
    if (!std::is_sorted(ks_.begin(), ks_.end())) {
      return UsageError("several k have to rise", "Like this: -k 10,20,50");
    }
    if (ks_.size() > 1 && !plot_.empty()) {
      return UsageError("--plot is for one k", "Run it for each k");
    }
    Train request;
    request.set_collection(collection_);
    request.set_k(k);
    // A name made up is the command's to use again.
    request.set_name(name_.empty()     ? absl::StrCat("kmeans-", k)
                     : ks_.size() == 1 ? name_
                                       : absl::StrCat(name_, "-", k));
    request.set_replace(replace_ || name_.empty());
    auto algorithm = Choose("--algorithm", algorithm_, Algorithms());
    if (!algorithm.ok()) return algorithm.status();
    request.set_algorithm(*algorithm);
    if (!init_.empty()) {
      auto init = Choose("--init", init_, Inits());
      if (!init.ok()) return init.status();
      request.set_init(*init);
    }
    request.set_initial_clustering(from_);
    request.set_seed(seed_);
    request.set_n_init(runs_);
    request.set_max_iterations(iterations_);
    if (tolerance_.has_value()) request.set_tolerance(*tolerance_);
    request.set_batch_rows(batch_);
    request.set_weight_attribute(weight_);
    request.set_skip_missing(skip_missing_);
    request.set_label_attribute(label_);
    request.set_measure(measure_);
    return request;
  }

  absl::Status Advise(const absl::Status& status) const {
    if (absl::IsAlreadyExists(status)) {
      return WithHint(status, "Replace it with --replace, or --name another");
    }
    if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ||
        absl::IsUnavailable(status)) {
      return WithHint(status,
                      absl::StrCat("Go on with: coterie jobs ", collection_,
                                   " NAME --resume; see: coterie jobs"));
    }
    return status;
  }

  std::string collection_;
  std::vector<int64_t> ks_;
  std::string name_;
  std::string algorithm_ = "auto";
  std::string init_;
  std::string from_;
  uint64_t seed_ = 0;
  int32_t runs_ = 0;
  int64_t iterations_ = 0;
  std::optional<double> tolerance_;
  int64_t batch_ = 0;
  std::string weight_;
  bool skip_missing_ = false;
  std::string label_;
  bool measure_ = false;
  int32_t members_ = 5;
  std::string show_;
  int64_t clusters_ = 20;
  std::string plot_;
  bool replace_ = false;
};

}  // namespace

std::unique_ptr<Command> NewKMeansCommand() {
  return std::make_unique<KMeansCommand>();
}

}  // namespace coterie
