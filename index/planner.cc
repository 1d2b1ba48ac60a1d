#include "index/planner.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/tree_boxes.h"
#include "index/tree_cells.h"

namespace coterie {
namespace {

// A leaf of boxes costs so much beside its bytes: queue and boxes on the way.
constexpr double kLeafSeconds = 1.5e-7;
constexpr double kLeavesAtNone = 4;
constexpr double kLeavesPerDimension = 1.7;

// What a cell costs beside its codes, in those of a scan: rows in short ranges.
constexpr double kCellFactor = 1.5;
// A search that ends in a scan.
constexpr double kHandOver = 1.05;

constexpr double kMetByLsh = 0.05;  // part of the rows, for 0.9
constexpr double kRowsPerCandidate = 12;
// A row that is read alone costs as much as so many in a scan.
constexpr double kRowsGathered = 24;
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
      return rows * question_.admitted * 4 * d_ * rates_.float_byte;
    }
    // The first query of a batch pays for the reading.
    const double byte =
        rates_.code_byte_batch + (rates_.code_byte - rates_.code_byte_batch) /
                                     static_cast<double>(question_.queries);
    return rows * std::min(1.0, kRowsGathered * question_.admitted) * (d_ + 8) *
           byte;
  }

  double OfTree(const PlanSegment& segment) const {
    return segment.tree->boxes() != nullptr ? Boxes(segment) : Cells(segment);
  }

  double OfLsh(const PlanSegment& segment) const {
    if (question_.target_recall >= 1) return kHandOver * Scan(segment);
    const double met =
        std::min(1.0, kMetByLsh / question_.admitted *
                          std::log1p(-question_.target_recall) / std::log(0.1));
    const auto rows = static_cast<double>(segment.rows);
    return std::min(
               kHandOver * Scan(segment),
               met * kRowsPerCandidate * rows * (d_ + 8) * rates_.code_byte) +
           static_cast<double>(segment.lsh->tables()) * kTableSeconds;
  }

 private:
  double K() const {
    return static_cast<double>(question_.k) / question_.admitted;
  }

  double Boxes(const PlanSegment& segment) const {
    const double k = K();
    const double all = std::ceil(static_cast<double>(segment.rows) /
                                 static_cast<double>(BoxTree::kLeafRows));
    const double leaves =
        std::min(all, kLeavesAtNone * std::pow(kLeavesPerDimension, d_) +
                          k / static_cast<double>(BoxTree::kLeafRows));
    return leaves * (kLeafSeconds + static_cast<double>(BoxTree::kLeafRows) *
                                        4 * d_ * rates_.float_byte);
  }

  double Cells(const PlanSegment& segment) const {
    const CellTree& tree = *segment.tree->cells();
    const double share = question_.target_recall >= 1
                             ? 1
                             : tree.Budget(K(), question_.target_recall);
    if (share >= 1) return kHandOver * Scan(segment);
    const double means =
        static_cast<double>(tree.cells()) * 4 * d_ * rates_.float_byte;
    return means + kCellFactor * share * static_cast<double>(segment.rows) *
                       (d_ + 8) * rates_.code_byte;
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
  return text;
}

Plan ChoosePlan(const PlanQuestion& question,
                absl::Span<const PlanSegment> segments,
                const SearchRates& rates) {
  const Costs costs(question, rates);
  Plan plan;
  double tree = 0;
  double lsh = 0;
  bool any_tree = false;
  bool any_lsh = false;
  for (const PlanSegment& segment : segments) {
    const double scan = costs.Scan(segment);
    plan.scan_seconds += scan;
    tree += segment.tree != nullptr ? costs.OfTree(segment) : scan;
    lsh += segment.lsh != nullptr ? costs.OfLsh(segment) : scan;
    any_tree = any_tree || segment.tree != nullptr;
    any_lsh = any_lsh || segment.lsh != nullptr;
  }
  if (any_tree) plan.tree_seconds = tree;
  if (any_lsh) plan.lsh_seconds = lsh;
  double least = plan.scan_seconds;
  if (plan.tree_seconds < least) {
    least = plan.tree_seconds;
    plan.kind = Plan::Kind::kTree;
  }
  if (plan.lsh_seconds < least) plan.kind = Plan::Kind::kLsh;
  return plan;
}

}  // namespace coterie
