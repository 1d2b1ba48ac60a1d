// A sealed segment as a file: written once, checksummed, read as it lies in
// memory.
//
// The functions are stateless, a SegmentFile is immutable; any thread.
//
// Layout, numbers little-endian: a header of one page, then the sections, each
// from the next page on. Header: magic (16 bytes) | format byte 1 | cluster
// uuid | shard id | shards total | collection | file number | dimension |
// metric | rows | sections: count x (kind, offset, bytes, CRC-32C) | of codes:
// unit, norm slack, delta, eta, sigma, factors on errors | zeros | CRC-32C of
// what is before it. Sections: ids (distinct), squared norms if the metric
// needs them, float32 rows, and, if coded, codes, a, b, panels and centre of
// index/certified_codes.h. Frozen by golden bytes in the test.
//
// A file is complete or not there: it is written under another name, synced,
// renamed, and its folder synced. Whatever else is wrong with it - cut, bits
// flipped, of another shard or another version - is DATA_LOSS naming file and
// section, and costs no data: files can be made again from the record store.

#ifndef COTERIE_SHARD_SEGMENT_FILE_H_
#define COTERIE_SHARD_SEGMENT_FILE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/metric.h"
#include "index/vectors.h"
#include "shard/record_codec.h"
#include "shard/segment_disk.h"

namespace coterie {

// What a row consists of.
struct RowShape {
  int64_t dimension = 0;
  Metric metric = Metric::kSquaredL2;

  // Whether squared norms are kept: inner product and cosine need them.
  bool norms() const { return metric != Metric::kSquaredL2; }

  // Bytes of a row with its id, norm and deletion mark.
  int64_t row_bytes() const { return 4 * dimension + 16 + (norms() ? 8 : 0); }

  // Whether a sealed segment of so many rows is coded: a scan of codes must
  // read less than half of what float32 rows take (D + 8 bytes a row beside
  // 4 d), and be longer than a panel.
  bool CodesPay(int64_t rows) const {
    return dimension >= 16 && rows >= CertifiedCodes::kPanelRows;
  }

  friend bool operator==(const RowShape&, const RowShape&) = default;
};

// A row on its way into a segment.
struct SegmentRow {
  PointId id = 0;
  double squared_norm = 0;  // if the shape has norms
  const float* vector = nullptr;
};

// Whose file it is, and which.
struct SegmentName {
  ShardIdentity owner;  // its incarnation is 0 here
  uint32_t collection = 0;
  int64_t number = 0;  // of the file in its folder

  friend bool operator==(const SegmentName&, const SegmentName&) = default;
};

// "0000000042.seg".
std::string SegmentFileName(int64_t number);

struct SegmentHeader {
  enum Section : uint8_t {
    kIds,
    kNorms,
    kRows,
    kCodes,
    kA,
    kB,
    kPanels,
    kCentre,
    kSections
  };
  struct Place {
    int64_t offset = 0;
    int64_t bytes = 0;
    uint32_t checksum = 0;

    friend bool operator==(const Place&, const Place&) = default;
  };

  static constexpr int64_t kBytes = 4096;

  SegmentName name;
  RowShape shape;
  int64_t rows = 0;
  std::array<Place, kSections> sections;
  // Meaningful if coded.
  int64_t unit = 0;
  double norm_slack = 0;
  CertifiedSlack slack;

  bool coded() const { return shape.CodesPay(rows); }
  int64_t file_bytes() const;
};

// The header with the places that its shape and rows give, checksums 0.
SegmentHeader LayOutSegment(const SegmentName& name, const RowShape& shape,
                            int64_t rows);

// kBytes of them. REQUIRES: cluster uuid of at most 1 KiB.
std::string EncodeSegmentHeader(const SegmentHeader& header);
// Takes any bytes.
absl::StatusOr<SegmentHeader> DecodeSegmentHeader(absl::string_view bytes);

// Compares a file, as it is read from its beginning, with its checksums. Not
// thread-safe. Takes any bytes.
class SegmentCheck {
 public:
  // DATA_LOSS as soon as the header is known to be damaged, and from then on.
  absl::Status Add(absl::string_view piece);
  // The header if the file is whole.
  absl::StatusOr<SegmentHeader> Finish() const;

 private:
  std::string head_;
  absl::StatusOr<SegmentHeader> header_ = SegmentHeader();  // once it is whole
  std::array<uint32_t, SegmentHeader::kSections> found_{};
  int64_t at_ = 0;
};

class SegmentFile {
 public:
  // Checks all of the file and maps it. NOT_FOUND if there is none. O(bytes).
  static absl::StatusOr<std::shared_ptr<const SegmentFile>> Open(
      SegmentDisk* disk, const std::string& folder, const SegmentName& name);

  // Over bytes that were checked. DATA_LOSS if an id is there twice.
  static absl::StatusOr<std::shared_ptr<const SegmentFile>> Over(
      const SegmentHeader& header, std::shared_ptr<const FileMapping> mapping);

  const SegmentHeader& header() const { return header_; }
  // Of the header, and so of everything: what a manifest knows it by.
  uint32_t checksum() const { return checksum_; }

  const PointId* ids() const { return Section<PointId>(SegmentHeader::kIds); }
  // Rows in the order of their ids; empty if they lie so.
  absl::Span<const int32_t> by_id() const { return by_id_; }
  // Null unless the shape has norms.
  const double* squared_norms() const {
    return header_.shape.norms() ? Section<double>(SegmentHeader::kNorms)
                                 : nullptr;
  }
  const float* rows() const { return Section<float>(SegmentHeader::kRows); }
  // Null unless coded.
  const CertifiedCodes* codes() const { return codes_.get(); }
  // As FileMapping::Forget.
  void Forget() const { mapping_->Forget(); }

 private:
  SegmentFile(const SegmentHeader& header,
              std::shared_ptr<const FileMapping> mapping);

  template <typename T>
  const T* Section(SegmentHeader::Section section) const {
    return reinterpret_cast<const T*>(mapping_->data() +
                                      header_.sections[section].offset);
  }
  template <typename T>
  absl::Span<const T> Whole(SegmentHeader::Section section) const {
    return {Section<T>(section),
            static_cast<size_t>(header_.sections[section].bytes) / sizeof(T)};
  }
  absl::Status BorrowCodes();
  absl::Status SortIds();

  const SegmentHeader header_;
  const uint32_t checksum_;
  const std::shared_ptr<const FileMapping> mapping_;
  std::unique_ptr<const CertifiedCodes> codes_;
  std::vector<int32_t> by_id_;
};

// Writes `rows`, of distinct ids, and opens the file. CANCELLED if `stop` says
// so between two pieces of work; after an error there may be a file of another
// name, "*.tmp". Memory beside the rows: codes while they are written, D + 8
// bytes a row. O(n d). REQUIRES: rows is not empty.
absl::StatusOr<std::shared_ptr<const SegmentFile>> WriteSegmentFile(
    SegmentDisk* disk, const std::string& folder, const SegmentName& name,
    const RowShape& shape, absl::Span<const SegmentRow> rows,
    absl::FunctionRef<bool()> stop);

}  // namespace coterie

#endif  // COTERIE_SHARD_SEGMENT_FILE_H_
