#include "index/certified_plane.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/certified_codes.h"
#include "index/certified_lanes.h"
#include "index/certified_rounding.h"
#include "index/certified_slack.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {

using internal_certified::LaneDot;
using internal_certified::PadToLanes;
using internal_certified::ResidualNorm;

namespace {

// Pays for a few roundings of positive double factors.
constexpr double kUp = 1 + 0x1p-50;

}  // namespace

class CertifiedPlane::Encoder {
 public:
  Encoder(const CertifiedCodes& codes, RowsView rows, CertifiedPlane& plane)
      : codes_(codes),
        rows_(rows),
        plane_(plane),
        padded_(PadToLanes(std::max<int64_t>(rows.d, 1))),
        to_unit_(std::ldexp(1.0, -codes.unit())),
        y_(static_cast<size_t>(padded_)),
        code_(static_cast<size_t>(padded_)) {}

  void Encode(int64_t i) {
    const double extra = Centre(i);
    Halve(i);
    const double norm = std::sqrt(LaneDot(y_.data(), y_.data(), padded_));
    const double squared_code = LaneDot(code_.data(), code_.data(), padded_);
    const double fit = LaneDot(y_.data(), code_.data(), padded_) / squared_code;
    const CertifiedSlack& slack = codes_.slack();
    const double scale = std::max(fit, 4 / static_cast<double>(*codes_.a(i)));
    const float a = RoundDown((1 - slack.delta) / scale);
    double measured = ResidualNorm(y_.data(), code_.data(),
                                   1 / static_cast<double>(a), padded_);
    if (slack.fault == CertifiedFault::kPlaneErrorOfCodes) measured /= 16;
    const double error = slack.row_error * (measured * (1 + slack.delta) +
                                            0x1p-50 * norm + extra);
    const double short_norm =
        std::max(0.0, norm * (1 - slack.delta) - codes_.norm_slack());
    plane_.a_[static_cast<size_t>(i)] = a;
    plane_.b_[static_cast<size_t>(i)] =
        RoundDown(a * (short_norm * short_norm));
    CertifiedPanel& panel =
        plane_.panels_[static_cast<size_t>(i / CertifiedCodes::kPanelRows)];
    panel.code_error = std::max(panel.code_error, error * a * kUp);
    panel.code_norm = std::max(panel.code_norm, std::sqrt(squared_code) * kUp);
    panel.error = std::max(panel.error, error);
    panel.a = std::max(panel.a, static_cast<double>(a));
  }

 private:
  // y_ as the codes have it. Returns the canonical rounding error, in units.
  double Centre(int64_t i) {
    const VectorView x = rows_.row(i);
    const Metric metric = codes_.metric();
    const double square =
        metric == Metric::kSquaredL2 ? 1 : CanonicalSquaredNorm(x);
    const double factor = metric == Metric::kCosine ? 1 / std::sqrt(square) : 1;
    for (size_t j = 0; j < x.size(); ++j) {
      y_[j] = (static_cast<double>(x[j]) * factor -
               static_cast<double>(codes_.centre()[j])) *
              to_unit_;
    }
    if (metric == Metric::kSquaredL2) return 0;
    return codes_.slack().eta * to_unit_ *
           (metric == Metric::kCosine ? 1 : std::sqrt(square));
  }

  // Takes the upper halves of row i's code to code_ and to the plane.
  void Halve(int64_t i) {
    const int64_t block = i / CertifiedCodes::kBlockRows;
    const int64_t in_block = i % CertifiedCodes::kBlockRows * 4;
    const uint8_t* codes =
        codes_.block(block * CertifiedCodes::kBlockRows) + in_block;
    uint8_t* out = plane_.lines_.data()->bytes +
                   block * plane_.lines_a_block_ * 64 + in_block;
    for (int64_t j = 0; j < 4 * codes_.quads(); ++j) {
      const int half = codes[j / 4 * 64 + j % 4] >> 4;
      uint8_t& byte = out[j / 8 * 64 + j % 4];
      byte = static_cast<uint8_t>(j % 8 < 4 ? half : byte | half << 4);
      if (j < rows_.d) code_[static_cast<size_t>(j)] = 2 * half - 15;
    }
  }

  const CertifiedCodes& codes_;
  const RowsView rows_;
  CertifiedPlane& plane_;
  const int64_t padded_;
  const double to_unit_;
  std::vector<double> y_;
  std::vector<double> code_;
};

CertifiedPlane::CertifiedPlane(const CertifiedCodes& codes, RowsView rows)
    : lines_a_block_((codes.quads() + 1) / 2) {
  assert(rows.n == codes.size() && rows.d == codes.dimension());
  constexpr int64_t kGroup = CertifiedCodes::kGroupRows;
  constexpr int64_t kPanel = CertifiedCodes::kPanelRows;
  const int64_t padded = (rows.n + kGroup - 1) / kGroup * kGroup;
  lines_.resize(static_cast<size_t>(padded / CertifiedCodes::kBlockRows *
                                    lines_a_block_));
  a_.resize(static_cast<size_t>(padded));
  b_.resize(a_.size());
  panels_.resize(static_cast<size_t>((rows.n + kPanel - 1) / kPanel));
  Encoder encoder(codes, rows, *this);
  for (int64_t i = 0; i < rows.n; ++i) encoder.Encode(i);
}

int64_t CertifiedPlane::MemoryBytes() const {
  return static_cast<int64_t>(lines_.capacity() * sizeof(Line) +
                              a_.capacity() * sizeof(float) +
                              b_.capacity() * sizeof(float) +
                              panels_.capacity() * sizeof(CertifiedPanel));
}

}  // namespace coterie
