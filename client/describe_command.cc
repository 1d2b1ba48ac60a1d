#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/collections.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/numbers.h"
#include "client/printable.h"
#include "client/table.h"

namespace coterie {
namespace {

constexpr int64_t kMaxNote = 300;

constexpr char kHelp[] = R"(Examples:
  coterie describe
  coterie describe words
  coterie --json describe words

Without a name: the cluster, its shards and limits, and all collections. The
cluster is shown also while shards are down; collections that could not be
read then show a '?', and the exit code says why.)";

std::string StateName(v1::ShardDescription::State state) {
  switch (state) {
    case v1::ShardDescription::SERVING:
      return "serving";
    case v1::ShardDescription::LOADING:
      return "loading";
    case v1::ShardDescription::UNREACHABLE:
      return "unreachable";
    default:
      return "?";
  }
}

void PrintShards(const v1::DescribeResponse& cluster, std::ostream& out) {
  Table table({{"shard"},
               {"address", Align::kLeft},
               {"state", Align::kLeft},
               {"points"},
               {"memory"},
               {"sequence"},
               {"starts"},
               {"queue"},
               {"threads"},
               {"reason", Align::kLeft}});
  for (const v1::ShardDescription& shard : cluster.shards()) {
    table.AddRow(
        {absl::StrCat(shard.shard_id()), shard.address(),
         StateName(shard.state()), WithCommas(shard.points()),
         HumanBytes(shard.memory_bytes()), absl::StrCat(shard.sequence()),
         absl::StrCat(shard.incarnation()),
         absl::StrCat(shard.queue_length(), "/", shard.queue_capacity()),
         absl::StrCat(shard.threads()), shard.reason()});
  }
  table.Print(out);
}

void PrintCluster(const v1::DescribeResponse& cluster, const Session& session) {
  std::ostream& out = session.out();
  out << "cluster " << cluster.cluster_uuid() << " at " << session.server()
      << '\n'
      << "coteried " << cluster.version() << ", " << cluster.simd()
      << ", shard map " << cluster.map_version() << ", up "
      << ClockTime(absl::Seconds(cluster.uptime_seconds())) << "\n\n";
  PrintShards(cluster, out);
  if (cluster.limits_size() == 0) return;
  out << '\n';
  Table limits({{"limit", Align::kLeft}, {"value"}});
  for (const v1::Limit& limit : cluster.limits()) {
    limits.AddRow({limit.name(), WithCommas(limit.value())});
  }
  limits.Print(out);
}

std::string KindName(v1::IndexState::Kind kind) {
  switch (kind) {
    case v1::IndexState::TREE:
      return "tree";
    case v1::IndexState::LSH:
      return "lsh";
    case v1::IndexState::FAISS:
      return "faiss";
    default:
      return "?";
  }
}

// How far indexes are built, and what memory the rest will take.
void PrintIndexes(const v1::CollectionStats& stats, std::ostream& out) {
  Table table({{"shard"},
               {"index", Align::kLeft},
               {"segments built"},
               {"rows built"},
               {"memory"},
               {"to come"},
               {"note", Align::kLeft}});
  for (const v1::ShardCollectionStats& shard : stats.shards()) {
    for (const v1::IndexState& index : shard.indexes()) {
      table.AddRow({absl::StrCat(shard.shard_id()), KindName(index.kind()),
                    absl::StrCat(index.segments_ready(), "/", index.segments()),
                    absl::StrCat(WithCommas(index.rows_ready()), "/",
                                 WithCommas(index.rows())),
                    HumanBytes(index.bytes()),
                    HumanBytes(index.bytes_expected()),
                    Printable(index.note(), kMaxNote)});
    }
  }
  table.Print(out);
}

void PrintCollection(const v1::GetCollectionResponse& response,
                     std::ostream& out) {
  const v1::Collection& collection = response.collection();
  const v1::CollectionStats& stats = response.stats();
  out << "collection " << collection.name() << '\n'
      << "dimension " << collection.dimension() << ", metric "
      << MetricName(collection.metric()) << ", " << collection.slots()
      << " slots" << IndexesText(collection) << '\n'
      << Plural(stats.points(), "point") << ", "
      << HumanBytes(stats.vector_bytes()) << " of vectors, "
      << HumanBytes(stats.memory_bytes()) << " of memory\n\n";
  Table table({{"shard"},
               {"points"},
               {"dead rows"},
               {"sealed segments"},
               {"tail rows"},
               {"memory"},
               {"slots"},
               {"sequence"}});
  for (const v1::ShardCollectionStats& shard : stats.shards()) {
    table.AddRow(
        {absl::StrCat(shard.shard_id()), WithCommas(shard.points()),
         WithCommas(shard.dead_rows()), WithCommas(shard.sealed_segments()),
         WithCommas(shard.tail_rows()), HumanBytes(shard.memory_bytes()),
         absl::StrCat(shard.slots()), absl::StrCat(shard.sequence())});
  }
  table.Print(out);
  if (collection.indexes_size() > 0) {
    out << '\n';
    PrintIndexes(stats, out);
  }
}

// Lines indented, to stand within another object.
std::string Indented(const std::string& json) {
  std::string text;
  for (const char c : json) {
    text += c;
    if (c == '\n') text += ' ';
  }
  return text;
}

class DescribeCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command = app->add_subcommand(
        "describe", "Print the cluster and its collections, or one collection");
    command->add_option("NAME", collection_, "Collection");
    command->footer(kHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    return collection_.empty() ? DescribeAll(*session) : DescribeOne(*session);
  }

 private:
  absl::Status DescribeOne(const Session& session) const {
    absl::StatusOr<v1::GetCollectionResponse> response =
        GetCollection(session, collection_);
    if (!response.ok()) {
      return AdviseCreate(response.status(), collection_, std::nullopt);
    }
    if (session.json()) {
      session.PrintJson(*response);
    } else {
      PrintCollection(*response, session.out());
    }
    return absl::OkStatus();
  }

  // Prints as much as can be had; the first error decides the exit code.
  absl::Status DescribeAll(const Session& session) const {
    absl::StatusOr<v1::DescribeResponse> cluster = session.Call(
        session.stubs().cluster, &v1::ClusterService::StubInterface::Describe,
        v1::DescribeRequest());
    if (!cluster.ok()) return cluster.status();
    absl::StatusOr<v1::ListCollectionsResponse> list =
        session.Call(session.stubs().collections,
                     &v1::CollectionService::StubInterface::ListCollections,
                     v1::ListCollectionsRequest());
    absl::Status first_error = list.status();
    std::vector<v1::GetCollectionResponse> collections;
    if (list.ok()) {
      for (const v1::Collection& collection : list->collections()) {
        absl::StatusOr<v1::GetCollectionResponse> response =
            GetCollection(session, collection.name());
        if (response.ok()) {
          collections.push_back(*std::move(response));
          continue;
        }
        // Dropped since it was listed.
        if (absl::IsNotFound(response.status())) continue;
        first_error.Update(response.status());
        *collections.emplace_back().mutable_collection() = collection;
      }
    }
    if (session.json()) {
      PrintAllJson(*cluster, collections, session.out());
    } else {
      PrintCluster(*cluster, session);
      if (list.ok()) PrintCollections(collections, session.out());
    }
    return first_error;
  }

  static void PrintAllJson(
      const v1::DescribeResponse& cluster,
      const std::vector<v1::GetCollectionResponse>& collections,
      std::ostream& out) {
    out << "{\n \"cluster\": " << Indented(ToJson(cluster))
        << ",\n \"collections\": ["
        << absl::StrJoin(collections, ", ",
                         [](std::string* text,
                            const v1::GetCollectionResponse& collection) {
                           text->append(Indented(ToJson(collection)));
                         })
        << "]\n}\n";
  }

  static void PrintCollections(
      const std::vector<v1::GetCollectionResponse>& collections,
      std::ostream& out) {
    if (collections.empty()) {
      out << "\nno collections; make one: coterie create words --dim 100 "
             "--metric cosine\n";
      return;
    }
    out << '\n';
    Table table({{"collection", Align::kLeft},
                 {"dim"},
                 {"metric", Align::kLeft},
                 {"slots"},
                 {"points"},
                 {"vectors"},
                 {"memory"}});
    for (const v1::GetCollectionResponse& response : collections) {
      const v1::Collection& collection = response.collection();
      const v1::CollectionStats& stats = response.stats();
      const bool known = response.has_stats();
      table.AddRow({collection.name(), absl::StrCat(collection.dimension()),
                    MetricName(collection.metric()),
                    absl::StrCat(collection.slots()),
                    known ? WithCommas(stats.points()) : "?",
                    known ? HumanBytes(stats.vector_bytes()) : "?",
                    known ? HumanBytes(stats.memory_bytes()) : "?"});
    }
    table.Print(out);
  }

  std::string collection_;
};

}  // namespace

std::unique_ptr<Command> NewDescribeCommand() {
  return std::make_unique<DescribeCommand>();
}

}  // namespace coterie
