#include "shard/job_rows.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <variant>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/point.h"
#include "shard/stored_points.h"

namespace coterie {
namespace {

// The attribute as a number, if it is one.
std::optional<double> NumberOf(const Attributes& attributes,
                               const std::string& name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return std::nullopt;
  if (const auto* whole = std::get_if<int64_t>(&found->second)) {
    return static_cast<double>(*whole);
  }
  if (const auto* real = std::get_if<double>(&found->second)) return *real;
  return std::nullopt;
}

}  // namespace

// Takes in the points of the view one by one.
class JobRows::Walk {
 public:
  Walk(JobRows* rows, const Filter& filter,
       absl::Span<const std::string> attributes)
      : rows_(rows), filter_(filter), attributes_(attributes) {
    for (size_t s = 0; s < rows_->segments_.size(); ++s) {
      const int64_t n = rows_->segments_[s].rows.rows.n;
      rows_->live_.emplace_back(static_cast<size_t>((n + 63) / 64));
      rows_->segments_[s].rows.live = rows_->live_[s].data();
      rows_->segments_[s].values.assign(
          attributes_.size(), std::vector<double>(static_cast<size_t>(n)));
    }
  }

  void Visit(PointId id, const Attributes& attributes) {
    if (!Admits(filter_, id, attributes)) return;
    std::vector<double> values;
    for (const std::string& name : attributes_) {
      const std::optional<double> value = NumberOf(attributes, name);
      if (!value.has_value()) {
        rows_->first_missing_ =
            rows_->missing_ == 0 ? id : std::min(rows_->first_missing_, id);
        ++rows_->missing_;
        return;
      }
      values.push_back(*value);
    }
    const auto& views = rows_->snapshot_->segments();
    for (size_t s = 0; s < views.size(); ++s) {
      const int64_t row = views[s]->Find(id);
      if (row < 0) continue;
      const auto at = static_cast<size_t>(row);
      rows_->live_[s][at / 64] |= uint64_t{1} << (at % 64);
      for (size_t a = 0; a < values.size(); ++a) {
        rows_->segments_[s].values[a][at] = values[a];
      }
      ++rows_->rows_;
      return;
    }
  }

 private:
  JobRows* const rows_;
  const Filter& filter_;
  const absl::Span<const std::string> attributes_;
};

absl::StatusOr<std::unique_ptr<JobRows>> JobRows::Select(
    RecordStore* store, const ReadView& view, const Filter& filter,
    absl::Span<const std::string> attributes, bool skip_missing,
    const CallContext& call) {
  auto rows = absl::WrapUnique(new JobRows());
  rows->snapshot_ = view.rows;
  for (const auto& segment : view.rows->segments()) {
    rows->segments_.push_back({segment->Scannable(), {}});
  }
  if (filter.empty() && attributes.empty()) {
    rows->rows_ = view.rows->rows_live();
    return rows;
  }
  Walk walk(rows.get(), filter, attributes);
  const absl::Status walked = VisitAttributes(
      store, view, call,
      [&walk](PointId id, const Attributes& found) { walk.Visit(id, found); });
  if (!walked.ok()) return walked;
  if (rows->missing_ > 0 && !skip_missing) {
    std::string names;
    for (const std::string& name : attributes) {
      absl::StrAppend(&names, names.empty() ? "'" : ", '", name, "'");
    }
    return absl::FailedPreconditionError(
        absl::StrCat(rows->missing_, " rows, first point ",
                     rows->first_missing_, ", have no number as attribute ",
                     names, "; skip_missing leaves them out"));
  }
  return rows;
}

}  // namespace coterie
