// A principal head: few numbers a row that bound distances from below, for a
// first look at rows of many dimensions at a tenth of the memory traffic.
//
// Immutable after construction; any number of threads may share it. SQUARED_L2
// and COSINE.
//
// Let y = x - c (COSINE: x/|x| - c) for the centre c, P a matrix of m
// directions, k a number with |k P| <= 1 as an operator. Then I - k^2 P^T P is
// positive semidefinite and has a root B, |B y|^2 = |y|^2 - |k P y|^2, and
//   z(y) = (k P y, |B y|)
// brings nothing farther apart:
//   |z(y) - z(w)|^2 = |k P (y - w)|^2 + (|B y| - |B w|)^2
//                  <= |k P (y - w)|^2 + |B (y - w)|^2 = |y - w|^2,
//   |y - w|^2      <= |z(y) - z(w)|^2 + 4 |B y||B w|,
// as ||B y| - |B w|| <= |B (y - w)| <= |B y| + |B w|. P needs not be
// orthonormal, nor near the principal directions: a poor one costs speed only.
// The head is the 8-bit codes (index/certified_codes.h) of z~, which is z as it
// is computed, in float32, and for each panel the most that z~ is off by.
//
// Rounding, u = 2^-53, for m <= 1024, d <= 16384. Let s = |x| f + |c|, f = 1 or
// 1/|x|, which is computed to 2^-41.
//   k    (1 - 2^-40) / sqrt(largest sum of |entries| in a row of P P^T), which
//        is above |P|^2; entries err by less than 2^-41 |P_i||P_j|, added.
//   k P y = k (f P x - P c), each product canonical, off by less than 2^-42 of
//        the norms; with |k P_i| <= 1 a component errs by less than 2^-40 s,
//        the vector by e_h = sqrt(m) 2^-40 s.
//   |B y| R = sqrt(max(0, |y|^2 - |k P y|^2)). |y|^2, in double from the
//        components, errs by less than 2^-38 s^2 (2 u s for y, 2^-41 for f,
//        2^-41 for the sum), |k P y|^2 by less than 2.01 s e_h: together by E
//        = sqrt(m) 2^-37 s^2 at most. So R errs by at most min(sqrt(E), E / R):
//        |sqrt(a) - sqrt(b)| = |a - b| / (sqrt(a) + sqrt(b)) <= sqrt(|a - b|).
//   z~   rounding to float32 is measured, in double.
// Their sum, (1 + delta) times, is the error of a row or query; |y| in the
// bounds is the norm of the difference of exact vectors. What the canonical
// distance errs by is paid by delta (L2) and eta (COSINE), as in
// index/certified_bound.h. So with e = e_q + e_panel
//   D~ <= t  implies  D~(z~_q, z~_x) <= (sqrt(T) + e)^2 (1 + delta)^2,
// T = t (1 + delta), COSINE 2 (t + eta) (1 + delta), and the other bounds
// likewise. A query too far out for float32 has e_q = infinity: it rules
// nothing out.
//
// Memory: that of codes of m + 1 dimensions, 4 bytes a row, 4 d m bytes.

#ifndef COTERIE_INDEX_CERTIFIED_HEAD_H_
#define COTERIE_INDEX_CERTIFIED_HEAD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_slack.h"
#include "index/code_simd.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {

class CertifiedHead {
 public:
  static constexpr int64_t kMostDirections = 1024;
  // Rows must not have larger components.
  static constexpr float kMostMagnitude = 0x1p90F;

  // Of any finite directions, each of d components, row after row.
  // REQUIRES: not INNER_PRODUCT; rows pass ValidateVector(metric, .), have no
  // component above kMostMagnitude; 1 to kMostDirections directions; neither
  // DAZ nor FTZ. The same bits on every CPU. O(n d m) time; beside the head 4
  // (m + 1) bytes a row.
  CertifiedHead(Metric metric, RowsView rows, std::vector<float> directions,
                const CertifiedSlack& slack = CertifiedSlack());
  CertifiedHead(const CertifiedHead&) = delete;
  CertifiedHead& operator=(const CertifiedHead&) = delete;

  // Of the leading principal directions, as many as a sample says are best; or
  // null, if reading the head and re-scoring what it leaves would not take less
  // than `share` of reading `bytes_a_row` of each row. Null for INNER_PRODUCT,
  // for rows out of range and for too few of them to judge by.
  static std::unique_ptr<const CertifiedHead> MakeIfPays(Metric metric,
                                                         RowsView rows,
                                                         double bytes_a_row,
                                                         double share);

  Metric metric() const { return metric_; }
  int64_t directions() const {
    return static_cast<int64_t>(centre_products_.size());
  }
  // Of z~, under SQUARED_L2.
  const CertifiedCodes& codes() const { return *codes_; }
  // What z~ of a row of panel i errs by, at most.
  double panel_error(int64_t i) const {
    return panel_errors_[static_cast<size_t>(i)];
  }
  // >= |B y| of the row.
  float rest(int64_t row) const { return rests_[static_cast<size_t>(row)]; }

  int64_t MemoryBytes() const;

  // z~ of a vector, and what is known of it.
  struct Projection {
    std::vector<float> z;  // m + 1
    double error = 0;      // |z~ - z| at most
    double rest = 0;       // >= |B y|
  };
  void Project(VectorView x, Projection& projection) const;

 private:
  void FindFactor();

  const Metric metric_;
  const CertifiedSlack slack_;
  const int64_t d_;
  std::vector<float> directions_;
  std::vector<float> centre_;
  double centre_norm_ = 0;
  std::vector<double> centre_products_;  // of each direction with the centre
  double factor_ = 1;                    // k
  std::vector<float> rests_;
  std::vector<double> panel_errors_;
  std::unique_ptr<const CertifiedCodes> codes_;
};

// One query against a head. Immutable; any thread.
class CertifiedHeadQuery {
 public:
  // Of query number `query`. Keeps a reference to the head. REQUIRES: metric
  // and dimension agree; the CPU has `kernel`. O(d m).
  CertifiedHeadQuery(const ScanQueries& queries, int64_t query,
                     const CertifiedHead& head,
                     CodeKernel kernel = ActiveCodeKernel());
  CertifiedHeadQuery(const CertifiedHeadQuery&) = delete;
  CertifiedHeadQuery& operator=(const CertifiedHeadQuery&) = delete;

  const CertifiedHead& head() const { return head_; }
  // Its one query is z~, fine.
  const CertifiedQueries& coded() const { return coded_; }

  // A row of this panel whose canonical distance is <= `threshold` has z~ no
  // farther, canonically, than this.
  double ThresholdFor(int64_t panel, double threshold) const;
  // <= the canonical distance of a row of this panel whose z~ is at least
  // `lower` away, canonically.
  double Lower(int64_t panel, double lower) const;
  // >= that of a row whose z~ is at most `upper` away.
  double Upper(int64_t row, double upper) const;

 private:
  double ErrorOf(int64_t panel) const {
    return projection_.error + head_.panel_error(panel);
  }

  const CertifiedHead& head_;
  const CertifiedSlack slack_;
  CertifiedHead::Projection projection_;
  const ScanQueries scan_;  // z~ alone
  const CertifiedQueries coded_;
};

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_HEAD_H_
