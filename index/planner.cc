#include "index/planner.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/tree_boxes.h"
#include "index/tree_cells.h"

namespace coterie {
namespace {

// A leaf of boxes costs so much beside its bytes: queue and boxes on the way.
constexpr double kLeafSeconds = 1.5e-7;

// What a cell costs beside its codes, in those of a scan: rows in short ranges.
constexpr double kCellFactor = 1.5;
// A search that ends in a scan.
constexpr double kHandOver = 1.05;

constexpr double kTableSeconds = 1e-6;  // to hash a query for one table

// Costs of one segment.
class Costs {
 public:
  Costs(const PlanQuestion& question, const SearchRates& rates)
      : question_(question),
        rates_(rates),
        d_(static_cast<double>(question.dimension)) {}

  double Scan(const PlanSegment& segment) const {
    const auto rows = static_cast<double>(segment.rows);
    if (!segment.coded) {
      return segment.scales.scan * rows * question_.admitted * 4 * d_ *
             rates_.float_byte;
    }
    // The first query of a batch pays for the reading.
    const double alone = segment.scales.scan * rates_.code_byte;
    const double each = std::min(alone, rates_.code_byte_batch);
    const double byte =
        each + (alone - each) / static_cast<double>(question_.queries);
    return rows * std::min(1.0, double{kRowsGathered} * question_.admitted) *
           (d_ + 8) * byte;
  }

  double OfTree(const PlanSegment& segment) const {
    return segment.tree->boxes() != nullptr ? Boxes(segment) : Cells(segment);
  }

  double OfFaiss(const PlanSegment& segment) const {
    const auto effort =
        question_.target_recall < 1 && question_.admitted >= 0.5
            ? segment.faiss->EffortFor(K(), question_.target_recall)
            : std::nullopt;
    if (!effort.has_value()) return kHandOver * Scan(segment);
    return segment.scales.faiss * segment.faiss->Work(*effort) *
           rates_.faiss_component;
  }

  double OfLsh(const PlanSegment& segment) const {
    if (question_.admitted < 0.5) return kHandOver * Scan(segment);
    const double scans = segment.lsh->CostFor(K(), question_.target_recall);
    // What is met is met by each query alone.
    const double alone =
        static_cast<double>(segment.rows) * (d_ + 8) * rates_.code_byte;
    return segment.scales.lsh *
           (scans * alone +
            static_cast<double>(segment.lsh->tables()) * kTableSeconds);
  }

 private:
  double K() const {
    return static_cast<double>(question_.k) / question_.admitted;
  }

  double Boxes(const PlanSegment& segment) const {
    return segment.scales.tree * segment.tree->boxes()->Leaves(K()) *
           (kLeafSeconds + static_cast<double>(BoxTree::kLeafRows) * 4 * d_ *
                               rates_.float_byte);
  }

  double Cells(const PlanSegment& segment) const {
    const CellTree& tree = *segment.tree->cells();
    const double share = question_.target_recall >= 1
                             ? 1
                             : tree.Budget(K(), question_.target_recall);
    if (share >= 1) return kHandOver * Scan(segment);
    const double means =
        static_cast<double>(tree.cells()) * 4 * d_ * rates_.float_byte;
    return segment.scales.tree *
           (means + kCellFactor * share * static_cast<double>(segment.rows) *
                        (d_ + 8) * rates_.code_byte);
  }

  const PlanQuestion& question_;
  const SearchRates& rates_;
  const double d_;
};

}  // namespace

std::string Plan::Reason() const {
  std::string text =
      absl::StrFormat("predicted a query: scan %.3g ms", 1e3 * scan_seconds);
  if (std::isfinite(tree_seconds)) {
    absl::StrAppendFormat(&text, ", tree %.3g ms", 1e3 * tree_seconds);
  }
  if (std::isfinite(lsh_seconds)) {
    absl::StrAppendFormat(&text, ", lsh %.3g ms", 1e3 * lsh_seconds);
  }
  if (std::isfinite(faiss_seconds)) {
    absl::StrAppendFormat(&text, ", faiss %.3g ms", 1e3 * faiss_seconds);
  }
  return text;
}

Plan ChoosePlan(const PlanQuestion& question,
                absl::Span<const PlanSegment> segments,
                const SearchRates& rates) {
  const Costs costs(question, rates);
  Plan plan;
  double tree = 0;
  double lsh = 0;
  double faiss = 0;
  bool any_tree = false;
  bool any_lsh = false;
  bool any_faiss = false;
  for (const PlanSegment& segment : segments) {
    const double scan = costs.Scan(segment);
    plan.scan_seconds += scan;
    tree += segment.tree != nullptr ? costs.OfTree(segment) : scan;
    lsh += segment.lsh != nullptr ? costs.OfLsh(segment) : scan;
    faiss += segment.faiss != nullptr ? costs.OfFaiss(segment) : scan;
    any_tree = any_tree || segment.tree != nullptr;
    any_lsh = any_lsh || segment.lsh != nullptr;
    any_faiss = any_faiss || segment.faiss != nullptr;
  }
  if (any_tree) plan.tree_seconds = tree;
  if (any_lsh) plan.lsh_seconds = lsh;
  if (any_faiss) plan.faiss_seconds = faiss;
  double least = plan.scan_seconds;
  for (const auto& [seconds, kind] :
       {std::pair(plan.tree_seconds, Plan::Kind::kTree),
        std::pair(plan.lsh_seconds, Plan::Kind::kLsh),
        std::pair(plan.faiss_seconds, Plan::Kind::kFaiss)}) {
    if (seconds >= least) continue;
    least = seconds;
    plan.kind = kind;
  }
  return plan;
}

}  // namespace coterie
