#include <CLI/App.hpp>
#include <string>
#include <utility>
#include <vector>

#include "client/collections.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/numbers.h"

namespace coterie {
namespace {

constexpr char kHelp[] = R"(Examples:
  coterie create words --dim 100 --metric cosine
  coterie create pixels --dim 784 --metric l2 --slots 256
  coterie create words --dim 100 --metric cosine --index tree --index lsh
  coterie create words --dim 100 --metric cosine --index faiss:HNSW32

Distances are smaller-is-nearer whatever the metric:
  cosine  1 - cos(q, x), 0 to 2; zero vectors are refused
  l2      sum of squared differences
  ip      the negated inner product
Without --index every search scans, which is exact. Indexes are built in the
background; searches use one when they ask for it (coterie search --strategy):
  tree                 exact, or part of the answer from few rows
  lsh[:BYTES[:RECALL]] part of the answer; BYTES a row of memory, 68 to 1088
                       (default 192), RECALL what is found (default 0.9)
  faiss:FACTORY[:RECALL] part of the answer, by an index of FAISS: HNSW32,
                       IVF1024,Flat, OPQ20,IVF1024,PQ20, ...
Dimension, metric, slots and indexes are fixed at creation.)";

class CreateCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command = app->add_subcommand("create", "Create a collection");
    command->add_option("NAME", name_, "Letters, digits, '_', '.', '-'")
        ->required();
    command->add_option("--dim", dimension_, "Components of each vector")
        ->required();
    command->add_option("--metric", metric_, "cosine, l2 or ip")->required();
    command->add_option("--slots", slots_,
                        "Units of placement on shards (default: 64)");
    command->add_option("--index", indexes_,
                        "tree, lsh[:BYTES[:RECALL]] or faiss:FACTORY[:RECALL]; "
                        "repeat for more");
    command->footer(kHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    absl::StatusOr<v1::Metric> metric = ParseMetric(metric_);
    if (!metric.ok()) return metric.status();
    v1::Collection collection;
    collection.set_name(name_);
    collection.set_dimension(dimension_);
    collection.set_metric(*metric);
    collection.set_slots(slots_);
    for (const std::string& text : indexes_) {
      absl::StatusOr<v1::IndexSpec> index = ParseIndex(text);
      if (!index.ok()) return index.status();
      *collection.add_indexes() = *std::move(index);
    }
    absl::StatusOr<v1::CreateCollectionResponse> response =
        CreateCollection(*session, collection);
    if (absl::IsAlreadyExists(response.status())) {
      return WithHint(response.status(),
                      "Use it as it is: coterie describe " + name_ +
                          "; or drop it first: coterie drop " + name_);
    }
    if (!response.ok()) return response.status();
    if (session->json()) {
      session->PrintJson(*response);
      return absl::OkStatus();
    }
    const v1::Collection& made = response->collection();
    session->out() << "created " << made.name() << ": dimension "
                   << made.dimension() << ", metric "
                   << MetricName(made.metric()) << ", " << made.slots()
                   << " slots" << IndexesText(made) << '\n';
    return absl::OkStatus();
  }

 private:
  std::string name_;
  int32_t dimension_ = 0;
  std::string metric_;
  int32_t slots_ = 0;
  std::vector<std::string> indexes_;
};

}  // namespace

std::unique_ptr<Command> NewCreateCommand() {
  return std::make_unique<CreateCommand>();
}

}  // namespace coterie
