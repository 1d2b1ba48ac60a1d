#include "shard/segment_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shard/crc32c.h"
#include "shard/record_bytes.h"

namespace coterie {
namespace {

static_assert(std::endian::native == std::endian::little,
              "sections are used as they lie in the file");

constexpr absl::string_view kMagic("Coterie segment\n", 16);
constexpr int64_t kPieceBytes = int64_t{1} << 20;
// So that sizes of sections fit 64 bits with room.
constexpr int64_t kMostRows = int64_t{1} << 31;
constexpr int64_t kMostDimension = 16384;
constexpr size_t kChecksumAt = SegmentHeader::kBytes - 4;

constexpr const char* kSectionNames[] = {"ids", "norms", "rows",   "codes",
                                         "a",   "b",     "panels", "centre"};

int64_t RoundUp(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

int64_t SectionBytes(int section, const RowShape& shape, int64_t rows) {
  const bool coded = shape.CodesPay(rows);
  const int64_t padded = RoundUp(rows, CertifiedCodes::kGroupRows);
  switch (section) {
    case SegmentHeader::kIds:
      return 8 * rows;
    case SegmentHeader::kNorms:
      return shape.norms() ? 8 * rows : 0;
    case SegmentHeader::kRows:
      return 4 * shape.dimension * rows;
    case SegmentHeader::kCodes:
      return coded ? padded * RoundUp(shape.dimension, 4) : 0;
    case SegmentHeader::kA:
    case SegmentHeader::kB:
      return coded ? 4 * padded : 0;
    case SegmentHeader::kPanels:
      return coded ? RoundUp(rows, CertifiedCodes::kPanelRows) /
                         CertifiedCodes::kPanelRows *
                         static_cast<int64_t>(sizeof(CertifiedPanel))
                   : 0;
    default:
      return coded ? 4 * shape.dimension : 0;
  }
}

void PutDouble(std::string* out, double value) {
  PutLittleEndian(out, std::bit_cast<uint64_t>(value));
}

double GetDouble(ByteReader* reader) {
  return std::bit_cast<double>(reader->LittleEndian<uint64_t>());
}

uint32_t ReadChecksum(absl::string_view header) {
  uint32_t checksum = 0;
  std::memcpy(&checksum, header.data() + kChecksumAt, sizeof(checksum));
  return checksum;
}

// Of codes that were made by other rules than today's, the bounds are not
// known to hold.
bool IsToday(const CertifiedSlack& slack) {
  const CertifiedSlack today;
  return slack.delta == today.delta && slack.eta == today.eta &&
         slack.sigma == today.sigma && slack.row_error == today.row_error &&
         slack.query_error == today.query_error;
}

std::string PathOf(const std::string& folder, const std::string& name) {
  return absl::StrCat(folder, "/", name);
}

// Writes one section piece by piece, and sums it up.
class SectionWriter {
 public:
  SectionWriter(NewFile* file, SegmentHeader::Place* place)
      : file_(file), place_(place), at_(place->offset) {}

  absl::Status Add(const void* data, size_t size) {
    const absl::string_view bytes(static_cast<const char*>(data), size);
    if (static_cast<int64_t>(buffer_.size() + size) > kPieceBytes) {
      const absl::Status status = Flush();
      if (!status.ok()) return status;
    }
    if (static_cast<int64_t>(size) >= kPieceBytes) return Write(bytes);
    buffer_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  absl::Status Flush() {
    const absl::Status status = Write(buffer_);
    buffer_.clear();
    return status;
  }

 private:
  absl::Status Write(absl::string_view bytes) {
    place_->checksum = ExtendCrc32c(place_->checksum, bytes);
    const absl::Status status = file_->WriteAt(at_, bytes);
    at_ += static_cast<int64_t>(bytes.size());
    return status;
  }

  NewFile* const file_;
  SegmentHeader::Place* const place_;
  int64_t at_;
  std::string buffer_;
};

absl::Status WriteRows(NewFile* file, absl::Span<const SegmentRow> rows,
                       SegmentHeader* header, absl::FunctionRef<bool()> stop) {
  const auto row_bytes = static_cast<size_t>(4 * header->shape.dimension);
  for (const auto section :
       {SegmentHeader::kIds, SegmentHeader::kNorms, SegmentHeader::kRows}) {
    if (header->sections[section].bytes == 0) continue;
    SectionWriter writer(file, &header->sections[section]);
    absl::Status status;
    for (size_t i = 0; i < rows.size() && status.ok(); ++i) {
      if (i % 4096 == 0 && stop()) {
        return absl::CancelledError("sealing was stopped");
      }
      const SegmentRow& row = rows[i];
      if (section == SegmentHeader::kIds) {
        status = writer.Add(&row.id, sizeof(row.id));
      } else if (section == SegmentHeader::kNorms) {
        status = writer.Add(&row.squared_norm, sizeof(row.squared_norm));
      } else {
        status = writer.Add(row.vector, row_bytes);
      }
    }
    if (status.ok()) status = writer.Flush();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Codes are made from the rows in the file, so that only they take memory.
absl::Status WriteCodes(NewFile* file, const FileMapping& mapping,
                        SegmentHeader* header) {
  const auto* rows = reinterpret_cast<const float*>(
      mapping.data() + header->sections[SegmentHeader::kRows].offset);
  const CertifiedCodes codes(
      header->shape.metric,
      {rows, header->rows, header->shape.dimension, header->shape.dimension});
  const CertifiedCodes::Parts parts = codes.parts();
  header->unit = parts.unit;
  header->norm_slack = parts.norm_slack;
  header->slack = parts.slack;
  const auto write = [&](SegmentHeader::Section section, const void* data,
                         size_t size) {
    SectionWriter writer(file, &header->sections[section]);
    const absl::Status status = writer.Add(data, size);
    return status.ok() ? writer.Flush() : status;
  };
  absl::Status status =
      write(SegmentHeader::kCodes, parts.codes.data(), parts.codes.size());
  if (status.ok()) {
    status = write(SegmentHeader::kA, parts.a.data(), 4 * parts.a.size());
  }
  if (status.ok()) {
    status = write(SegmentHeader::kB, parts.b.data(), 4 * parts.b.size());
  }
  if (status.ok()) {
    status = write(SegmentHeader::kPanels, parts.panels.data(),
                   sizeof(CertifiedPanel) * parts.panels.size());
  }
  if (status.ok()) {
    status = write(SegmentHeader::kCentre, parts.centre.data(),
                   4 * parts.centre.size());
  }
  return status;
}

}  // namespace

std::string SegmentFileName(int64_t number) {
  return absl::StrFormat("%010d.seg", number);
}

// --- Header -----------------------------------------------------------------

int64_t SegmentHeader::file_bytes() const {
  int64_t end = kBytes;
  for (const Place& place : sections) {
    if (place.bytes > 0) end = place.offset + place.bytes;
  }
  return end;
}

SegmentHeader LayOutSegment(const SegmentName& name, const RowShape& shape,
                            int64_t rows) {
  SegmentHeader header;
  header.name = name;
  header.name.owner.incarnation = 0;
  header.shape = shape;
  header.rows = rows;
  int64_t at = SegmentHeader::kBytes;
  for (int section = 0; section < SegmentHeader::kSections; ++section) {
    SegmentHeader::Place& place = header.sections[static_cast<size_t>(section)];
    place.bytes = SectionBytes(section, shape, rows);
    if (place.bytes == 0) continue;
    place.offset = at;
    at = RoundUp(at + place.bytes, SegmentHeader::kBytes);
  }
  return header;
}

std::string EncodeSegmentHeader(const SegmentHeader& header) {
  std::string out(kMagic);
  out.push_back(1);
  PutString(&out, header.name.owner.cluster_uuid);
  PutVarint(&out, static_cast<uint64_t>(header.name.owner.shard_id));
  PutVarint(&out, static_cast<uint64_t>(header.name.owner.shards_total));
  PutVarint(&out, header.name.collection);
  PutVarint(&out, static_cast<uint64_t>(header.name.number));
  PutVarint(&out, static_cast<uint64_t>(header.shape.dimension));
  out.push_back(static_cast<char>(header.shape.metric));
  PutVarint(&out, static_cast<uint64_t>(header.rows));
  PutVarint(&out, SegmentHeader::kSections);
  for (uint8_t section = 0; section < SegmentHeader::kSections; ++section) {
    const SegmentHeader::Place& place = header.sections[section];
    out.push_back(static_cast<char>(section));
    PutLittleEndian(&out, static_cast<uint64_t>(place.offset));
    PutLittleEndian(&out, static_cast<uint64_t>(place.bytes));
    PutLittleEndian(&out, place.checksum);
  }
  PutLittleEndian(&out, static_cast<uint64_t>(header.unit));
  for (const double value :
       {header.norm_slack, header.slack.delta, header.slack.eta,
        header.slack.sigma, header.slack.row_error, header.slack.query_error}) {
    PutDouble(&out, value);
  }
  out.resize(kChecksumAt, '\0');
  PutLittleEndian(&out, Crc32c(out));
  return out;
}

absl::StatusOr<SegmentHeader> DecodeSegmentHeader(absl::string_view bytes) {
  if (bytes.size() != static_cast<size_t>(SegmentHeader::kBytes) ||
      bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::DataLossError("header: it is no segment file");
  }
  if (ReadChecksum(bytes) != Crc32c(bytes.substr(0, kChecksumAt))) {
    return absl::DataLossError("header: its checksum is wrong");
  }
  ByteReader reader("segment header", bytes.substr(kMagic.size()));
  SegmentName name;
  name.owner.cluster_uuid = reader.String();
  name.owner.shard_id = static_cast<int32_t>(reader.Varint());
  name.owner.shards_total = static_cast<int32_t>(reader.Varint());
  name.collection = static_cast<uint32_t>(reader.Varint());
  name.number = static_cast<int64_t>(reader.Varint());
  const uint64_t dimension = reader.Varint();
  const uint8_t metric = reader.Byte();
  const uint64_t rows = reader.Varint();
  if (dimension < 1 || dimension > kMostDimension || rows < 1 ||
      rows >= kMostRows || metric < static_cast<uint8_t>(Metric::kSquaredL2) ||
      metric > static_cast<uint8_t>(Metric::kCosine) ||
      reader.Varint() != SegmentHeader::kSections) {
    reader.Fail("dimension, metric, rows or sections are out of range");
  }
  if (!reader.ok()) return reader.Finish();
  SegmentHeader header = LayOutSegment(
      name, {static_cast<int64_t>(dimension), static_cast<Metric>(metric)},
      static_cast<int64_t>(rows));
  for (uint8_t section = 0; section < SegmentHeader::kSections; ++section) {
    SegmentHeader::Place& place = header.sections[section];
    if (reader.Byte() != section ||
        reader.LittleEndian<uint64_t>() !=
            static_cast<uint64_t>(place.offset) ||
        reader.LittleEndian<uint64_t>() != static_cast<uint64_t>(place.bytes)) {
      reader.Fail(absl::StrCat("section ", kSectionNames[section],
                               " lies elsewhere than rows and dimension say"));
    }
    place.checksum = reader.LittleEndian<uint32_t>();
  }
  header.unit = static_cast<int64_t>(reader.LittleEndian<uint64_t>());
  header.norm_slack = GetDouble(&reader);
  header.slack.delta = GetDouble(&reader);
  header.slack.eta = GetDouble(&reader);
  header.slack.sigma = GetDouble(&reader);
  header.slack.row_error = GetDouble(&reader);
  header.slack.query_error = GetDouble(&reader);
  if (!reader.ok()) return reader.Finish();
  // One encoding of each header, zeros to the end.
  if (EncodeSegmentHeader(header) != bytes) {
    return absl::DataLossError("header: it is not of this format");
  }
  if (header.coded() && !IsToday(header.slack)) {
    return absl::DataLossError("header: its codes were made by other rules");
  }
  return header;
}

// --- Checking ---------------------------------------------------------------

absl::Status SegmentCheck::Add(absl::string_view piece) {
  if (at_ < SegmentHeader::kBytes) {
    const auto missing = static_cast<size_t>(SegmentHeader::kBytes - at_);
    const absl::string_view part = piece.substr(0, missing);
    head_.append(part.data(), part.size());
    at_ += static_cast<int64_t>(part.size());
    piece.remove_prefix(part.size());
    if (at_ < SegmentHeader::kBytes) return absl::OkStatus();
    header_ = DecodeSegmentHeader(head_);
  }
  if (!header_.ok()) return header_.status();
  const int64_t end = at_ + static_cast<int64_t>(piece.size());
  for (size_t i = 0; i < header_->sections.size(); ++i) {
    const SegmentHeader::Place& place = header_->sections[i];
    const int64_t from = std::max(place.offset, at_);
    const int64_t to = std::min(place.offset + place.bytes, end);
    if (from >= to) continue;
    found_[i] =
        ExtendCrc32c(found_[i], piece.substr(static_cast<size_t>(from - at_),
                                             static_cast<size_t>(to - from)));
  }
  at_ = end;
  return absl::OkStatus();
}

absl::StatusOr<SegmentHeader> SegmentCheck::Finish() const {
  if (at_ < SegmentHeader::kBytes) {
    return absl::DataLossError(
        absl::StrCat("header: the file has only ", at_, " bytes"));
  }
  if (!header_.ok()) return header_.status();
  if (at_ != header_->file_bytes()) {
    return absl::DataLossError(absl::StrCat(
        "the file has ", at_, " bytes, not ", header_->file_bytes()));
  }
  for (size_t i = 0; i < header_->sections.size(); ++i) {
    if (found_[i] == header_->sections[i].checksum) continue;
    return absl::DataLossError(
        absl::StrCat("section ", kSectionNames[i], ": its checksum is wrong"));
  }
  return *header_;
}

// --- The file ---------------------------------------------------------------

SegmentFile::SegmentFile(const SegmentHeader& header,
                         std::shared_ptr<const FileMapping> mapping)
    : header_(header),
      checksum_(ReadChecksum(EncodeSegmentHeader(header))),
      mapping_(std::move(mapping)) {}

absl::Status SegmentFile::BorrowCodes() {
  if (!header_.coded()) return absl::OkStatus();
  CertifiedCodes::Parts parts;
  parts.codes = Whole<uint8_t>(SegmentHeader::kCodes);
  parts.a = Whole<float>(SegmentHeader::kA);
  parts.b = Whole<float>(SegmentHeader::kB);
  parts.panels = Whole<CertifiedPanel>(SegmentHeader::kPanels);
  parts.centre = Whole<float>(SegmentHeader::kCentre);
  parts.unit = static_cast<int>(header_.unit);
  parts.norm_slack = header_.norm_slack;
  parts.slack = header_.slack;
  auto codes = CertifiedCodes::Borrow(header_.shape.metric, header_.rows,
                                      header_.shape.dimension, parts);
  if (!codes.ok()) return absl::DataLossError(codes.status().message());
  codes_ = *std::move(codes);
  return absl::OkStatus();
}

absl::Status SegmentFile::SortIds() {
  const PointId* const ids = this->ids();
  const auto less = [ids](int32_t a, int32_t b) { return ids[a] < ids[b]; };
  const auto n = static_cast<int32_t>(header_.rows);
  int32_t sorted = 1;
  while (sorted < n && ids[sorted - 1] < ids[sorted]) ++sorted;
  if (sorted == n) return absl::OkStatus();
  by_id_.resize(static_cast<size_t>(n));
  std::iota(by_id_.begin(), by_id_.end(), 0);
  std::sort(by_id_.begin(), by_id_.end(), less);
  for (size_t i = 1; i < by_id_.size(); ++i) {
    if (less(by_id_[i - 1], by_id_[i])) continue;
    return absl::DataLossError(absl::StrCat("section ids: rows ", by_id_[i - 1],
                                            " and ", by_id_[i],
                                            " have the same id"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const SegmentFile>> SegmentFile::Over(
    const SegmentHeader& header, std::shared_ptr<const FileMapping> mapping) {
  if (static_cast<int64_t>(mapping->size()) != header.file_bytes()) {
    return absl::DataLossError("the file has changed its size");
  }
  std::shared_ptr<SegmentFile> file(
      new SegmentFile(header, std::move(mapping)));
  absl::Status status = file->SortIds();
  if (status.ok()) status = file->BorrowCodes();
  if (!status.ok()) return status;
  return file;
}

absl::StatusOr<std::shared_ptr<const SegmentFile>> SegmentFile::Open(
    SegmentDisk* disk, const std::string& folder, const SegmentName& name) {
  const std::string path = PathOf(folder, SegmentFileName(name.number));
  const auto damaged = [&](const absl::Status& status) {
    return absl::DataLossError(absl::StrCat(path, ": ", status.message()));
  };
  SegmentCheck check;
  const absl::Status read = disk->Read(
      path, [&](absl::string_view piece) { return check.Add(piece); });
  if (absl::IsDataLoss(read)) return damaged(read);
  if (!read.ok()) return read;
  const auto header = check.Finish();
  if (!header.ok()) return damaged(header.status());
  SegmentName expected = name;
  expected.owner.incarnation = 0;
  if (header->name != expected) {
    return damaged(absl::DataLossError(absl::StrCat(
        "it is file ", header->name.number, " of collection ",
        header->name.collection, " of shard ", header->name.owner.shard_id,
        " of ", header->name.owner.shards_total, " of cluster '",
        header->name.owner.cluster_uuid, "'")));
  }
  auto mapping = disk->Map(path);
  if (!mapping.ok()) return mapping.status();
  auto file = Over(*header, *std::move(mapping));
  if (!file.ok()) return damaged(file.status());
  return file;
}

absl::StatusOr<std::shared_ptr<const SegmentFile>> WriteSegmentFile(
    SegmentDisk* disk, const std::string& folder, const SegmentName& name,
    const RowShape& shape, absl::Span<const SegmentRow> rows,
    absl::FunctionRef<bool()> stop) {
  SegmentHeader header =
      LayOutSegment(name, shape, static_cast<int64_t>(rows.size()));
  const std::string path = PathOf(folder, SegmentFileName(name.number));
  const std::string draft = absl::StrCat(path, ".tmp");
  auto file = disk->Create(draft, header.file_bytes());
  if (!file.ok()) return file.status();
  absl::Status status = WriteRows(file->get(), rows, &header, stop);
  if (!status.ok()) return status;
  const auto mapping = (*file)->Map();
  if (!mapping.ok()) return mapping.status();
  if (header.coded()) {
    status = WriteCodes(file->get(), **mapping, &header);
    if (!status.ok()) return status;
  }
  status = (*file)->WriteAt(0, EncodeSegmentHeader(header));
  if (status.ok()) status = (*file)->Sync();
  if (status.ok()) status = disk->Rename(draft, path);
  if (status.ok()) status = disk->SyncFolder(folder);
  if (!status.ok()) return status;
  // What is read of it later will be less than what was read to make it.
  (*mapping)->Forget();
  return SegmentFile::Over(header, *mapping);
}

}  // namespace coterie
