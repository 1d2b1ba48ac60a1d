// The search for the nearest centre again, from 8-bit codes of rows, where a
// row's centre of the step before bounds how far it has to look.
//
// A row's canonical distance to its old centre gives a radius u; a centre whose
// proven lower bound lies strictly above u cannot be nearer, nor tie. Integer
// products of codes (the kernels of the certified scan, index/certified_scan.h)
// give that bound at a quarter of the float32 product's work; what they leave,
// a few centres a row, is decided canonically. So labels are the same bits as
// NearestCentre's.
//
// Proof. In units of 2^g, y = x - o and z_j = c_j - o (COSINE: unit vectors, o
// = 0), coded as y^ = s b and z^_j = t_j e_j with integer b, e_j and measured
// errors E >= |y - y^|, F_j >= |z_j - z^_j|. Then |x - c_j| >= |y^ - z^_j| - E
// - F_j exceeds T >= u whenever |y^|^2 + |z^_j|^2 - 2 s t_j <b, e_j> > (T + E +
// F_j)^2, that is, whenever <b, e_j> is below
//   [|y^|^2 - (T+E)^2] / 2s * 1/t_j + 1/2s * (|z^_j|^2 - F_j^2) / t_j
//     - (T+E) / s * G,      G = max F_j / t_j.
// The kernel compares in float32, with errors below 3.1 * 2^-24 of the sum of
// magnitudes, and fields are rounded to float32; 2^-20 of it pays for both and
// for the double arithmetic before. Cuts too large for float32 become NaN,
// which rules nothing out.

#ifndef COTERIE_TRAINING_CODED_NEAREST_H_
#define COTERIE_TRAINING_CODED_NEAREST_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "index/certified_kernels.h"
#include "index/code_simd.h"
#include "training/code_look_kernels.h"
#include "training/kmeans_rows.h"
#include "training/nearest_centre.h"
#include "training/row_code_kernels.h"

namespace coterie {

// Codes of a shard's rows: d + 24 bytes a row.
class RowCodes {
 public:
  // Chooses what codes are measured from, by some of the rows; no row is coded
  // yet. REQUIRES: at least one row. O(d).
  explicit RowCodes(const KMeansRows& rows);

  // Codes rows [begin, end) of those given before. Disjoint parts may be coded
  // at once; the rest of the class is for any number of threads, and for rows
  // that have been coded. O((end - begin) d).
  void Code(const KMeansRows& rows, int64_t begin, int64_t end);

  // Bytes that codes of n rows take.
  static int64_t MemoryBytes(int64_t n, int64_t d);

  CodeKernel kernel() const { return kernel_; }
  int unit() const { return unit_; }
  const std::vector<float>& offset() const { return offset_; }
  int64_t quads() const { return quads_; }

 private:
  friend class CodedNearest;
  struct Scratch;
  struct Form {
    float scale = 1;    // s
    float error = 0;    // E, rounded up
    float square = 0;   // |y^|^2, to 2^-23
    int32_t start = 0;  // -128 * sum of b
  };
  void FindOffset(const KMeansRows& rows);
  void CodeOne(const KMeansRows& rows, int64_t row, Scratch& scratch);
  void CodeSlowly(const KMeansRows& rows, int64_t row, Scratch& scratch);

  CodeKernel kernel_;
  internal_nearest::CodeRowKernel code_row_;
  int64_t quads_;
  int unit_ = 0;
  std::vector<float> offset_;
  std::vector<float> unit_offset_;  // in units, padded
  std::vector<int32_t> codes_;      // quads a row
  std::vector<Form> forms_;
};

// Centres coded to go with them. Immutable after construction; any number of
// threads may share it, each with a Scratch of its own.
class CodedNearest {
 public:
  class Scratch;

  // Keeps references to the first three. `members`, if not empty: only these
  // centres are looked at, each index once. O(k d).
  CodedNearest(const KMeansRows& rows, const RowCodes& codes,
               const NearestCentre& centres,
               absl::Span<const int32_t> members = {});

  // Centres looked at.
  int64_t size() const { return size_; }

  // found[i] holds an active centre and the canonical distance of row which[i]
  // to it; it becomes the nearest one's, of it and the members. `reach[i]` >= 0
  // is added to the radius: `other`, of the members and the centre given, then
  // says that much more, for that many more candidates. The first centre need
  // not be near: the candidate that codes say is nearest comes first. Returns
  // the number of canonical distances computed.
  int64_t Find(absl::Span<const int64_t> which, absl::Span<const double> reach,
               absl::Span<NearestFound> found, Scratch& scratch) const;

  // The same for rows of which nothing is known: `found` is only written. The
  // nearest by codes so far, and what codes usually miss by, bounds how far to
  // look among the centres that follow; where the canonical distance at the end
  // lies beyond, the row is searched again.
  int64_t FindFirst(absl::Span<const int64_t> which,
                    absl::Span<NearestFound> found, Scratch& scratch) const;

 private:
  static constexpr double kFloatSlack = 0x1p-20;  // of the proof above
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  int64_t member(int64_t position) const {
    return members_[static_cast<size_t>(position)];
  }
  void CodeCentre(int64_t position, double floor, std::vector<double>& z);
  void StartQueries(absl::Span<const int64_t> which, Scratch& scratch) const;
  // Centres whose distance to the row is proven above `radius` are not hit.
  void SetRadius(int64_t row, size_t query, double radius,
                 Scratch& scratch) const;
  // Groups that take so many bytes; at least 1.
  int64_t MostGroups(int64_t bytes) const;
  // Fills scratch.hits_ with the hits of the tile of rows from `query` on.
  int64_t Score(int64_t group, int64_t groups, absl::Span<const int64_t> which,
                size_t query, Scratch& scratch) const;
  void AddCandidate(int64_t group, size_t query,
                    const internal_certified::CodeHit& hit,
                    Scratch& scratch) const;
  void Scan(absl::Span<const int64_t> which, Scratch& scratch) const;
  void ScanFirst(absl::Span<const int64_t> which, Scratch& scratch) const;
  void Tighten(int64_t group, absl::Span<const int64_t> which, size_t query,
               int64_t hits, Scratch& scratch) const;
  int64_t FindAgain(absl::Span<const int64_t> which,
                    absl::Span<NearestFound> found, Scratch& scratch) const;
  void Look(absl::Span<const int64_t> which, size_t query,
            Scratch& scratch) const;
  bool TakeNearer(int64_t position, size_t query, double square,
                  Scratch& scratch) const;
  void GuessRadius(int64_t row, size_t query, Scratch& scratch) const;
  // The codes of the tile's rows, one after the other.
  const int32_t* Queries(absl::Span<const int64_t> tile,
                         Scratch& scratch) const;
  int64_t Resolve(int64_t row, int64_t query, NearestFound& found,
                  Scratch& scratch) const;
  // Of |y^ - z^|, less what roundings may add.
  double SquareAtLeast(const RowCodes::Form& form, int64_t position,
                       int32_t ip) const {
    const size_t p = static_cast<size_t>(position);
    return (form.square + squares_[p]) * (1 - kFloatSlack) -
           2.0 * form.scale * scales_[p] * static_cast<double>(ip);
  }
  double Lower(int64_t row, int64_t position, int32_t ip) const;

  const KMeansRows& rows_;
  const RowCodes& codes_;
  const NearestCentre& centres_;
  const std::vector<int32_t> members_;
  const int64_t size_;
  internal_certified::BatchKernel kernel_;
  internal_nearest::CodeLookKernel look_;  // null: none for this CPU
  int64_t groups_;
  std::vector<Line> lines_;
  std::vector<float> a_;  // 1 / t
  std::vector<float> b_;  // (|z^|^2 - F^2) / t
  std::vector<uint64_t> live_;
  std::vector<double> scales_;   // t
  std::vector<double> errors_;   // F
  std::vector<double> squares_;  // |z^|^2
  // Of the first group, for CodeLook.
  std::vector<float> look_scales_;
  std::vector<float> look_squares_;
  double code_error_ = 0;  // G
  double most_a_ = 0;
  double most_b_ = 0;
  double from_units_ = 1;  // rounded down
  double to_units_ = 1;
};

// Working memory of one thread.
class CodedNearest::Scratch {
 public:
  Scratch() = default;

 private:
  friend class CodedNearest;
  struct Candidate {
    int32_t position;  // of the member
    int32_t ip;
    double lower;  // bound on the radius, when needed
    int32_t next;  // of the same row; -1: none
  };
  std::vector<int32_t> queries_;
  std::vector<int32_t> starts_;
  std::vector<float> cut_a_;
  std::vector<float> cut_b_;
  std::vector<float> cut_k_;
  std::vector<double> radii_;  // T, natural units
  std::vector<internal_certified::CodeHit> hits_;
  std::vector<Candidate> candidates_;
  std::vector<int32_t> first_;  // candidate of each query
  // Of a first search, per query: the least |y^ - z^|^2 so far, and the F that
  // goes with it; 1/s. Rows that were not searched far enough.
  std::vector<double> least_;
  std::vector<double> least_errors_;
  std::vector<float> inverse_scales_;
  std::vector<int64_t> again_;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_CODED_NEAREST_H_
