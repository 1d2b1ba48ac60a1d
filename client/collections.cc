#include "client/collections.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/errors.h"
#include "client/printable.h"

namespace coterie {

absl::StatusOr<v1::Metric> ParseMetric(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == "cosine") return v1::COSINE;
  if (lower == "l2" || lower == "squared_l2") return v1::SQUARED_L2;
  if (lower == "ip" || lower == "inner_product") return v1::INNER_PRODUCT;
  return UsageError(absl::StrCat("unknown metric '", Printable(text, 40), "'"),
                    "Use --metric cosine, --metric l2 or --metric ip");
}

std::string MetricName(v1::Metric metric) {
  switch (metric) {
    case v1::COSINE:
      return "cosine";
    case v1::SQUARED_L2:
      return "l2";
    case v1::INNER_PRODUCT:
      return "ip";
    default:
      return "?";
  }
}

absl::StatusOr<v1::IndexSpec> ParseIndex(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  v1::IndexSpec index;
  if (text == "tree") {
    index.mutable_tree();
    return index;
  }
  double recall = 0;
  if (parts.front() == "faiss" && (parts.size() == 2 || parts.size() == 3) &&
      (parts.size() < 3 || absl::SimpleAtod(parts[2], &recall))) {
    // What it may be is for the server to say.
    index.mutable_faiss()->set_factory(parts[1]);
    index.mutable_faiss()->set_target_recall(recall);
    return index;
  }
  int32_t bytes = 0;
  const bool sound = parts.front() == "lsh" && parts.size() <= 3 &&
                     (parts.size() < 2 || absl::SimpleAtoi(parts[1], &bytes)) &&
                     (parts.size() < 3 || absl::SimpleAtod(parts[2], &recall));
  if (!sound) {
    return UsageError(
        absl::StrCat("--index: '", Printable(text, 40), "' is no index"),
        "One of: tree, lsh, lsh:192, lsh:192:0.9, faiss:HNSW32, "
        "faiss:IVF1024,Flat:0.9");
  }
  index.mutable_lsh()->set_bytes_per_row(bytes);
  index.mutable_lsh()->set_target_recall(recall);
  return index;
}

std::string IndexesText(const v1::Collection& collection) {
  std::string text;
  for (const v1::IndexSpec& index : collection.indexes()) {
    if (index.has_tree()) {
      text += ", index tree";
    } else if (index.has_lsh()) {
      absl::StrAppend(&text, ", index lsh:", index.lsh().bytes_per_row(), ":",
                      index.lsh().target_recall());
    } else if (index.has_faiss()) {
      absl::StrAppend(&text, ", index faiss:", index.faiss().factory(), ":",
                      index.faiss().target_recall());
    } else {
      text += ", index ?";
    }
  }
  return text;
}

absl::Status AdviseCreate(absl::Status status, absl::string_view collection,
                          std::optional<int64_t> dimension) {
  if (!absl::IsNotFound(status)) return status;
  const std::string dim =
      dimension.has_value() ? absl::StrCat(*dimension) : "100";
  return WithHint(std::move(status),
                  absl::StrCat("Create it first: coterie create ", collection,
                               " --dim ", dim,
                               " --metric cosine; what there is: coterie "
                               "describe"));
}

absl::StatusOr<v1::CreateCollectionResponse> CreateCollection(
    const Session& session, const v1::Collection& collection) {
  v1::CreateCollectionRequest request;
  *request.mutable_collection() = collection;
  return session.Call(session.stubs().collections,
                      &v1::CollectionService::StubInterface::CreateCollection,
                      request);
}

absl::StatusOr<v1::GetCollectionResponse> GetCollection(
    const Session& session, const std::string& name) {
  v1::GetCollectionRequest request;
  request.set_name(name);
  return session.Call(session.stubs().collections,
                      &v1::CollectionService::StubInterface::GetCollection,
                      request);
}

}  // namespace coterie
