#include "api/write_outcome.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace coterie {
namespace {

constexpr absl::string_view kUrl = "coterie/write_outcome";

// shard:items:code:slot,slot,...
std::optional<WriteOutcome::Part> ParsePart(absl::string_view text) {
  const std::vector<absl::string_view> fields = absl::StrSplit(text, ':');
  WriteOutcome::Part part;
  int code = 0;
  if (fields.size() != 4 || !absl::SimpleAtoi(fields[0], &part.shard) ||
      !absl::SimpleAtoi(fields[1], &part.items) ||
      !absl::SimpleAtoi(fields[2], &code)) {
    return std::nullopt;
  }
  part.code = static_cast<absl::StatusCode>(code);
  for (const absl::string_view slot :
       absl::StrSplit(fields[3], ',', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(slot, &part.slots.emplace_back())) {
      return std::nullopt;
    }
  }
  return part;
}

}  // namespace

void AttachOutcome(absl::Status* status, const WriteOutcome& outcome) {
  const std::string text = absl::StrJoin(
      outcome.parts, ";", [](std::string* out, const WriteOutcome::Part& part) {
        absl::StrAppend(out, part.shard, ":", part.items, ":",
                        static_cast<int>(part.code), ":",
                        absl::StrJoin(part.slots, ","));
      });
  status->SetPayload(kUrl, absl::Cord(text));
}

std::optional<WriteOutcome> OutcomeOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  WriteOutcome outcome;
  for (const absl::string_view part :
       absl::StrSplit(text, ';', absl::SkipEmpty())) {
    std::optional<WriteOutcome::Part> parsed = ParsePart(part);
    if (!parsed.has_value()) return std::nullopt;
    outcome.parts.push_back(*std::move(parsed));
  }
  return outcome;
}

}  // namespace coterie
