// Proven bounds on canonical distances from the codes of a row and a query.
//
// Pure functions; any thread. Valid for d <= kMaxDimension, finite rows and
// queries, round-to-nearest, no DAZ or FTZ.
//
// Notation (index/certified_codes.h, index/certified_query.h): y, p the centred
// row and query in units, y^ = S c and p^ = s_q b what their codes say, e_x = y
// - y^, e_q = p - p^, E_x and E_q bounds on their norms, ip = <b, c>, D = |p -
// y|^2, A = |p|^2 + |y|^2 - 2 s_q S ip, t a threshold, G_q >= <e_q, p^>.
//
// Since A = D + 2<p, e_x> + 2<e_q, y^>, each of these holds:
//   <p, e_x>   <= |p| E_x                        (Cauchy-Schwarz)
//   <p, e_x>   <= (sqrt(D) + E_x) E_x            as <y^, e_x> <= 0
//   <e_q, y^>  <= E_q |y^|
//   <e_q, y^>  <= E_q (sqrt(D) + E_q + E_x) + G_q
// so D <= T implies A <= T + 2 E_x min(|p|, sqrt(T) + E_x) + 2 min(E_q |y^|,
// E_q (sqrt(T) + E_q + E_x) + G_q). Over 2 s_q S this compares the integer ip
// with  A' a + B' b + K',  where E_x and |y^| are taken from the panel. INNER
// PRODUCT: <q, x> <= <q, centre> + s_q S ip + |q| E_x + E_q |y^|.
//
// Rounding. |p|, |y| and canonical squared L2 err by less than delta,
// relatively; the terms of P- and T pay for it, as their difference cancels.
// Canonical inner product and cosine err by less than eta |q||x| and eta. The
// kernel's two float32 FMAs (or products and sums) err by at most 3.1 * 2^-24
// of the sum of magnitudes; sigma pays twice. float(ip) >= theta follows from
// ip >= theta for every float theta, as rounding is monotone. Subnormal results
// move theta by less than 2^-90, which 2^-60 in K' covers.

#ifndef COTERIE_INDEX_CERTIFIED_BOUND_H_
#define COTERIE_INDEX_CERTIFIED_BOUND_H_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "index/certified_codes.h"
#include "index/certified_query.h"

namespace coterie {

// A row stays iff not (float(ip) < a * row.a + (b * row.b + k)). NaN in `a`
// keeps every row.
struct CertifiedCut {
  float a = 0;
  float b = 0;
  float k = 0;
};

// Rows of this panel with canonical distance <= threshold stay.
CertifiedCut CutFor(const CertifiedCodes& codes, const CertifiedQuery& query,
                    const CertifiedPanel& panel, double threshold);

// The code of one row, and its score against one query.
struct CertifiedScore {
  float a = 0;
  float b = 0;
  int32_t ip = 0;
};

// Near the canonical distance, without any guarantee.
double Estimate(const CertifiedCodes& codes, const CertifiedQuery& query,
                const CertifiedScore& score);

// <= the canonical distance. For squared L2 and cosine the greatest of the four
// bounds on D that the inequalities above give, each solved for sqrt(D).
double LowerBound(const CertifiedCodes& codes, const CertifiedQuery& query,
                  const CertifiedPanel& panel, const CertifiedScore& score);

// >= the canonical distance. For squared L2 and cosine the lesser of
//   A + 2|p| E_x + 2 E_q |y^|  and  (|p^ - y^| + E_q + E_x)^2,
// with |y^|^2 <= |y|^2 (1 + 2^-20) in the latter: S <= S_LS (1 + 2^-22) and
// S_LS c is a projection of y. That does not hold for a plane's half codes,
// which are never 0: for squared L2 and cosine this REQUIRES an 8-bit code.
// The other bounds here hold for both.
double UpperBound(const CertifiedCodes& codes, const CertifiedQuery& query,
                  const CertifiedPanel& panel, const CertifiedScore& score);

// Both bounds of one query's rows without roots, at a fifth of the cost: A less
// and plus 2|p| E_x + 2 E_q |y^|. Never tighter than LowerBound and UpperBound;
// near them unless rows lie in clusters that are tight for their distance from
// the centre.
class CertifiedRange {
 public:
  struct Bounds {
    double lower = 0;
    double upper = 0;
  };

  // Keeps references to both.
  CertifiedRange(const CertifiedCodes& codes, const CertifiedQuery& query);

  Bounds Of(const CertifiedPanel& panel, const CertifiedScore& score) const {
    if (inner_product_) {
      return {LowerBound(codes_, query_, panel, score),
              UpperBound(codes_, query_, panel, score)};
    }
    return Between(static_cast<double>(score.a), static_cast<double>(score.b),
                   static_cast<double>(score.ip), WidthOf(panel));
  }

  // Several rows side by side, in the shape that compilers turn into vector
  // code: fields and score of each, and WidthOf its panel.
  struct Rows {
    static constexpr size_t kCount = 16;
    double a[kCount];
    double b[kCount];
    double ip[kCount];
    double width[kCount];
  };
  // Their bounds, as Of gives them. REQUIRES: not INNER_PRODUCT; a > 0.
  void OfMany(const Rows& rows, double (&lower)[Rows::kCount],
              double (&upper)[Rows::kCount]) const {
    for (size_t i = 0; i < Rows::kCount; ++i) {
      const Bounds bounds =
          Between(rows.a[i], rows.b[i], rows.ip[i], rows.width[i]);
      lower[i] = bounds.lower;
      upper[i] = bounds.upper;
    }
  }
  // Of rows of this panel, in units of their codes.
  double WidthOf(const CertifiedPanel& panel) const {
    return 2 * (query_.norm_high * panel.code_error +
                query_.error * panel.code_norm);
  }

 private:
  Bounds Between(double a, double b, double ip, double code_width) const {
    const CertifiedQuery& q = query_;
    const double scale = 1 / a;
    const double norm = b * scale;
    const double product = 2 * q.scale * scale;
    const double cross = product * ip;
    const double width = scale * code_width;
    // (sqrt(norm) (1 + 2^-22) + 2 w)^2, as 2 sqrt(norm) <= 1 + norm.
    const double norm_high =
        norm * (1 + 0x1p-20) + slack_ * (1 + norm) + slack_square_;
    const double terms =
        q.norm_square_high + norm_high + std::fabs(cross) + width;
    const double rounding = delta_ * terms;
    // The score may be too small by floor_loss.
    const double below = q.norm_square_low + norm - cross -
                         product * q.floor_loss - width - 2 * rounding -
                         2 * delta_ * product * q.floor_loss;
    const double above =
        q.norm_square_high + norm_high - cross + width + rounding;
    return {below * shrink_ - canonical_, above * q.from_units + canonical_};
  }

  const CertifiedCodes& codes_;
  const CertifiedQuery& query_;
  const bool inner_product_;
  const double delta_;
  double slack_ = 0;         // 4 w
  double slack_square_ = 0;  // 4 w^2 and what keeps it above zero
  double shrink_ = 1;        // from_units, less the rounding of squared L2
  double canonical_ = 0;     // rounding of cosine
};

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_BOUND_H_
