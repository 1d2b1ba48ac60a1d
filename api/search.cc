#include "api/search.h"

#include "absl/strings/str_cat.h"
#include "api/quoted.h"

namespace coterie {

bool IsExact(const Strategy& strategy) {
  if (const auto* tree = std::get_if<TreeStrategy>(&strategy)) {
    return *tree == TreeStrategy();
  }
  if (const auto* automatic = std::get_if<AutoStrategy>(&strategy)) {
    return automatic->target_recall >= 1;
  }
  return std::holds_alternative<ExactStrategy>(strategy);
}

absl::Status CheckStrategy(const Strategy& strategy,
                           const CollectionSpec& spec) {
  IndexKind kind;
  if (std::holds_alternative<TreeStrategy>(strategy)) {
    kind = IndexKind::kTree;
  } else if (std::holds_alternative<LshStrategy>(strategy)) {
    kind = IndexKind::kLsh;
  } else {
    return absl::OkStatus();
  }
  if (spec.FindIndex(kind) != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "strategy ", IndexKindName(kind), ": collection ", Quoted(spec.name),
      " has no ", IndexKindName(kind),
      " index; search without a strategy, or create a collection that has "
      "one"));
}

}  // namespace coterie
