// 8-bit codes of float32 rows with everything a proven lower bound needs.
//
// Immutable after construction; any number of threads may share it.
//
// A row x is centred, y = (x - centre) / 2^g in double (under COSINE y =
// (x/|x| - centre) / 2^g), and coded as c_j = round(y_j / s), |c_j| <= 127. The
// row's float32 field `a` defines the scale S = 1/a exactly; y^ = S c. The
// error |y - y^| is measured from the stored code, so clamping is counted and
// nothing is assumed of the data. 2^g is the binade of the largest |y_j| of all
// rows: no field over- or underflows for any finite input.
//
// Per row, with delta, eta of index/certified_slack.h:
//   s    max(max|y_j| clip / 127, 2^-30, f); f = 0 for SQUARED_L2, 2^-44 |x|
//   for
//        INNER_PRODUCT, 2^-44 for COSINE (both over 2^g)
//   S_LS <y,c> / <c,c>, the least-squares scale; >= s/2 whenever c != 0
//   a    (1 - delta) / max(S_LS, s/2), rounded down, so S >= S_LS and hence
//        <y^, y - y^> <= 0, which the bound uses
//   err  |y - c/a| (1 + delta) + 2^-50 |y| + extra; extra = 0, eta |x|, eta. A
//        component's residual errs by at most u|y_j| (centring), 3u|y^_j| and
//        u|r_j|, u = 2^-53; sum and root by 2^-39 for d <= 16384.
//   b    a * max(0, |y| (1 - delta) - w)^2, rounded down; w = 0, for COSINE
//        2^-39 / 2^g. Never above |y|^2 / S.
// Per panel of 1024 rows, as doubles rounded up: max err * a, max |c|, max err,
// max a. Rows whose S would exceed 2^60 have c = 0 (as |y_j| < 2), so that S
// may be cut there.
//
// Layout: 16 rows x 4 dimensions in 64 bytes, byte block*16*D + (j/4)*64 +
// (row%16)*4 + j%4 holds c_j + 128, D = d rounded up to 4; rows are padded to a
// multiple of 64 with c = 0.
// Memory: D + 8 bytes a row, of its own or borrowed (Parts): what a caller
// keeps of codes it can use again without computing them.

#ifndef COTERIE_INDEX_CERTIFIED_CODES_H_
#define COTERIE_INDEX_CERTIFIED_CODES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "index/certified_memory.h"
#include "index/certified_slack.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {

// Rounded up, in units of 2^g or of the row's code.
struct CertifiedPanel {
  double code_error = 0;  // max err * a
  double code_norm = 0;   // max |c|
  double error = 0;       // max err
  double a = 0;           // max a
};

class CertifiedCodes {
 public:
  static constexpr int64_t kBlockRows = 16;
  static constexpr int64_t kGroupRows = 64;
  static constexpr int64_t kPanelRows = 1024;

  struct Options {
    // Codes cover clip * max|y_j|; what lies beyond is clamped, and counted in
    // the error. REQUIRES: in [1/16, 1].
    double clip = 1;
    // Any float32 vector of d components is valid; a poor one costs speed only.
    // Default: the mean of the rows (COSINE: of the rows over their norms).
    std::optional<std::vector<float>> centre;
    CertifiedSlack slack;
  };

  // REQUIRES: rows pass ValidateVector(metric, .), d <= kMaxDimension, neither
  // DAZ nor FTZ in this thread. The same bits on every CPU. O(n d).
  CertifiedCodes(Metric metric, RowsView rows, const Options& options);
  CertifiedCodes(Metric metric, RowsView rows)
      : CertifiedCodes(metric, rows, Options()) {}

  CertifiedCodes(CertifiedCodes&&) = default;
  CertifiedCodes(const CertifiedCodes&) = delete;
  CertifiedCodes& operator=(const CertifiedCodes&) = delete;

  // All that codes consist of beside metric, rows and dimension.
  struct Parts {
    // 4 quads bytes a row of whole groups, from a 64-byte boundary on.
    absl::Span<const uint8_t> codes;
    absl::Span<const float> a;  // a row of whole groups; so is b
    absl::Span<const float> b;
    absl::Span<const CertifiedPanel> panels;
    absl::Span<const float> centre;  // d
    int unit = 0;
    double norm_slack = 0;
    CertifiedSlack slack;
  };
  // Valid as long as the codes.
  Parts parts() const;
  // Codes of n rows of d components over the parts of codes made before, which
  // outlive them; only the centre is copied. INVALID_ARGUMENT naming the part
  // if its size or place is not that of such codes. Values are taken as they
  // are: the caller knows that they are what parts() gave. O(d).
  static absl::StatusOr<std::unique_ptr<const CertifiedCodes>> Borrow(
      Metric metric, int64_t n, int64_t d, const Parts& parts);

  Metric metric() const { return metric_; }
  int64_t size() const { return n_; }
  int64_t dimension() const { return d_; }
  // Groups of 4 dimensions.
  int64_t quads() const { return quads_; }
  absl::Span<const float> centre() const { return centre_; }
  // g.
  int unit() const { return unit_; }
  // w.
  double norm_slack() const { return norm_slack_; }
  const CertifiedSlack& slack() const { return slack_; }

  // Codes of the block that starts at `row`, a multiple of kBlockRows.
  const uint8_t* block(int64_t row) const { return codes_ + row * 4 * quads_; }
  // Fields from `row` on, readable to the end of its group.
  const float* a(int64_t row) const { return a_ + row; }
  const float* b(int64_t row) const { return b_ + row; }
  const CertifiedPanel& panel(int64_t i) const { return panels_[i]; }

  // Of codes and fields, wherever they lie.
  int64_t MemoryBytes() const;

 private:
  struct alignas(64) Line {
    uint8_t bytes[64];
  };

  class Encoder;

  template <typename T>
  using Array = std::vector<T, internal_certified::StreamAllocator<T>>;

  // Codes that were computed here. Moving keeps where they lie.
  struct Owned {
    Array<Line> lines;
    Array<float> a;
    Array<float> b;
    std::vector<CertifiedPanel> panels;
  };

  CertifiedCodes(Metric metric, int64_t n, int64_t d, CertifiedSlack slack);
  // Rows with the padding of the last group.
  int64_t padded_rows() const;
  int64_t panel_count() const;

  Metric metric_;
  int64_t n_;
  int64_t d_;
  int64_t quads_;
  CertifiedSlack slack_;
  std::vector<float> centre_;
  int unit_ = 0;
  double norm_slack_ = 0;
  Owned owned_;  // empty if borrowed
  const uint8_t* codes_ = nullptr;
  const float* a_ = nullptr;
  const float* b_ = nullptr;
  const CertifiedPanel* panels_ = nullptr;
};

static_assert(kMaxDimension <= 16384, "the proofs assume d <= 16384");

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_CODES_H_
