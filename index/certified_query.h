// Queries made ready to be scored against the codes of one segment.
//
// Immutable after construction; any number of threads may share it.
//
// p = (q - centre) / 2^g in double (COSINE: q/|q|; INNER_PRODUCT: q itself,
// over its own binade 2^e), coded as p^ = s_q b with s_q the least-squares
// scale. A coarse code has one signed byte a dimension, |b_j| <= the limit of
// the kernel. A fine code, for a single query, which waits for memory anyway,
// has two: b = high + low / 2^low_bits; kernels score both and floor the low
// part, so the score is less than 1 too small.

#ifndef COTERIE_INDEX_CERTIFIED_QUERY_H_
#define COTERIE_INDEX_CERTIFIED_QUERY_H_

#include <cstdint>
#include <vector>

#include "index/certified_codes.h"
#include "index/code_simd.h"
#include "index/exact_scan.h"
#include "index/vectors.h"

namespace coterie {

// What a bound needs to know of a query; p, p^, s_q as above.
struct CertifiedQuery {
  double scale = 1;             // s_q
  double inverse_scale = 1;     // 1 / s_q
  double error = 0;             // >= |p - p^|; COSINE: of the true unit vector
  double norm = 0;              // |p|
  double norm_square_low = 0;   // <= |p|^2
  double norm_square_high = 0;  // >= |p|^2
  double norm_high = 0;         // >= |p|
  double gap = 0;               // >= <p - p^, p^>, >= 0
  double code_square = 0;       // |p^|^2
  double floor_loss = 0;        // the score is at most this much too small
  double to_units = 1;    // from distances to units of the codes, a power of 2
  double from_units = 1;  // 1 / to_units
  double centre_product = 0;        // INNER_PRODUCT: <q, centre>
  double centre_product_error = 0;  // and its error
};

class CertifiedQueries {
 public:
  enum class Depth { kCoarse, kFine };

  // Keeps references to both: they must outlive this object.
  // REQUIRES: metric and dimension of queries and codes agree; the CPU has
  // `kernel`. O(n d).
  CertifiedQueries(const ScanQueries& queries, const CertifiedCodes& codes,
                   CodeKernel kernel, Depth depth);
  CertifiedQueries(const ScanQueries& queries, const CertifiedCodes& codes)
      : CertifiedQueries(queries, codes, ActiveCodeKernel(),
                         queries.size() == 1 ? Depth::kFine : Depth::kCoarse) {}

  int64_t size() const { return queries_.size(); }
  const ScanQueries& queries() const { return queries_; }
  const CertifiedCodes& codes() const { return codes_; }
  CodeKernel kernel() const { return kernel_; }
  Depth depth() const { return depth_; }
  int low_bits() const { return low_bits_; }

  const CertifiedQuery& query(int64_t i) const {
    return forms_[static_cast<size_t>(i)];
  }
  // Codes of query i, four to an integer, in quads() integers; a fine code has
  // its low part at quads(i) + quad_stride().
  const int32_t* quads(int64_t i) const {
    return quads_.data() + i * quad_stride_ * parts_;
  }
  int64_t quad_stride() const { return quad_stride_; }
  // -128 * (sum of codes) for each part of query i: where scores start, as the
  // codes of rows are stored with 128 added.
  const int32_t* starts(int64_t i) const { return starts_.data() + i * parts_; }

 private:
  void Prepare(int64_t i, std::vector<double>& p, std::vector<double>& code);
  void FillUnits(int64_t i, const std::vector<double>& p, CertifiedQuery& form);
  void StoreCodes(int64_t i, const std::vector<double>& code);

  const ScanQueries& queries_;
  const CertifiedCodes& codes_;
  const CodeKernel kernel_;
  const Depth depth_;
  const int low_bits_;
  const int64_t parts_;
  const int64_t quad_stride_;
  std::vector<CertifiedQuery> forms_;
  std::vector<int32_t> quads_;
  std::vector<int32_t> starts_;
};

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_QUERY_H_
