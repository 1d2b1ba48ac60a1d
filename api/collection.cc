#include "api/collection.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "index/faiss_factory.h"

namespace coterie {
namespace {

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '.' || c == '-';
}

absl::Status CheckLength(absl::string_view field, absl::string_view name,
                         const Limits& limits) {
  if (name.empty()) return InvalidField(field, "the name is empty");
  if (static_cast<int64_t>(name.size()) > limits.collection_name_bytes) {
    return InvalidField(
        field, absl::StrCat(Quoted(name), " has ", name.size(),
                            " bytes, over the limit collection_name_bytes of ",
                            limits.collection_name_bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckName(absl::string_view field, absl::string_view name,
                       const Limits& limits) {
  absl::Status status = CheckLength(field, name, limits);
  if (!status.ok()) return status;
  if (!absl::ascii_isalnum(static_cast<unsigned char>(name.front()))) {
    return InvalidField(field, absl::StrCat(Quoted(name),
                                            " does not start with a letter or "
                                            "digit"));
  }
  if (!std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return InvalidField(field, absl::StrCat(Quoted(name),
                                            " has characters other than "
                                            "[A-Za-z0-9_.-]"));
  }
  return absl::OkStatus();
}

absl::Status CheckRange(absl::string_view field, int64_t value,
                        absl::string_view limit, int64_t most) {
  if (value < 1) {
    return InvalidField(field, absl::StrCat(value, " is not in 1..", most));
  }
  if (value > most) return OverLimit(field, value, limit, most);
  return absl::OkStatus();
}

bool IsMetric(Metric metric) {
  switch (metric) {
    case Metric::kSquaredL2:
    case Metric::kInnerProduct:
    case Metric::kCosine:
      return true;
  }
  return false;
}

absl::Status CheckIndexes(const CollectionSpec& spec) {
  const std::vector<IndexSpec>& indexes = spec.indexes;
  for (size_t i = 0; i < indexes.size(); ++i) {
    const std::string field = absl::StrCat("collection.indexes[", i, "]");
    absl::Status status = ValidateIndex(indexes[i]);
    if (status.ok() && indexes[i].kind == IndexKind::kFaiss) {
      status = FaissFactory::Parse(indexes[i].factory)
                   ->Check(spec.metric, spec.dimension);
    }
    if (!status.ok()) return InvalidField(field, status.message());
    for (size_t j = 0; j < i; ++j) {
      if (indexes[j].kind != indexes[i].kind) continue;
      return InvalidField(
          field, absl::StrCat(IndexKindName(indexes[i].kind),
                              ": collection.indexes[", j,
                              "] is of this kind already, and a collection has "
                              "at most one of each"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view IndexKindName(IndexKind kind) {
  switch (kind) {
    case IndexKind::kTree:
      return "tree";
    case IndexKind::kLsh:
      return "lsh";
    case IndexKind::kFaiss:
      return "faiss";
  }
  return "?";
}

namespace {

// Written so that NaN fails too.
absl::Status CheckTarget(absl::string_view kind, double target_recall) {
  if (target_recall > 0 && target_recall < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      kind, ".target_recall: ", target_recall, " is not in (0, 1)"));
}

}  // namespace

absl::Status ValidateIndex(const IndexSpec& index) {
  if (index.kind == IndexKind::kTree) {
    return index == IndexSpec{IndexKind::kTree}
               ? absl::OkStatus()
               : absl::InvalidArgumentError("a tree has nothing to set");
  }
  if (index.kind == IndexKind::kFaiss) {
    const auto factory = FaissFactory::Parse(index.factory);
    if (!factory.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("faiss.factory: ", factory.status().message()));
    }
    return CheckTarget("faiss", index.target_recall);
  }
  if (index.kind != IndexKind::kLsh) {
    return absl::InvalidArgumentError(
        absl::StrCat(static_cast<int>(index.kind), " is no kind of index"));
  }
  constexpr int32_t kLeast = IndexSpec::kSketchBytes + IndexSpec::kTableBytes;
  constexpr int32_t kMost =
      IndexSpec::kSketchBytes + IndexSpec::kTableBytes * IndexSpec::kMostTables;
  if (index.bytes_per_row < kLeast || index.bytes_per_row > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("lsh.bytes_per_row: ", index.bytes_per_row, " is not in ",
                     kLeast, "..", kMost));
  }
  return CheckTarget("lsh", index.target_recall);
}

const IndexSpec* CollectionSpec::FindIndex(IndexKind kind) const {
  const auto found = std::find_if(
      indexes.begin(), indexes.end(),
      [kind](const IndexSpec& index) { return index.kind == kind; });
  return found == indexes.end() ? nullptr : &*found;
}

const CollectionSpec* Catalogue::Find(absl::string_view name) const {
  const auto it = std::lower_bound(
      collections.begin(), collections.end(), name,
      [](const CollectionSpec& spec, absl::string_view wanted) {
        return absl::string_view(spec.name) < wanted;
      });
  return it == collections.end() || it->name != name ? nullptr : &*it;
}

absl::Status ValidateCollectionName(absl::string_view name,
                                    const Limits& limits) {
  return CheckName("name", name, limits);
}

absl::Status ValidateCollectionReference(absl::string_view name,
                                         const Limits& limits) {
  return CheckLength("collection", name, limits);
}

absl::Status ValidateCollection(const CollectionSpec& spec,
                                const Limits& limits) {
  absl::Status status = CheckName("collection.name", spec.name, limits);
  if (!status.ok()) return status;
  status = CheckRange("collection.dimension", spec.dimension, "dimension",
                      limits.dimension);
  if (!status.ok()) return status;
  if (!IsMetric(spec.metric)) {
    return InvalidField("collection.metric",
                        absl::StrCat(static_cast<int>(spec.metric),
                                     " is not a metric: use SQUARED_L2, "
                                     "INNER_PRODUCT or COSINE"));
  }
  status = CheckRange("collection.slots", spec.slots, "slots", limits.slots);
  return status.ok() ? CheckIndexes(spec) : status;
}

}  // namespace coterie
