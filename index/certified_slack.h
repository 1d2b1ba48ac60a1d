// What the bounds of the certified scan add for rounding. Immutable values;
// any thread. Only tests use other values than these: each shows that a slack
// is needed, and that the tests would notice its loss.

#ifndef COTERIE_INDEX_CERTIFIED_SLACK_H_
#define COTERIE_INDEX_CERTIFIED_SLACK_H_

namespace coterie {

// A mistake to make on purpose.
enum class CertifiedFault {
  kNone = 0,
  kFloatCentre,        // centre in float32, errors times 1.0001
  kUnclampedError,     // row error measured before codes are clamped
  kPanelMinimum,       // panels keep minima
  kPanelMean,          // panels keep means
  kUnfittedRows,       // row scale max|y| / 127, no least squares
  kUnfittedQueries,    // query scale max|p| / 127 and no gap
  kNoCentreProduct,    // leave out <q, centre>
  kPruneTies,          // prune at bound >= threshold
  kCountTwice,         // a re-scored row counts as bound and as distance
  kPlaneErrorOfCodes,  // a plane with errors a sixteenth, as its codes have
  kDeadRowsTestified,  // rows that are not live lower the threshold
  kNoHeadError,        // a head takes what it computes for exact
  kNoHeadFactor,       // a head takes its directions for a contraction
  kNoHeadRest,         // a head's upper bounds leave out what it does not keep
  kHeadRestInFloat     // and it subtracts squares in float32
};

struct CertifiedSlack {
  // Relative: double arithmetic, norms, the canonical rounding of squared L2.
  double delta = 0x1p-36;
  // Canonical rounding of inner product (relative to |q||x|) and of cosine
  // (absolute), and of computed unit vectors.
  double eta = 0x1p-40;
  // Relative: float32 arithmetic of the test in the kernels, 8 * 2^-24.
  double sigma = 0x1p-21;
  // Factors on the measured errors of coding.
  double row_error = 1;
  double query_error = 1;
  CertifiedFault fault = CertifiedFault::kNone;
};

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_SLACK_H_
