#include <CLI/App.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/status_details.h"
#include "client/collections.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/find_by_text.h"
#include "client/npy_file.h"
#include "client/numbers.h"
#include "client/point_text.h"
#include "client/printable.h"
#include "client/search_output.h"
#include "client/where.h"

namespace coterie {
namespace {

constexpr char kHelp[] = R"(Examples:
  coterie search words --near king
  coterie search words --near king --attribute word -k 5 --show word
  coterie search words --id 17 --radius 0.4
  coterie search pixels --vector-file image.npy --profile
  coterie search plane --vector=-0.5,2 -k 3
  coterie search words --near king --strategy tree --target-recall 0.95
  coterie search words --near king --where lang=en --where 'year>=1990'

The query is exactly one of --vector, --vector-file, --id and --near. --near
reads attributes until a point has the text: "word", then "text", unless
--attribute names another; that point's vector is the query. A stored point is
among its own answers. Distances are smaller-is-nearer; --radius is inclusive.
--profile shows the certificate: how each shard accounts for every live row.
--strategy auto takes on each shard what costs least, and --profile says why;
tree, lsh and faiss need an index (coterie create --index). Without limits auto
and tree are exact; --target-recall, --max-leaves, --epsilon, --nprobe and
--ef-search trade that for time, and --measure-recall says what it cost.)";

class SearchCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("search", "Find the nearest points");
    command->add_option("NAME", collection_, "Collection")->required();
    command->add_option("--vector", vector_, "Query: \"0.1,-0.2,...\"");
    command->add_option("--vector-file", vector_file_,
                        "Query: a .npy file of one vector");
    command->add_option("--id", id_, "Query: the vector of this stored point");
    command->add_option("--near", near_, "Query: the point that has this text");
    command->add_option("--attribute", attribute_,
                        "With --near: the attribute to compare");
    CLI::Option* k = command->add_option("-k,--k", k_,
                                         "Nearest points wanted (default: 10)");
    command
        ->add_option("--radius", radius_,
                     "All points within this distance, instead of -k")
        ->excludes(k);
    command->add_option("--strategy", strategy_,
                        "exact, auto, tree, lsh or faiss (default: exact)");
    command->add_option("--target-recall", target_recall_,
                        "Part of the nearest to be found, in (0, 1]");
    command->add_option("--max-leaves", max_leaves_,
                        "Leaves of trees to read, on each shard");
    command->add_option("--epsilon", epsilon_,
                        "Relative error of the last distance");
    command->add_flag("--measure-recall", measure_recall_,
                      "Search exactly as well, and say what was found of that");
    command->add_option("--max-candidates", max_candidates_,
                        "Rows to meet in buckets, per segment");
    command->add_option("--nprobe", nprobe_,
                        "Lists of an IVF of faiss to read, per segment");
    command->add_option("--ef-search", ef_search_,
                        "Width of the way through an HNSW of faiss");
    command->add_option("--candidates", candidates_,
                        "Rows that faiss is to name, per segment");
    command
        ->add_option("--where", where_,
                     "Only points that this holds of; repeat for more")
        ->allow_extra_args(false);
    command->add_option("--show", show_, "Only this attribute; repeat for more")
        ->allow_extra_args(false);
    command->add_flag("--with-vectors", with_vectors_, "Print vectors as well");
    command->add_flag("--profile", profile_,
                      "Print the certificate and where time went");
    command->add_flag("--allow-partial", allow_partial_,
                      "Answer also while shards are down, saying so");
    command->footer(absl::StrCat(kHelp, "\n\n", kWhereHelp));
    return command;
  }

  absl::Status Run(Session* session) override {
    absl::Status flags = CheckFlags();
    if (!flags.ok()) return flags;
    absl::StatusOr<v1::SearchRequest> request = MakeRequest(*session);
    if (!request.ok()) return request.status();
    absl::StatusOr<v1::SearchResponse> response =
        session->Call(session->stubs().search,
                      &v1::SearchService::StubInterface::Search, *request);
    if (!response.ok()) return Advise(response.status());
    if (response->results_size() != 1) {
      return absl::InternalError(absl::StrCat("the server sent ",
                                              response->results_size(),
                                              " results for one query"));
    }
    if (session->json()) {
      session->PrintJson(*response);
    } else {
      PrintHits(*response, show_, session->out());
      if (profile_) PrintProfile(*response, session->out());
    }
    return profile_ ? CheckCertificate(*response) : absl::OkStatus();
  }

 private:
  absl::Status CheckFlags() const {
    const int queries = vector_.has_value() + vector_file_.has_value() +
                        id_.has_value() + near_.has_value();
    if (queries != 1) {
      return UsageError(
          absl::StrCat("give exactly one of --vector, --vector-file, --id and "
                       "--near, not ",
                       queries),
          "Like this: coterie search words --near king");
    }
    if (attribute_.has_value() && !near_.has_value()) {
      return UsageError("--attribute goes with --near",
                        "To print an attribute: --show NAME");
    }
    if (radius_.has_value() && !std::isfinite(*radius_)) {
      return UsageError("--radius is not a finite number",
                        "Like this: --radius 0.4");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<v1::SearchRequest> MakeRequest(const Session& session) {
    v1::SearchRequest request;
    request.set_collection(collection_);
    absl::Status query = FillQuery(session, request.add_queries());
    if (!query.ok()) return query;
    if (radius_.has_value()) {
      request.set_radius(*radius_);
    } else {
      request.set_k(k_);
    }
    absl::Status strategy = FillStrategy(&request);
    if (!strategy.ok()) return strategy;
    absl::StatusOr<v1::Filter> where = ParseWhere(where_);
    if (!where.ok()) {
      return UsageError(where.status().message(), "Like this: --where lang=en");
    }
    if (!where_.empty()) *request.mutable_filter() = *std::move(where);
    request.set_with_vectors(with_vectors_);
    *request.mutable_with_attributes() = SelectAttributes(show_);
    request.set_profile(profile_);
    request.set_measure_recall(measure_recall_);
    if (allow_partial_) request.mutable_partial_policy()->mutable_allow();
    return request;
  }

  absl::Status FillStrategy(v1::SearchRequest* request) const {
    const bool tree = strategy_ == "tree";
    const bool lsh = strategy_ == "lsh";
    const bool faiss = strategy_ == "faiss";
    const bool automatic = strategy_ == "auto";
    if (!tree && !lsh && !faiss && !automatic && strategy_ != "exact") {
      return UsageError(absl::StrCat("--strategy: '", Printable(strategy_, 40),
                                     "' is no strategy"),
                        "One of: exact, auto, tree, lsh, faiss");
    }
    if ((max_leaves_ != 0 || epsilon_ != 0) && !tree) {
      return UsageError("--max-leaves and --epsilon are of trees",
                        "Add: --strategy tree");
    }
    if (max_candidates_ != 0 && !lsh) {
      return UsageError("--max-candidates is of lsh", "Add: --strategy lsh");
    }
    if ((nprobe_ != 0 || ef_search_ != 0 || candidates_ != 0) && !faiss) {
      return UsageError("--nprobe, --ef-search and --candidates are of faiss",
                        "Add: --strategy faiss");
    }
    if (target_recall_ != 0 && strategy_ == "exact") {
      return UsageError(
          "an exact search finds all that there is",
          "With --target-recall: --strategy auto, tree, lsh or faiss");
    }
    if (tree) {
      request->mutable_tree()->set_max_leaves(max_leaves_);
      request->mutable_tree()->set_epsilon(epsilon_);
      request->mutable_tree()->set_target_recall(target_recall_);
    } else if (lsh) {
      request->mutable_lsh()->set_target_recall(target_recall_);
      request->mutable_lsh()->set_max_candidates(max_candidates_);
    } else if (faiss) {
      request->mutable_faiss()->set_target_recall(target_recall_);
      request->mutable_faiss()->set_nprobe(nprobe_);
      request->mutable_faiss()->set_ef_search(ef_search_);
      request->mutable_faiss()->set_candidates(candidates_);
    } else if (automatic) {
      request->mutable_auto_()->set_target_recall(target_recall_);
    } else {
      request->mutable_exact();
    }
    return absl::OkStatus();
  }

  absl::Status FillQuery(const Session& session, v1::Query* query) {
    if (vector_.has_value()) {
      absl::StatusOr<std::vector<float>> vector = ParseVector(*vector_);
      if (!vector.ok()) {
        return UsageError(vector.status().message(),
                          "Like this: --vector=0.1,-0.2,0.3");
      }
      dimension_ = static_cast<int64_t>(vector->size());
      *query->mutable_vector() = PackVector(*vector);
      return absl::OkStatus();
    }
    if (vector_file_.has_value()) return ReadQuery(query);
    if (id_.has_value()) {
      absl::StatusOr<uint64_t> id = ParsePointId(*id_);
      if (!id.ok()) {
        return UsageError(absl::StrCat("--id: ", id.status().message()),
                          "Like this: --id 17");
      }
      query->set_id(*id);
      return absl::OkStatus();
    }
    return FindQuery(session, query);
  }

  absl::Status ReadQuery(v1::Query* query) {
    absl::StatusOr<NpyFile> file = NpyFile::Open(*vector_file_);
    absl::Status status = file.status();
    std::vector<float> vector;
    if (status.ok() && file->layout().rows != 1) {
      status = absl::InvalidArgumentError(
          absl::StrCat(*vector_file_, ": ", Plural(file->layout().rows, "row"),
                       "; expected one vector"));
    }
    if (status.ok()) status = file->ReadRows(1, &vector);
    if (!status.ok()) {
      return WithHint(std::move(status),
                      "Write it with: numpy.save(\"query.npy\", "
                      "a[17].astype(\"<f4\"))");
    }
    dimension_ = file->layout().columns;
    *query->mutable_vector() = PackVector(vector);
    return absl::OkStatus();
  }

  absl::Status FindQuery(const Session& session, v1::Query* query) const {
    std::vector<std::string> attributes = {"word", "text"};
    if (attribute_.has_value()) attributes = {*attribute_};
    for (const std::string& attribute : attributes) {
      absl::StatusOr<TextMatch> found =
          FindByText(session, collection_, attribute, *near_);
      if (!found.ok()) return Advise(found.status());
      if (found->points == 0) continue;
      if (found->points > 1) {
        session.err() << "coterie: several points have " << attribute << " \""
                      << Printable(*near_, 60) << "\"; searching near id "
                      << found->id << '\n';
      }
      query->set_id(found->id);
      return absl::OkStatus();
    }
    return WithHint(
        absl::NotFoundError(absl::StrCat(
            "no point of \"", collection_, "\" has ",
            absl::StrJoin(attributes, " or "), " \"", *near_, "\"")),
        attribute_.has_value()
            ? absl::StrCat("Check the spelling, upper and lower case; "
                           "attributes of a point: coterie get ",
                           collection_, " 0")
            : absl::StrCat("Check the spelling, or name the attribute: "
                           "--attribute NAME; attributes of a point: coterie "
                           "get ",
                           collection_, " 0"));
  }

  absl::Status Advise(const absl::Status& status) const {
    if (absl::IsNotFound(status) && id_.has_value()) {
      return WithHint(
          status,
          absl::StrCat("Is the id stored? coterie get ", collection_, " ", *id_,
                       "; what collections there are: coterie "
                       "describe"));
    }
    if (absl::IsUnavailable(status) && ShardOf(status).has_value()) {
      return WithHint(status,
                      "Retry, or take what the other shards have: "
                      "--allow-partial; state of shards: coterie describe");
    }
    return AdviseCreate(status, collection_, dimension_);
  }

  std::string collection_;
  std::optional<std::string> vector_;
  std::optional<std::string> vector_file_;
  std::optional<std::string> id_;
  std::optional<std::string> near_;
  std::optional<std::string> attribute_;
  int32_t k_ = 10;
  std::optional<double> radius_;
  std::vector<std::string> where_;
  std::vector<std::string> show_;
  bool with_vectors_ = false;
  bool profile_ = false;
  bool allow_partial_ = false;
  std::string strategy_ = "exact";
  double target_recall_ = 0;  // 0: not given, and so below
  int64_t max_leaves_ = 0;
  double epsilon_ = 0;
  bool measure_recall_ = false;
  int64_t max_candidates_ = 0;
  int64_t nprobe_ = 0;
  int64_t ef_search_ = 0;
  int64_t candidates_ = 0;

  // Of the query, once it is known.
  std::optional<int64_t> dimension_;
};

}  // namespace

std::unique_ptr<Command> NewSearchCommand() {
  return std::make_unique<SearchCommand>();
}

}  // namespace coterie
