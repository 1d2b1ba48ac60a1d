#include "api/search.h"

#include "absl/strings/str_cat.h"
#include "api/quoted.h"
#include "index/faiss_factory.h"

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

namespace {

// A FAISS index has lists or is a graph, and limits are of one of these.
absl::Status CheckLimits(const FaissStrategy& strategy, const IndexSpec& index,
                         const CollectionSpec& spec) {
  const auto factory = FaissFactory::Parse(index.factory);
  if (!factory.ok()) return factory.status();
  const bool misfit =
      factory->graph() ? strategy.nprobe > 0 : strategy.ef_search > 0;
  if (!misfit) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "strategy faiss: ", factory->graph() ? "nprobe" : "ef_search",
      " is not of the index ", index.factory, " of collection ",
      Quoted(spec.name), ": give ", factory->graph() ? "ef_search" : "nprobe",
      " or target_recall"));
}

}  // namespace

absl::Status CheckStrategy(const Strategy& strategy,
                           const CollectionSpec& spec) {
  IndexKind kind;
  if (std::holds_alternative<TreeStrategy>(strategy)) {
    kind = IndexKind::kTree;
  } else if (std::holds_alternative<LshStrategy>(strategy)) {
    kind = IndexKind::kLsh;
  } else if (std::holds_alternative<FaissStrategy>(strategy)) {
    kind = IndexKind::kFaiss;
  } else {
    return absl::OkStatus();
  }
  const IndexSpec* const index = spec.FindIndex(kind);
  if (index != nullptr) {
    const auto* const faiss = std::get_if<FaissStrategy>(&strategy);
    return faiss != nullptr ? CheckLimits(*faiss, *index, spec)
                            : absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "strategy ", IndexKindName(kind), ": collection ", Quoted(spec.name),
      " has no ", IndexKindName(kind),
      " index; search without a strategy, or create a collection that has "
      "one"));
}

}  // namespace coterie
