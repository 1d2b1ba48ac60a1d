// get, delete and count: points by id or by attributes.

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/collections.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/numbers.h"
#include "client/point_text.h"
#include "client/table.h"
#include "client/where.h"

namespace coterie {
namespace {

constexpr char kGetHelp[] = R"(Examples:
  coterie get words 17 42
  coterie get words 17 --show word --with-vectors
  coterie --json get words 9007199254740993

Ids that are not stored are named and make the exit code 2; the others are
printed all the same.)";

constexpr char kDeleteHelp[] = R"(Examples:
  coterie delete words 17 42
  coterie delete words --where lang=en --where 'year<1990' --dry-run

Ids that are not stored are ignored: repeating a delete is harmless.)";

constexpr char kCountHelp[] = R"(Examples:
  coterie count words
  coterie count words --where lang=en
  test $(coterie count words) -eq 10000)";

absl::StatusOr<std::vector<uint64_t>> ParseIds(
    const std::vector<std::string>& texts) {
  std::vector<uint64_t> ids;
  for (const std::string& text : texts) {
    absl::StatusOr<uint64_t> id = ParsePointId(text);
    if (!id.ok()) {
      return UsageError(id.status().message(),
                        "Like this: coterie get words 17 42");
    }
    ids.push_back(*id);
  }
  return ids;
}

// The conditions of --where; none if it was not given.
absl::StatusOr<v1::Filter> FilterOf(const std::vector<std::string>& where) {
  absl::StatusOr<v1::Filter> filter = ParseWhere(where);
  if (filter.ok()) return filter;
  return UsageError(filter.status().message(), "Like this: --where lang=en");
}

void AddWhere(CLI::App* command, std::vector<std::string>* where) {
  command
      ->add_option("--where", *where,
                   "Points that this holds of; repeat for more")
      ->allow_extra_args(false);
}

class GetCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command = app->add_subcommand("get", "Print points by id");
    command->add_option("NAME", collection_, "Collection")->required();
    command->add_option("ID", ids_, "Ids, at most 4096")->required();
    command->add_option("--show", show_, "Only this attribute; repeat for more")
        ->allow_extra_args(false);
    command->add_flag("--with-vectors", with_vectors_, "Print vectors as well");
    command->footer(kGetHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    absl::StatusOr<std::vector<uint64_t>> ids = ParseIds(ids_);
    if (!ids.ok()) return ids.status();
    v1::GetRequest request;
    request.set_collection(collection_);
    request.mutable_ids()->Assign(ids->begin(), ids->end());
    request.set_with_vectors(with_vectors_);
    *request.mutable_with_attributes() = SelectAttributes(show_);
    absl::StatusOr<v1::GetResponse> response =
        session->Call(session->stubs().points,
                      &v1::PointService::StubInterface::Get, request);
    if (!response.ok()) {
      return AdviseCreate(response.status(), collection_, std::nullopt);
    }
    if (session->json()) {
      session->PrintJson(*response);
    } else if (response->points_size() > 0) {
      Print(*response, session->out());
    }
    if (response->missing_size() == 0) return absl::OkStatus();
    return WithHint(
        absl::NotFoundError(
            absl::StrCat("not stored in \"", collection_,
                         "\": ", absl::StrJoin(response->missing(), ", "))),
        "Look ids up by text: coterie search " + collection_ + " --near TEXT");
  }

 private:
  void Print(const v1::GetResponse& response, std::ostream& out) const {
    std::vector<const AttributeMap*> attributes;
    for (const v1::Point& point : response.points()) {
      attributes.push_back(&point.attributes());
    }
    const std::vector<std::string> names = AttributeColumns(show_, attributes);
    std::vector<Table::Column> columns = {{"id"}};
    for (const std::string& name : names) {
      columns.push_back({name, Align::kLeft});
    }
    Table table(std::move(columns));
    for (const v1::Point& point : response.points()) {
      std::vector<std::string> row = {absl::StrCat(point.id())};
      for (const std::string& name : names) {
        row.push_back(AttributeText(point.attributes(), name));
      }
      table.AddRow(row);
    }
    table.Print(out);
    for (const v1::Point& point : response.points()) {
      if (!point.has_vector()) continue;
      out << "vector of " << point.id() << ": " << VectorText(point.vector())
          << '\n';
    }
  }

  std::string collection_;
  std::vector<std::string> ids_;
  std::vector<std::string> show_;
  bool with_vectors_ = false;
};

class DeleteCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("delete", "Delete points by id or by attributes");
    command->add_option("NAME", collection_, "Collection")->required();
    command->add_option("ID", ids_, "Ids, at most 4096");
    AddWhere(command, &where_);
    command->add_flag("--dry-run,--dry_run", dry_run_,
                      "With --where: only say how many would be deleted");
    command->footer(absl::StrCat(kDeleteHelp, "\n\n", kWhereHelp));
    return command;
  }

  absl::Status Run(Session* session) override {
    session->set_default_timeout(absl::Seconds(60));
    absl::StatusOr<std::vector<uint64_t>> ids = ParseIds(ids_);
    if (!ids.ok()) return ids.status();
    absl::StatusOr<v1::Filter> filter = FilterOf(where_);
    if (!filter.ok()) return filter.status();
    if (ids_.empty() == where_.empty() || (dry_run_ && where_.empty())) {
      return UsageError(
          where_.empty() && dry_run_ ? "--dry-run goes with --where"
                                     : "give either ids or --where",
          "Like this: coterie delete words --where lang=en --dry-run");
    }
    v1::DeleteRequest request;
    request.set_collection(collection_);
    request.mutable_ids()->Assign(ids->begin(), ids->end());
    if (!where_.empty()) *request.mutable_filter() = *std::move(filter);
    request.set_dry_run(dry_run_);
    absl::StatusOr<v1::DeleteResponse> response =
        session->Call(session->stubs().points,
                      &v1::PointService::StubInterface::Delete, request);
    if (!response.ok()) {
      return AdviseCreate(response.status(), collection_, std::nullopt);
    }
    if (session->json()) {
      session->PrintJson(*response);
    } else {
      session->out() << (dry_run_ ? "would delete " : "deleted ")
                     << Plural(response->deleted(), "point");
      if (where_.empty()) {
        session->out() << " of " << WithCommas(request.ids_size()) << " named";
      }
      session->out() << '\n';
    }
    return absl::OkStatus();
  }

 private:
  std::string collection_;
  std::vector<std::string> ids_;
  std::vector<std::string> where_;
  bool dry_run_ = false;
};

class CountCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("count", "Print the number of points");
    command->add_option("NAME", collection_, "Collection")->required();
    AddWhere(command, &where_);
    command->footer(absl::StrCat(kCountHelp, "\n\n", kWhereHelp));
    return command;
  }

  absl::Status Run(Session* session) override {
    absl::StatusOr<v1::Filter> filter = FilterOf(where_);
    if (!filter.ok()) return filter.status();
    v1::CountRequest request;
    request.set_collection(collection_);
    if (!where_.empty()) *request.mutable_filter() = *std::move(filter);
    absl::StatusOr<v1::CountResponse> response =
        session->Call(session->stubs().points,
                      &v1::PointService::StubInterface::Count, request);
    if (!response.ok()) {
      return AdviseCreate(response.status(), collection_, std::nullopt);
    }
    if (session->json()) {
      session->PrintJson(*response);
    } else {
      // Without commas: for scripts.
      session->out() << response->count() << '\n';
    }
    return absl::OkStatus();
  }

 private:
  std::string collection_;
  std::vector<std::string> where_;
};

}  // namespace

std::unique_ptr<Command> NewGetCommand() {
  return std::make_unique<GetCommand>();
}

std::unique_ptr<Command> NewDeleteCommand() {
  return std::make_unique<DeleteCommand>();
}

std::unique_ptr<Command> NewCountCommand() {
  return std::make_unique<CountCommand>();
}

}  // namespace coterie
