// FaissIndex::parts and FromParts.

#include <faiss/IndexFlat.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVF.h>
#include <faiss/IndexIVFPQ.h>
#include <faiss/IndexPreTransform.h>
#include <faiss/IndexScalarQuantizer.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "index/distance.h"
#include "index/faiss_guard.h"
#include "index/faiss_index.h"
#include "index/faiss_inner.h"

namespace coterie {
namespace {

using internal_faiss::GraphOf;
using internal_faiss::Guarded;
using internal_faiss::ListsOf;
using internal_faiss::TurnOf;

constexpr size_t kMeasuredFloats = sizeof(FaissIndex::Measured) / sizeof(float);

bool Never() { return false; }

// What codes of the index are made by; null: nothing is.
std::vector<float>* CodeOf(faiss::Index& index) {
  if (faiss::IndexIVF* const lists = ListsOf(index)) {
    if (auto* const product = dynamic_cast<faiss::IndexIVFPQ*>(lists)) {
      return &product->pq.centroids;
    }
    auto* const scalar = dynamic_cast<faiss::IndexIVFScalarQuantizer*>(lists);
    return scalar != nullptr ? &scalar->sq.trained : nullptr;
  }
  auto* const scalar =
      dynamic_cast<faiss::IndexScalarQuantizer*>(GraphOf(index)->storage);
  return scalar != nullptr ? &scalar->sq.trained : nullptr;
}

// How many floats that is.
size_t CodeFloats(const FaissFactory& factory, int64_t d) {
  const auto turned = static_cast<size_t>(factory.dimension(d));
  switch (factory.code) {
    case FaissFactory::Code::kFloat:
    case FaissFactory::Code::kHalf:
      return 0;
    case FaissFactory::Code::kProduct:
      return turned << factory.bits;
    default:
      return 2 * turned;  // least and range of each component
  }
}

void ExportLists(const faiss::IndexIVF& lists, FaissIndex::Parts* parts) {
  const auto& means = dynamic_cast<const faiss::IndexFlat&>(*lists.quantizer);
  parts->means.assign(means.get_xb(), means.get_xb() + means.ntotal * means.d);
  const faiss::InvertedLists& stored = *lists.invlists;
  for (size_t i = 0; i < lists.nlist; ++i) {
    parts->links.push_back(static_cast<int32_t>(stored.list_size(i)));
  }
  for (size_t i = 0; i < lists.nlist; ++i) {
    const size_t size = stored.list_size(i);
    const faiss::Index::idx_t* const labels = stored.get_ids(i);
    for (size_t j = 0; j < size; ++j) {
      parts->links.push_back(static_cast<int32_t>(labels[j]));
    }
    const uint8_t* const codes = stored.get_codes(i);
    parts->data.insert(parts->data.end(), codes,
                       codes + size * lists.code_size);
  }
}

void ExportGraph(const faiss::IndexHNSW& graph, FaissIndex::Parts* parts) {
  parts->data =
      dynamic_cast<const faiss::IndexFlatCodes&>(*graph.storage).codes;
  const faiss::HNSW& hnsw = graph.hnsw;
  parts->links.assign(hnsw.levels.begin(), hnsw.levels.end());
  parts->links.insert(parts->links.end(), hnsw.neighbors.begin(),
                      hnsw.neighbors.end());
  parts->links.push_back(hnsw.entry_point);
}

// Puts parts into an index that is made and empty.
class Importer {
 public:
  Importer(const FaissIndex::Parts& parts, const FaissFactory& factory,
           faiss::Index* index)
      : parts_(parts), factory_(factory), index_(*index) {}

  bool Run() {
    if (!ImportTurn() || !ImportCode()) return false;
    const auto bytes = static_cast<uint64_t>(factory_.code_bytes(parts_.d)) *
                       static_cast<uint64_t>(parts_.n);
    if (parts_.data.size() != bytes) return false;
    const bool fits = factory_.graph() ? ImportGraph() : ImportLists();
    if (!fits) return false;
    for (faiss::Index* index : {&index_, internal_faiss::InnerOf(index_)}) {
      index->is_trained = true;
      index->ntotal = parts_.n;
    }
    return true;
  }

 private:
  bool ImportTurn() {
    faiss::LinearTransform* const turn = TurnOf(index_);
    if (turn == nullptr) return parts_.turn.empty();
    const bool pca = factory_.turn == FaissFactory::Turn::kPca ||
                     factory_.turn == FaissFactory::Turn::kPcaTurned;
    const auto out = static_cast<size_t>(turn->d_out);
    const size_t matrix = out * static_cast<size_t>(turn->d_in);
    if (parts_.turn.size() != matrix + (pca ? out : 0)) return false;
    const auto middle =
        parts_.turn.begin() + static_cast<std::ptrdiff_t>(matrix);
    turn->A.assign(parts_.turn.begin(), middle);
    turn->b.assign(middle, parts_.turn.end());
    turn->have_bias = pca;
    turn->is_trained = true;
    return true;
  }

  bool ImportCode() {
    if (parts_.code.size() != CodeFloats(factory_, parts_.d)) return false;
    std::vector<float>* const code = CodeOf(index_);
    if (code != nullptr) *code = parts_.code;
    return true;
  }

  bool ImportLists() {
    faiss::IndexIVF& lists = *ListsOf(index_);
    const size_t count = lists.nlist;
    const auto n = static_cast<size_t>(parts_.n);
    if (parts_.means.size() != count * static_cast<size_t>(lists.d) ||
        parts_.links.size() != count + n) {
      return false;
    }
    std::vector<bool> seen(n);
    size_t at = 0;
    for (size_t i = 0; i < count; ++i) {
      const int32_t size = parts_.links[i];
      if (size < 0 || static_cast<size_t>(size) > n - at) return false;
      std::vector<faiss::Index::idx_t> labels;
      for (int32_t j = 0; j < size; ++j) {
        const int32_t label = parts_.links[count + at + static_cast<size_t>(j)];
        if (label < 0 || label >= parts_.n ||
            seen[static_cast<size_t>(label)]) {
          return false;
        }
        seen[static_cast<size_t>(label)] = true;
        labels.push_back(label);
      }
      lists.invlists->add_entries(i, labels.size(), labels.data(),
                                  parts_.data.data() + at * lists.code_size);
      at += labels.size();
    }
    if (at != n) return false;
    lists.quantizer->add(static_cast<faiss::Index::idx_t>(count),
                         parts_.means.data());
    if (auto* const product = dynamic_cast<faiss::IndexIVFPQ*>(&lists)) {
      product->precompute_table();
    }
    return true;
  }

  bool ImportGraph() {
    faiss::IndexHNSW& graph = *GraphOf(index_);
    faiss::HNSW& hnsw = graph.hnsw;
    const auto n = static_cast<size_t>(parts_.n);
    if (!parts_.means.empty() || parts_.links.size() < n + 1) return false;
    const auto middle = parts_.links.begin() + static_cast<std::ptrdiff_t>(n);
    hnsw.levels.assign(parts_.links.begin(), middle);
    hnsw.neighbors.assign(middle, parts_.links.end() - 1);
    hnsw.entry_point = parts_.links.back();
    const auto highest =
        static_cast<int32_t>(hnsw.cum_nneighbor_per_level.size()) - 1;
    hnsw.offsets.assign(1, 0);
    for (const int32_t levels : hnsw.levels) {
      if (levels < 1 || levels > highest) return false;
      hnsw.offsets.push_back(
          hnsw.offsets.back() +
          static_cast<size_t>(hnsw.cum_nb_neighbors(levels)));
    }
    if (hnsw.neighbors.size() != hnsw.offsets.back() || !LinksFit(hnsw)) {
      return false;
    }
    auto& storage = dynamic_cast<faiss::IndexFlatCodes&>(*graph.storage);
    storage.codes = parts_.data;
    storage.ntotal = parts_.n;
    storage.is_trained = true;
    return true;
  }

  // Every link of a level leads to a row that has this level, and the search
  // starts on the highest.
  static bool LinksFit(faiss::HNSW& hnsw) {
    const auto n = static_cast<int32_t>(hnsw.levels.size());
    if (n == 0) {
      hnsw.max_level = -1;
      return hnsw.entry_point == -1;
    }
    if (hnsw.entry_point < 0 || hnsw.entry_point >= n) return false;
    hnsw.max_level = hnsw.levels[static_cast<size_t>(hnsw.entry_point)] - 1;
    for (int32_t row = 0; row < n; ++row) {
      const int32_t levels = hnsw.levels[static_cast<size_t>(row)];
      if (levels - 1 > hnsw.max_level) return false;
      for (int32_t level = 0; level < levels; ++level) {
        size_t begin = 0;
        size_t end = 0;
        hnsw.neighbor_range(row, level, &begin, &end);
        for (size_t i = begin; i < end; ++i) {
          const int32_t to = hnsw.neighbors[i];
          if (to < -1 || to >= n ||
              (to >= 0 && hnsw.levels[static_cast<size_t>(to)] <= level)) {
            return false;
          }
        }
      }
    }
    return true;
  }

  const FaissIndex::Parts& parts_;
  const FaissFactory& factory_;
  faiss::Index& index_;
};

}  // namespace

absl::StatusOr<FaissIndex::Parts> FaissIndex::parts() const {
  Parts parts;
  parts.metric = metric_;
  parts.n = n_;
  parts.d = d_;
  parts.shift = shift_;
  parts.factory = factory_.Text();
  parts.measured.resize(measured_.size() * kMeasuredFloats);
  if (!measured_.empty()) {
    std::memcpy(parts.measured.data(), measured_.data(),
                parts.measured.size() * sizeof(float));
  }
  const absl::Status status = Guarded(absl::StatusCode::kInternal, Never, [&] {
    if (const faiss::LinearTransform* const turn = TurnOf(*index_)) {
      parts.turn = turn->A;
      parts.turn.insert(parts.turn.end(), turn->b.begin(), turn->b.end());
    }
    if (std::vector<float>* const code = CodeOf(*index_)) {
      parts.code = *code;
    }
    if (const faiss::IndexIVF* const lists = ListsOf(*index_)) {
      ExportLists(*lists, &parts);
    } else {
      ExportGraph(*GraphOf(*index_), &parts);
    }
  });
  if (!status.ok()) return status;
  return parts;
}

absl::StatusOr<FaissIndex> FaissIndex::FromParts(const Parts& parts) {
  const auto unfit = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("FAISS index: ", what));
  };
  if (parts.n < 1 || parts.n >= int64_t{1} << 31 || parts.d < 1 ||
      parts.d > kMaxDimension) {
    return unfit("rows or dimension are out of range");
  }
  const auto factory = FaissFactory::Parse(parts.factory);
  if (!factory.ok()) return factory.status();
  const absl::Status check = factory->Check(parts.metric, parts.d);
  if (!check.ok()) return check;
  // Nothing is made that is larger than what fills it.
  if (factory->Text() != parts.factory ||
      !(factory->For(parts.n) == *factory)) {
    return unfit("its factory string is not of so many rows");
  }
  if (parts.shift < kLeastShift || parts.shift > kMostShift) {
    return unfit("its scale is of no floats");
  }
  if (parts.measured.size() % kMeasuredFloats != 0 ||
      !std::all_of(parts.measured.begin(), parts.measured.end(),
                   [](float x) { return x >= -1 && x <= 1e6F; })) {
    return unfit("what was measured is none of its numbers");
  }
  FaissIndex index(parts.metric, parts.n, parts.d, *factory);
  index.shift_ = parts.shift;
  bool fits = false;
  const absl::Status status =
      Guarded(absl::StatusCode::kInvalidArgument, Never, [&] {
        index.Make();
        fits = Importer(parts, *factory, index.index_.get()).Run();
      });
  if (!status.ok()) return status;
  if (!fits) return unfit("its arrays do not fit together");
  index.measured_.resize(parts.measured.size() / kMeasuredFloats);
  if (!parts.measured.empty()) {
    std::memcpy(static_cast<void*>(index.measured_.data()),
                parts.measured.data(), parts.measured.size() * sizeof(float));
  }
  return index;
}

}  // namespace coterie
