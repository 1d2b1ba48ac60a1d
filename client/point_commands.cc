// get, delete and count: points by id.

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

Ids that are not stored are ignored: repeating a delete is harmless.)";

constexpr char kCountHelp[] = R"(Examples:
  coterie count words
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
    CLI::App* command = app->add_subcommand("delete", "Delete points by id");
    command->add_option("NAME", collection_, "Collection")->required();
    command->add_option("ID", ids_, "Ids, at most 4096")->required();
    command->footer(kDeleteHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    session->set_default_timeout(absl::Seconds(60));
    absl::StatusOr<std::vector<uint64_t>> ids = ParseIds(ids_);
    if (!ids.ok()) return ids.status();
    v1::DeleteRequest request;
    request.set_collection(collection_);
    request.mutable_ids()->Assign(ids->begin(), ids->end());
    absl::StatusOr<v1::DeleteResponse> response =
        session->Call(session->stubs().points,
                      &v1::PointService::StubInterface::Delete, request);
    if (!response.ok()) {
      return AdviseCreate(response.status(), collection_, std::nullopt);
    }
    if (session->json()) {
      session->PrintJson(*response);
    } else {
      session->out() << "deleted " << Plural(response->deleted(), "point")
                     << " of " << WithCommas(request.ids_size()) << " named\n";
    }
    return absl::OkStatus();
  }

 private:
  std::string collection_;
  std::vector<std::string> ids_;
};

class CountCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("count", "Print the number of points");
    command->add_option("NAME", collection_, "Collection")->required();
    command->footer(kCountHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    v1::CountRequest request;
    request.set_collection(collection_);
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
