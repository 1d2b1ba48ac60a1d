#include "index/certified_codes.h"

#include <immintrin.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "index/certified_lanes.h"
#include "index/certified_rounding.h"
#include "index/certified_slack.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {

using internal_certified::LaneDot;
using internal_certified::MaxMagnitude;
using internal_certified::PadToLanes;
using internal_certified::ResidualNorm;
using internal_certified::RoundToCodes;

namespace {

constexpr double kMaxScale = 0x1p60;
// Pays for a few roundings of positive double factors.
constexpr double kUp = 1 + 0x1p-50;

constexpr int64_t RoundUpTo(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

// Builds the fields of one CertifiedCodes, row by row.
class CertifiedCodes::Encoder {
 public:
  Encoder(CertifiedCodes& codes, RowsView rows, const Options& options)
      : codes_(codes),
        rows_(rows),
        clip_(options.clip),
        padded_(PadToLanes(std::max<int64_t>(rows.d, 1))),
        centre_(static_cast<size_t>(padded_)),
        y_(static_cast<size_t>(padded_)),
        code_(static_cast<size_t>(padded_)),
        bytes_(static_cast<size_t>(padded_)) {
    if (codes_.metric_ == Metric::kCosine) {
      inverse_norms_.reserve(static_cast<size_t>(rows.n));
      for (int64_t i = 0; i < rows.n; ++i) {
        inverse_norms_.push_back(1 /
                                 std::sqrt(CanonicalSquaredNorm(rows.row(i))));
      }
    }
  }

  void FindCentre(const Options& options) {
    codes_.centre_.resize(static_cast<size_t>(rows_.d));
    if (options.centre.has_value()) {
      assert(static_cast<int64_t>(options.centre->size()) == rows_.d);
      codes_.centre_ = *options.centre;
    } else if (rows_.n > 0) {
      std::vector<double> sum(static_cast<size_t>(rows_.d));
      for (int64_t i = 0; i < rows_.n; ++i) {
        const float* x = rows_.row(i).data();
        const double factor = Factor(i);
        for (int64_t j = 0; j < rows_.d; ++j) {
          sum[static_cast<size_t>(j)] += static_cast<double>(x[j]) * factor;
        }
      }
      for (size_t j = 0; j < sum.size(); ++j) {
        codes_.centre_[j] =
            static_cast<float>(sum[j] / static_cast<double>(rows_.n));
      }
    }
    std::copy(codes_.centre_.begin(), codes_.centre_.end(), centre_.begin());
  }

  void FindUnit() {
    double largest = 0;
    for (int64_t i = 0; i < rows_.n; ++i) {
      Centre(i, 1);
      largest = std::max(largest, MaxMagnitude(y_.data(), padded_));
    }
    codes_.unit_ = largest == 0 ? 0 : std::ilogb(largest);
    to_unit_ = std::ldexp(1.0, -codes_.unit_);
  }

  void EncodeAll() {
    const Metric metric = codes_.metric_;
    const double eta = codes_.slack_.eta;
    if (metric == Metric::kCosine) codes_.norm_slack_ = 0x1p-39 * to_unit_;
    for (int64_t i = 0; i < rows_.n; ++i) {
      // |x| of the canonical rounding error, in units.
      double weight = 0;
      if (metric == Metric::kCosine) weight = to_unit_;
      if (metric == Metric::kInnerProduct) {
        weight = std::sqrt(CanonicalSquaredNorm(rows_.row(i))) * to_unit_;
      }
      Centre(i, to_unit_);
      Encode(i, 0x1p-44 * weight, eta * weight);
    }
    FinishPanels();
  }

 private:
  double Factor(int64_t i) const {
    return inverse_norms_.empty() ? 1 : inverse_norms_[static_cast<size_t>(i)];
  }

  // y_ = (x * factor - centre) * unit.
  void Centre(int64_t i, double unit) {
    const float* x = rows_.row(i).data();
    const double factor = Factor(i);
    const double* centre = centre_.data();
    double* y = y_.data();
    if (codes_.slack_.fault == CertifiedFault::kFloatCentre) {
      for (int64_t j = 0; j < rows_.d; ++j) {
        const float unit_x = static_cast<float>(x[j] * factor);
        y[j] =
            static_cast<float>(unit_x - static_cast<float>(centre[j])) * unit;
      }
      return;
    }
    for (int64_t j = 0; j < rows_.d; ++j) {
      y[j] = (static_cast<double>(x[j]) * factor - centre[j]) * unit;
    }
  }

  void Encode(int64_t i, double floor, double extra) {
    const double largest = MaxMagnitude(y_.data(), padded_);
    const double s = std::max({largest * clip_ / 127, 0x1p-30, floor});
    RoundToCodes(y_.data(), 1 / s, 127, padded_, code_.data());

    const double norm = std::sqrt(LaneDot(y_.data(), y_.data(), padded_));
    const double squared_code = LaneDot(code_.data(), code_.data(), padded_);
    const double fit =
        squared_code == 0
            ? 0
            : LaneDot(y_.data(), code_.data(), padded_) / squared_code;
    const CertifiedSlack& slack = codes_.slack_;
    double scale = std::min(std::max(fit, s / 2), kMaxScale);
    if (slack.fault == CertifiedFault::kUnfittedRows) scale = s;
    const float a = RoundDown((1 - slack.delta) / scale);
    const double error = MeasureError(s, a, norm, extra);
    const double short_norm =
        std::max(0.0, norm * (1 - slack.delta) - codes_.norm_slack_);
    const size_t at = static_cast<size_t>(i);
    codes_.owned_.a[at] = a;
    codes_.owned_.b[at] = RoundDown(a * (short_norm * short_norm));
    Store(i);
    AddToPanel(i, a, error, std::sqrt(squared_code));
  }

  double MeasureError(double s, float a, double norm, double extra) {
    const CertifiedSlack& slack = codes_.slack_;
    const double scale = 1 / static_cast<double>(a);
    if (slack.fault == CertifiedFault::kUnclampedError) {
      std::vector<double> unclamped(code_.size());
      RoundToCodes(y_.data(), 1 / s, 1e6, padded_, unclamped.data());
      return ResidualNorm(y_.data(), unclamped.data(), scale, padded_);
    }
    const double measured =
        ResidualNorm(y_.data(), code_.data(), scale, padded_);
    if (slack.fault == CertifiedFault::kFloatCentre) return measured * 1.0001;
    return slack.row_error *
           (measured * (1 + slack.delta) + 0x1p-50 * norm + extra);
  }

  void Store(int64_t i) {
    for (int64_t j = 0; j < padded_; ++j) {
      bytes_[static_cast<size_t>(j)] = static_cast<uint8_t>(
          static_cast<int>(code_[static_cast<size_t>(j)]) + 128);
    }
    const int64_t block = i / kBlockRows;
    uint8_t* out = codes_.owned_.lines.data()->bytes +
                   block * kBlockRows * 4 * codes_.quads_ + i % kBlockRows * 4;
    for (int64_t quad = 0; quad < codes_.quads_; ++quad) {
      std::memcpy(out + quad * 64, bytes_.data() + quad * 4, 4);
    }
  }

  void AddToPanel(int64_t i, float a, double error, double code_norm) {
    CertifiedPanel& panel =
        codes_.owned_.panels[static_cast<size_t>(i / kPanelRows)];
    const CertifiedFault fault = codes_.slack_.fault;
    const bool first = i % kPanelRows == 0;
    const auto add = [&](double& field, double value) {
      if (fault == CertifiedFault::kPanelMean) {
        const int64_t start = i / kPanelRows * kPanelRows;
        const int64_t count = std::min(kPanelRows, rows_.n - start);
        field += value / static_cast<double>(count);
      } else if (fault == CertifiedFault::kPanelMinimum && !first) {
        field = std::min(field, value);
      } else {
        field = std::max(field, value);
      }
    };
    add(panel.code_error, error * static_cast<double>(a));
    add(panel.code_norm, code_norm);
    add(panel.error, error);
    add(panel.a, static_cast<double>(a));
  }

  void FinishPanels() {
    for (CertifiedPanel& panel : codes_.owned_.panels) {
      panel.code_error *= kUp;
      panel.code_norm *= kUp;
    }
  }

  CertifiedCodes& codes_;
  const RowsView rows_;
  const double clip_;
  const int64_t padded_;
  double to_unit_ = 1;
  std::vector<double> inverse_norms_;  // COSINE only
  std::vector<double> centre_;
  std::vector<double> y_;
  std::vector<double> code_;
  std::vector<uint8_t> bytes_;
};

CertifiedCodes::CertifiedCodes(Metric metric, int64_t n, int64_t d,
                               CertifiedSlack slack)
    : metric_(metric),
      n_(n),
      d_(d),
      quads_(RoundUpTo(d, 4) / 4),
      slack_(slack) {}

int64_t CertifiedCodes::padded_rows() const {
  return RoundUpTo(n_, kGroupRows);
}

int64_t CertifiedCodes::panel_count() const {
  return RoundUpTo(n_, kPanelRows) / kPanelRows;
}

CertifiedCodes::CertifiedCodes(Metric metric, RowsView rows,
                               const Options& options)
    : CertifiedCodes(metric, rows.n, rows.d, options.slack) {
  assert(d_ <= kMaxDimension);
  assert(options.clip >= 1.0 / 16 && options.clip <= 1);
  assert((_mm_getcsr() & 0x8040) == 0);  // DAZ and FTZ
  owned_.lines.resize(static_cast<size_t>(padded_rows() / kBlockRows * quads_));
  owned_.a.resize(static_cast<size_t>(padded_rows()));
  owned_.b.resize(owned_.a.size());
  owned_.panels.resize(static_cast<size_t>(panel_count()));
  // The code of 0: padding, and dimensions beyond d.
  if (!owned_.lines.empty()) {
    std::memset(owned_.lines.data(), 128, owned_.lines.size() * sizeof(Line));
    codes_ = owned_.lines.data()->bytes;
  }
  a_ = owned_.a.data();
  b_ = owned_.b.data();
  panels_ = owned_.panels.data();
  Encoder encoder(*this, rows, options);
  encoder.FindCentre(options);
  encoder.FindUnit();
  encoder.EncodeAll();
}

CertifiedCodes::Parts CertifiedCodes::parts() const {
  const auto padded = static_cast<size_t>(padded_rows());
  Parts parts;
  parts.codes = {codes_, padded * 4 * static_cast<size_t>(quads_)};
  parts.a = {a_, padded};
  parts.b = {b_, padded};
  parts.panels = {panels_, static_cast<size_t>(panel_count())};
  parts.centre = centre_;
  parts.unit = unit_;
  parts.norm_slack = norm_slack_;
  parts.slack = slack_;
  return parts;
}

absl::StatusOr<std::unique_ptr<const CertifiedCodes>> CertifiedCodes::Borrow(
    Metric metric, int64_t n, int64_t d, const Parts& parts) {
  if (n < 0 || d < 1 || d > kMaxDimension) {
    return absl::InvalidArgumentError(
        absl::StrCat("codes of ", n, " rows of dimension ", d));
  }
  std::unique_ptr<CertifiedCodes> codes(
      new CertifiedCodes(metric, n, d, parts.slack));
  const int64_t padded = codes->padded_rows();
  const std::pair<const char*, bool> checks[] = {
      {"codes",
       static_cast<int64_t>(parts.codes.size()) == padded * 4 * codes->quads_},
      {"place of codes",
       reinterpret_cast<uintptr_t>(parts.codes.data()) % sizeof(Line) == 0},
      {"a", static_cast<int64_t>(parts.a.size()) == padded},
      {"b", static_cast<int64_t>(parts.b.size()) == padded},
      {"panels",
       static_cast<int64_t>(parts.panels.size()) == codes->panel_count()},
      {"centre", static_cast<int64_t>(parts.centre.size()) == d},
  };
  for (const auto& [part, fits] : checks) {
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat(
          "codes of ", n, " rows of dimension ", d, ": wrong ", part));
    }
  }
  codes->centre_.assign(parts.centre.begin(), parts.centre.end());
  codes->unit_ = parts.unit;
  codes->norm_slack_ = parts.norm_slack;
  codes->codes_ = parts.codes.data();
  codes->a_ = parts.a.data();
  codes->b_ = parts.b.data();
  codes->panels_ = parts.panels.data();
  return codes;
}

int64_t CertifiedCodes::MemoryBytes() const {
  const Parts all = parts();
  return static_cast<int64_t>(all.codes.size() +
                              (all.a.size() + all.b.size()) * sizeof(float) +
                              all.centre.size() * sizeof(float) +
                              all.panels.size() * sizeof(CertifiedPanel));
}

}  // namespace coterie
