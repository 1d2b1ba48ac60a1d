#include "client/search_output.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/numbers.h"
#include "client/point_text.h"
#include "client/printable.h"
#include "client/table.h"

namespace coterie {
namespace {

constexpr int64_t kMaxReason = 300;
constexpr int64_t kMaxPlan = 600;

// The one query's account; an account of nothing when it is missing.
v1::QueryAccount AccountOf(const v1::ShardCertificate& shard) {
  return shard.queries_size() > 0 ? shard.queries(0) : v1::QueryAccount();
}

bool AddsUp(int64_t rows_live, const v1::QueryAccount& account) {
  return rows_live == account.rows_evaluated() + account.rows_ruled_out() +
                          account.rows_filtered() + account.rows_unseen();
}

// "2,500 rows live = 12 evaluated + 2,488 ruled out".
std::string AccountText(int64_t rows_live, const v1::QueryAccount& account) {
  std::string text =
      absl::StrCat(Plural(rows_live, "row"), " live ",
                   AddsUp(rows_live, account) ? "= " : "(does not add up!) != ",
                   WithCommas(account.rows_evaluated()), " evaluated + ",
                   WithCommas(account.rows_ruled_out()), " ruled out");
  if (account.rows_filtered() > 0) {
    absl::StrAppend(&text, " + ", WithCommas(account.rows_filtered()),
                    " filtered");
  }
  if (account.rows_unseen() > 0) {
    absl::StrAppend(&text, " + ", WithCommas(account.rows_unseen()), " unseen");
  }
  if (account.leaves_read() > 0) {
    absl::StrAppend(&text, "; ", WithCommas(account.leaves_read()), " leaves",
                    " read");
  }
  if (account.rows_met() > 0) {
    absl::StrAppend(&text, "; ", Plural(account.rows_met(), "row"),
                    " met in buckets");
  }
  return text;
}

void PrintCertificate(const v1::SearchResponse& response, std::ostream& out) {
  const v1::Certificate& certificate = response.certificate();
  out << "certificate, shard map " << certificate.map_version() << ":\n";
  int64_t live = 0;
  v1::QueryAccount sum;
  for (const v1::ShardCertificate& shard : certificate.shards()) {
    const v1::QueryAccount account = AccountOf(shard);
    out << "  shard " << shard.shard_id() << ": "
        << AccountText(shard.rows_live(), account) << ", at sequence "
        << shard.sequence() << '\n';
    live += shard.rows_live();
    sum.set_rows_evaluated(sum.rows_evaluated() + account.rows_evaluated());
    sum.set_rows_ruled_out(sum.rows_ruled_out() + account.rows_ruled_out());
    sum.set_rows_filtered(sum.rows_filtered() + account.rows_filtered());
    sum.set_rows_unseen(sum.rows_unseen() + account.rows_unseen());
    sum.set_leaves_read(sum.leaves_read() + account.leaves_read());
    sum.set_rows_met(sum.rows_met() + account.rows_met());
  }
  out << "  together: " << AccountText(live, sum) << '\n';
  if (response.results(0).exact()) {
    out << "  exact: yes; a row is ruled out only by a proven bound above the "
           "last hit\n";
    return;
  }
  const std::string& withheld = certificate.withheld();
  out << "  exact: no; "
      << (withheld.empty() ? "no reason given"
                           : Printable(withheld, kMaxReason))
      << '\n';
}

// What it predicted and chose, whole: too long for a table.
void PrintPlans(const v1::Profile& profile, std::ostream& out) {
  std::map<std::string, std::vector<int32_t>> shards;
  for (const v1::ShardProfile& shard : profile.shards()) {
    shards[shard.plan()].push_back(shard.shard_id());
  }
  for (const auto& [plan, ids] : shards) {
    out << (ids.size() == 1 ? "plan of shard " : "plan of shards ")
        << absl::StrJoin(ids, ", ") << ": " << Printable(plan, kMaxPlan)
        << '\n';
  }
}

void PrintWork(const v1::SearchResponse& response, std::ostream& out) {
  absl::flat_hash_map<int32_t, int64_t> sequences;
  for (const v1::ShardCertificate& shard : response.certificate().shards()) {
    sequences[shard.shard_id()] = shard.sequence();
  }
  Table table({{"shard"},
               {"rows"},
               {"MB"},
               {"queue ms"},
               {"scan ms"},
               {"round trip ms"},
               {"sequence"}});
  const v1::Profile& profile = response.profile();
  for (const v1::ShardProfile& shard : profile.shards()) {
    const auto sequence = sequences.find(shard.shard_id());
    table.AddRow(
        {absl::StrCat(shard.shard_id()), WithCommas(shard.rows_scanned()),
         absl::StrFormat("%.2f",
                         static_cast<double>(shard.bytes_scanned()) / 1e6),
         Milliseconds(shard.queue_seconds()),
         Milliseconds(shard.scan_seconds()),
         Milliseconds(shard.round_trip_seconds()),
         sequence == sequences.end() ? "?" : absl::StrCat(sequence->second)});
  }
  table.Print(out);
  PrintPlans(profile, out);
  const v1::CommunicationCost& cost = response.cost();
  out << "total " << Milliseconds(profile.total_seconds()) << " ms, merge "
      << Milliseconds(profile.merge_seconds()) << " ms; "
      << Plural(cost.messages(), "message") << ", "
      << HumanBytes(cost.bytes_sent()) << " to and "
      << HumanBytes(cost.bytes_received()) << " from shards";
  if (profile.rounds() > 1) out << " in " << Plural(profile.rounds(), "round");
  if (cost.bytes_saved() > 0) {
    out << ", " << HumanBytes(cost.bytes_saved()) << " spared";
  }
  out << '\n';
}

}  // namespace

void PrintHits(const v1::SearchResponse& response,
               const std::vector<std::string>& show, std::ostream& out) {
  const v1::QueryResult& result = response.results(0);
  std::vector<const AttributeMap*> attributes;
  for (const v1::Hit& hit : result.hits()) {
    attributes.push_back(&hit.attributes());
  }
  const std::vector<std::string> names = AttributeColumns(show, attributes);
  std::vector<Table::Column> columns = {{"rank"}, {"id"}, {"distance"}};
  for (const std::string& name : names) columns.push_back({name, Align::kLeft});
  Table table(std::move(columns));
  for (const v1::Hit& hit : result.hits()) {
    std::vector<std::string> row = {absl::StrCat(table.rows() + 1),
                                    absl::StrCat(hit.id()),
                                    DistanceText(hit.distance())};
    for (const std::string& name : names) {
      row.push_back(AttributeText(hit.attributes(), name));
    }
    table.AddRow(row);
  }
  if (table.rows() > 0) table.Print(out);
  for (const v1::Hit& hit : result.hits()) {
    if (!hit.has_vector()) continue;
    out << "vector of " << hit.id() << ": " << VectorText(hit.vector()) << '\n';
  }
  const v1::Coverage& coverage = response.coverage();
  out << Plural(result.hits_size(), "hit") << ", "
      << (result.exact() ? "exact" : "not certified exact") << ", "
      << (result.has_recall()
              ? absl::StrFormat("recall %.4g, ", result.recall())
              : "")
      << (coverage.estimated() ? "about " : "")
      << WithCommas(coverage.rows_covered()) << " of "
      << Plural(coverage.rows_total(), "row") << " on " << coverage.shards_ok()
      << " of " << Plural(coverage.shards_total(), "shard") << '\n';
  for (const v1::MissingShard& missing : coverage.missing()) {
    out << "  shard " << missing.shard_id()
        << " is missing: " << Printable(missing.reason(), kMaxReason) << '\n';
  }
}

void PrintProfile(const v1::SearchResponse& response, std::ostream& out) {
  out << '\n';
  PrintCertificate(response, out);
  out << '\n';
  PrintWork(response, out);
}

absl::Status CheckCertificate(const v1::SearchResponse& response) {
  if (!response.results(0).exact()) return absl::OkStatus();
  absl::flat_hash_set<int32_t> shards;
  for (const v1::ShardCertificate& shard : response.certificate().shards()) {
    const v1::QueryAccount account = AccountOf(shard);
    if (!AddsUp(shard.rows_live(), account) || account.rows_unseen() != 0) {
      return absl::InternalError(absl::StrCat(
          "the answer calls itself exact, but shard ", shard.shard_id(),
          " accounts for ", AccountText(shard.rows_live(), account)));
    }
    shards.insert(shard.shard_id());
  }
  const auto accounted = static_cast<int64_t>(shards.size());
  if (accounted != response.coverage().shards_total() ||
      accounted != response.certificate().shards_size()) {
    return absl::InternalError(absl::StrCat(
        "the answer calls itself exact, but ", accounted, " of ",
        response.coverage().shards_total(), " shards account for their rows"));
  }
  return absl::OkStatus();
}

}  // namespace coterie
