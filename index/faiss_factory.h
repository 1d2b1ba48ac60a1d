// What of FAISS's factory strings an index may be: read without FAISS, so that
// a string is judged before there are rows.
//
//   [TURN,]HNSW<links>[,CODE]    a graph (Malkov, Yashunin, TPAMI 2018)
//   [TURN,]IVF<lists>,CODE       lists by nearest mean (Sivic, Zisserman 2003)
//   TURN   PCA<d>, PCAR<d>, RR<d>, OPQ<parts>[_<d>]
//   CODE   Flat, SQfp16, SQ8, SQ6, SQ4; of lists also PQ<parts>[x<bits>]
//
// What FAISS makes of codes alone (Flat, SQ8, PQ16) reads all of them, as a
// scan does, and is no index here.
//
// Lists want rows to be trained on: an index has no more than one for 39 rows
// (FAISS's own least), whatever the string says, so that one string serves
// small segments and large ones.

#ifndef COTERIE_INDEX_FAISS_FACTORY_H_
#define COTERIE_INDEX_FAISS_FACTORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "index/metric.h"

namespace coterie {

// Plain data; any thread.
struct FaissFactory {
  enum class Turn : uint8_t { kNone, kPca, kPcaTurned, kRandom, kOpq };
  enum class Code : uint8_t {
    kFloat,
    kHalf,
    kScalar8,
    kScalar6,
    kScalar4,
    kProduct
  };

  static constexpr int64_t kMostBytes = 64;  // of a string
  static constexpr int32_t kMostLists = 65536;
  static constexpr int32_t kMostLinks = 256;
  static constexpr int64_t kRowsPerList = 39;
  // Components that a turn takes. What LAPACK decomposes for it grows with the
  // cube, and is not to be stopped: a PCA of so many takes half a minute.
  static constexpr int64_t kMostTurned = 3072;
  // Rows to train on: at most so many of each list, and of each centroid of a
  // product code; spread evenly over the data.
  static constexpr int64_t kTrainedPerMean = 128;

  Turn turn = Turn::kNone;
  int32_t turn_parts = 0;      // kOpq
  int32_t turn_dimension = 0;  // 0: as before
  int32_t links = 0;           // of a graph; 0: lists
  int32_t lists = 0;
  Code code = Code::kFloat;
  int32_t parts = 0;  // kProduct
  int32_t bits = 8;   // kProduct

  // INVALID_ARGUMENT with what is wrong and what is accepted.
  static absl::StatusOr<FaissFactory> Parse(absl::string_view text);

  // Whether it can be over vectors of this dimension: parts divide it, a turn
  // does not raise it nor take more than kMostTurned, and a PCA, which moves
  // the origin, is not of INNER_PRODUCT. INVALID_ARGUMENT naming both numbers.
  absl::Status Check(Metric metric, int64_t d) const;
  // INVALID_ARGUMENT if they are fewer than a product code or a turn can be
  // trained on.
  absl::Status CheckRows(int64_t d, int64_t rows) const;
  // With so many lists as this many rows have.
  FaissFactory For(int64_t rows) const;

  bool graph() const { return links > 0; }
  // After the turn.
  int64_t dimension(int64_t d) const;
  int64_t code_bytes(int64_t d) const;
  int64_t TrainingRows(int64_t rows) const;
  // Bytes of an index over so many rows of dimension d, and at most while it is
  // built, what is kept included. REQUIRES: lists are those of For.
  int64_t KeptBytes(int64_t d, int64_t rows) const;
  int64_t BuildingBytes(int64_t d, int64_t rows) const;

  // As FAISS takes it.
  std::string Text() const;

  friend bool operator==(const FaissFactory&, const FaissFactory&) = default;

 private:
  // What FAISS takes besides while it is trained.
  int64_t TrainingBytes(int64_t d, int64_t rows) const;
};

}  // namespace coterie

#endif  // COTERIE_INDEX_FAISS_FACTORY_H_
