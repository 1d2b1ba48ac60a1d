#include "index/certified_bound.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_rounding.h"
#include "index/certified_slack.h"
#include "index/metric.h"

namespace coterie {
namespace {

constexpr double kHuge = 0x1p90;

constexpr CertifiedCut kKeepAll = {std::numeric_limits<float>::quiet_NaN(), 0,
                                   0};

// Coefficients over the reals, before they are lowered.
struct Line {
  double a = 0;
  double b = 0;
  double k = 0;
};

Line InnerProductLine(const CertifiedSlack& slack, const CertifiedQuery& q,
                      const CertifiedPanel& panel, double threshold) {
  Line line;
  line.a = (-threshold - (q.centre_product + q.centre_product_error)) *
           q.to_units * q.inverse_scale;
  line.k = -(q.norm * (1 + slack.delta) * panel.code_error +
             q.error * panel.code_norm) *
           q.inverse_scale;
  return line;
}

Line DistanceLine(const CertifiedSlack& slack, double canonical,
                  const CertifiedQuery& q, const CertifiedPanel& panel,
                  double threshold) {
  const double t =
      std::max(0.0, (threshold + canonical) * q.to_units * (1 + slack.delta));
  const double root = std::sqrt(t);
  const double w = q.error * (root + q.error + panel.error) + q.gap;
  Line line;
  line.a = (q.norm_square_low - t) * (0.5 * q.inverse_scale);
  line.b = 0.5 * q.inverse_scale;
  line.k = -panel.code_error * std::min(q.norm_high, root + panel.error) *
           q.inverse_scale;
  const double code_term = q.error * panel.code_norm;
  if (w * panel.a < code_term) {
    line.a -= w * q.inverse_scale;
  } else {
    line.k -= code_term * q.inverse_scale;
  }
  return line;
}

// Terms shared by both bounds of INNER_PRODUCT, in units.
struct InnerProductTerms {
  double estimate;  // s_q S ip
  double width;     // |<q, y> - estimate|, rounding included
};

InnerProductTerms TermsOf(const CertifiedSlack& slack, const CertifiedQuery& q,
                          const CertifiedPanel& panel, double scale,
                          double ip) {
  const double estimate = q.scale * scale * ip;
  const double width = scale * (q.norm * (1 + slack.delta) * panel.code_error +
                                q.error * panel.code_norm);
  return {estimate,
          width + slack.delta * (std::fabs(estimate) + std::fabs(width))};
}

// sqrt(D) from D + 2 beta sqrt(D) >= m.
double Root(double beta, double m) {
  if (m <= 0) return 0;
  return m / (beta + std::sqrt(beta * beta + m));
}

}  // namespace

CertifiedCut CutFor(const CertifiedCodes& codes, const CertifiedQuery& query,
                    const CertifiedPanel& panel, double threshold) {
  if (!(threshold < std::numeric_limits<double>::infinity())) return kKeepAll;
  const CertifiedSlack& slack = codes.slack();
  Line line;
  if (codes.metric() == Metric::kInnerProduct) {
    line = InnerProductLine(slack, query, panel, threshold);
  } else {
    const double canonical =
        codes.metric() == Metric::kCosine ? slack.eta : 0.0;
    line = DistanceLine(slack, canonical, query, panel, threshold);
  }
  line.k -= query.floor_loss;
  // Not (>=): NaN keeps all, too.
  if (!(line.a >= -kHuge) || !(line.k >= -kHuge)) return kKeepAll;
  const auto lower = [&slack](double v) {
    return RoundDown(std::min(v - slack.sigma * std::fabs(v), kHuge));
  };
  return {lower(line.a), lower(line.b),
          RoundDown(line.k * (1 + slack.sigma) - 0x1p-60)};
}

double Estimate(const CertifiedCodes& codes, const CertifiedQuery& query,
                const CertifiedScore& score) {
  const double scale = 1 / static_cast<double>(score.a);
  const double product = query.scale * scale * score.ip;
  if (codes.metric() == Metric::kInnerProduct) {
    return -query.centre_product - product * query.from_units;
  }
  return (query.norm_square_low + static_cast<double>(score.b) * scale -
          2 * product) *
         query.from_units;
}

double LowerBound(const CertifiedCodes& codes, const CertifiedQuery& query,
                  const CertifiedPanel& panel, const CertifiedScore& score) {
  const CertifiedSlack& slack = codes.slack();
  const CertifiedQuery& q = query;
  const double scale = 1 / static_cast<double>(score.a);
  const double ip = score.ip + q.floor_loss;
  if (codes.metric() == Metric::kInnerProduct) {
    const InnerProductTerms terms = TermsOf(slack, q, panel, scale, ip);
    return -(q.centre_product + q.centre_product_error) -
           (terms.estimate + terms.width) * q.from_units;
  }
  const double norm_square = static_cast<double>(score.b) * scale;
  const double cross = 2 * q.scale * scale * ip;
  const double row_error = std::min(scale * panel.code_error, panel.error);
  const double row_far = 2 * row_error * q.norm_high;
  const double row_near = 2 * row_error * row_error;
  const double query_far = 2 * q.error * scale * panel.code_norm;
  const double query_near = 2 * (q.error * (q.error + row_error) + q.gap);
  const double slip =
      slack.delta * (q.norm_square_high + norm_square + std::fabs(cross) +
                     row_far + row_near + query_far + query_near);
  const double m = q.norm_square_low + norm_square - cross - slip;
  const double root =
      std::max({Root(0, m - row_far - query_far),
                Root(row_error, m - row_near - query_far),
                Root(q.error, m - row_far - query_near),
                Root(row_error + q.error, m - row_near - query_near)});
  const double bound = root * root * (1 - slack.delta) * q.from_units;
  return codes.metric() == Metric::kCosine ? bound - slack.eta : bound;
}

CertifiedRange::CertifiedRange(const CertifiedCodes& codes,
                               const CertifiedQuery& query)
    : codes_(codes),
      query_(query),
      inner_product_(codes.metric() == Metric::kInnerProduct),
      delta_(codes.slack().delta),
      slack_(4 * codes.norm_slack()),
      slack_square_(slack_ * codes.norm_slack() + 0x1p-100),
      shrink_(query.from_units * (1 - codes.slack().delta)),
      canonical_(codes.metric() == Metric::kCosine ? codes.slack().eta : 0.0) {}

double UpperBound(const CertifiedCodes& codes, const CertifiedQuery& query,
                  const CertifiedPanel& panel, const CertifiedScore& score) {
  const CertifiedSlack& slack = codes.slack();
  const CertifiedQuery& q = query;
  const double scale = 1 / static_cast<double>(score.a);
  const double ip = score.ip;
  if (codes.metric() == Metric::kInnerProduct) {
    const InnerProductTerms terms = TermsOf(slack, q, panel, scale, ip);
    return -q.centre_product + q.centre_product_error -
           (terms.estimate - terms.width) * q.from_units;
  }
  const double norm =
      std::sqrt(static_cast<double>(score.b) * scale) * (1 + 0x1p-22) +
      2 * codes.norm_slack();
  const double norm_square = norm * norm + 0x1p-100;
  const double cross = 2 * q.scale * scale * ip;
  const double width =
      2 * scale * (q.norm_high * panel.code_error + q.error * panel.code_norm);
  const double direct = q.norm_square_high + norm_square - cross + width +
                        slack.delta * (q.norm_square_high + norm_square +
                                       std::fabs(cross) + width);
  const double fitted_square = norm_square * (1 + 0x1p-20);
  const double between =
      std::max(0.0, q.code_square + fitted_square - cross +
                        slack.delta *
                            (q.code_square + fitted_square + std::fabs(cross)));
  const double root = std::sqrt(between) + q.error + panel.error;
  const double bound =
      std::min(direct, root * root * (1 + slack.delta)) * q.from_units;
  return codes.metric() == Metric::kCosine ? bound + slack.eta : bound;
}

}  // namespace coterie
