#include "index/certified_query.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "index/certified_codes.h"
#include "index/certified_lanes.h"
#include "index/certified_slack.h"
#include "index/code_simd.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {

using internal_certified::LaneDot;
using internal_certified::MaxMagnitude;
using internal_certified::PadToLanes;
using internal_certified::ResidualNorm;
using internal_certified::RoundToCodes;

CertifiedQueries::CertifiedQueries(const ScanQueries& queries,
                                   const CertifiedCodes& codes,
                                   CodeKernel kernel, Depth depth)
    : queries_(queries),
      codes_(codes),
      kernel_(kernel),
      depth_(depth),
      // The low part then keeps to the limit of the kernel, too.
      low_bits_(QueryCodeLimit(kernel) == 64 ? 7 : 8),
      parts_(depth == Depth::kFine ? 2 : 1),
      quad_stride_(codes.quads()),
      forms_(static_cast<size_t>(queries.size())),
      quads_(static_cast<size_t>(queries.size() * parts_ * quad_stride_)),
      starts_(static_cast<size_t>(queries.size() * parts_)) {
  assert(queries.metric() == codes.metric());
  assert(queries.dimension() == codes.dimension());
  const size_t padded =
      static_cast<size_t>(PadToLanes(std::max<int64_t>(1, codes.dimension())));
  std::vector<double> p(padded);
  std::vector<double> code(padded);
  for (int64_t i = 0; i < queries.size(); ++i) Prepare(i, p, code);
}

void CertifiedQueries::FillUnits(int64_t i, const std::vector<double>& p,
                                 CertifiedQuery& form) {
  const CertifiedSlack& slack = codes_.slack();
  const int g = codes_.unit();
  switch (codes_.metric()) {
    case Metric::kSquaredL2:
      form.to_units = std::ldexp(1.0, -2 * g);
      break;
    case Metric::kCosine:
      form.to_units = std::ldexp(1.0, 1 - 2 * g);
      break;
    case Metric::kInnerProduct: {
      const VectorView q = queries_.query(i);
      const VectorView centre = codes_.centre();
      const double largest =
          MaxMagnitude(p.data(), static_cast<int64_t>(p.size()));
      form.to_units =
          std::ldexp(1.0, -g - (largest == 0 ? 0 : std::ilogb(largest)));
      if (slack.fault != CertifiedFault::kNoCentreProduct) {
        form.centre_product = CanonicalDot(q, centre);
      }
      form.centre_product_error =
          slack.eta *
          std::sqrt(queries_.squared_norm(i) * CanonicalSquaredNorm(centre));
      break;
    }
  }
  form.from_units = 1 / form.to_units;
}

void CertifiedQueries::Prepare(int64_t i, std::vector<double>& p,
                               std::vector<double>& code) {
  const CertifiedSlack& slack = codes_.slack();
  const Metric metric = codes_.metric();
  const int64_t padded = static_cast<int64_t>(p.size());
  CertifiedQuery& form = forms_[static_cast<size_t>(i)];
  const VectorView q = queries_.query(i);

  double unit = std::ldexp(1.0, -codes_.unit());
  const double factor =
      metric == Metric::kCosine ? 1 / std::sqrt(queries_.squared_norm(i)) : 1;
  for (size_t j = 0; j < q.size(); ++j) {
    const double centre =
        metric == Metric::kInnerProduct ? 0 : codes_.centre()[j];
    p[j] = static_cast<double>(q[j]) * factor - centre;
  }
  FillUnits(i, p, form);
  if (metric == Metric::kInnerProduct) unit = form.to_units / unit;
  for (double& v : p) v *= unit;

  // A fine code is an integer over 2^low_bits, exactly.
  const int limit = QueryCodeLimit(kernel_);
  const double steps = depth_ == Depth::kFine ? 1 << low_bits_ : 1;
  const double s0 = std::max(MaxMagnitude(p.data(), padded) / limit, 0x1p-60);
  RoundToCodes(p.data(), steps / s0, limit * steps, padded, code.data());
  for (double& c : code) c /= steps;

  const double code_square = LaneDot(code.data(), code.data(), padded);
  const double overlap = LaneDot(p.data(), code.data(), padded);
  form.scale = code_square == 0 ? s0 : overlap / code_square;
  if (slack.fault == CertifiedFault::kUnfittedQueries) form.scale = s0;
  form.inverse_scale = 1 / form.scale;
  const double norm_square = LaneDot(p.data(), p.data(), padded);
  form.norm = std::sqrt(norm_square);
  form.error = ResidualNorm(p.data(), code.data(), form.scale, padded) *
                   (1 + slack.delta) +
               0x1p-50 * form.norm;
  if (metric == Metric::kCosine) form.error += slack.eta * unit;
  form.error *= slack.query_error;
  // <p - p^, p^> = s_q (<p, b> - s_q <b, b>)
  form.code_square = form.scale * form.scale * code_square;
  form.gap = slack.fault == CertifiedFault::kUnfittedQueries
                 ? 0
                 : std::max(0.0, form.scale * overlap - form.code_square) +
                       0x1p-40 * norm_square;
  const double low =
      std::max(0.0, form.norm * (1 - slack.delta) - codes_.norm_slack());
  form.norm_high = form.norm * (1 + slack.delta) + codes_.norm_slack();
  form.norm_square_low = low * low;
  form.norm_square_high = form.norm_high * form.norm_high;
  form.floor_loss = depth_ == Depth::kFine ? 1 : 0;
  StoreCodes(i, code);
}

void CertifiedQueries::StoreCodes(int64_t i, const std::vector<double>& code) {
  const double half_step =
      depth_ == Depth::kFine ? 0.5 : 0;  // low part in [-1/2, 1/2)
  int32_t* high = quads_.data() + i * parts_ * quad_stride_;
  int32_t sums[2] = {};
  for (int64_t quad = 0; quad < quad_stride_; ++quad) {
    int8_t bytes[2][4] = {};
    for (int64_t j = 0; j < 4; ++j) {
      const double c = code[static_cast<size_t>(quad * 4 + j)];
      const double top = std::floor(c + half_step);
      bytes[0][j] = static_cast<int8_t>(top);
      bytes[1][j] = static_cast<int8_t>((c - top) * (1 << low_bits_));
      sums[0] += bytes[0][j];
      sums[1] += bytes[1][j];
    }
    for (int64_t part = 0; part < parts_; ++part) {
      std::memcpy(high + part * quad_stride_ + quad, bytes[part], 4);
    }
  }
  for (int64_t part = 0; part < parts_; ++part) {
    starts_[static_cast<size_t>(i * parts_ + part)] = -128 * sums[part];
  }
}

}  // namespace coterie
