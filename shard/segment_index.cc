#include "shard/segment_index.h"

#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "shard/crc32c.h"
#include "shard/record_bytes.h"

namespace coterie {
namespace {

constexpr absl::string_view kMagic("Coterie index\n\n\n", 16);
constexpr size_t kPage = 4096;
constexpr size_t kChecksumAt = kPage - 4;
// So that a header fits its page.
constexpr size_t kMostParts = 32;

// A structure as numbers and arrays: views of it, of a copy, or of a file.
struct Image {
  std::vector<uint64_t> numbers;
  std::vector<absl::string_view> arrays;
  std::shared_ptr<const FaissIndex::Parts> copy = nullptr;
};

enum Form : uint64_t { kBoxes = 1, kCells = 2, kHashes = 3, kFaissParts = 4 };

// A power of two as a number that is not negative.
constexpr int64_t kShiftBias = 1024;

uint64_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

template <typename T>
absl::string_view BytesOf(absl::Span<const T> array) {
  return {reinterpret_cast<const char*>(array.data()),
          array.size() * sizeof(T)};
}

Image ImageOf(const BoxTree& tree) {
  const BoxTree::Parts parts = tree.parts();
  return {
      {kBoxes, static_cast<uint64_t>(parts.metric),
       static_cast<uint64_t>(parts.n), static_cast<uint64_t>(parts.d),
       Bits(parts.max_norm)},
      {BytesOf(parts.boxes), BytesOf(parts.children), BytesOf(parts.first_leaf),
       BytesOf(parts.lanes), BytesOf(parts.leaves)}};
}

Image ImageOf(const CellTree& tree) {
  const CellTree::Parts parts = tree.parts();
  return {{kCells, static_cast<uint64_t>(parts.metric),
           static_cast<uint64_t>(parts.n), static_cast<uint64_t>(parts.d),
           Bits(parts.max_norm), Bits(parts.promise)},
          {BytesOf(parts.begins), BytesOf(parts.means), BytesOf(parts.radii),
           BytesOf(parts.spreads), BytesOf(parts.budgets)}};
}

Image ImageOf(const LshIndex& lsh) {
  const LshIndex::Parts parts = lsh.parts();
  return {
      {kHashes, static_cast<uint64_t>(parts.metric),
       static_cast<uint64_t>(parts.n), static_cast<uint64_t>(parts.d),
       Bits(parts.max_norm), parts.seed, static_cast<uint64_t>(parts.tables),
       static_cast<uint64_t>(parts.hash_bits), Bits(parts.sketch_cut)},
      {BytesOf(parts.centre), BytesOf(parts.shells), BytesOf(parts.directory),
       BytesOf(parts.rows), BytesOf(parts.sketches), BytesOf(parts.trained)}};
}

template <typename T>
absl::string_view BytesOf(const std::vector<T>& array) {
  return BytesOf(absl::MakeConstSpan(array));
}

absl::StatusOr<Image> ImageOf(const FaissIndex& faiss) {
  auto taken = faiss.parts();
  if (!taken.ok()) return taken.status();
  const auto parts =
      std::make_shared<const FaissIndex::Parts>(*std::move(taken));
  return Image{
      {kFaissParts, static_cast<uint64_t>(parts->metric),
       static_cast<uint64_t>(parts->n), static_cast<uint64_t>(parts->d),
       static_cast<uint64_t>(parts->shift + kShiftBias)},
      {parts->factory, BytesOf(parts->turn), BytesOf(parts->means),
       BytesOf(parts->code), BytesOf(parts->data), BytesOf(parts->links),
       BytesOf(parts->measured)},
      parts};
}

absl::StatusOr<Image> ImageOf(const SegmentIndex& index) {
  if (index.faiss() != nullptr) return ImageOf(*index.faiss());
  if (index.lsh() != nullptr) return ImageOf(*index.lsh());
  const Tree& tree = *index.tree();
  return tree.boxes() != nullptr ? ImageOf(*tree.boxes())
                                 : ImageOf(*tree.cells());
}

// Takes an image apart, in the order in which ImageOf put it together.
class ImageReader {
 public:
  explicit ImageReader(const Image& image) : image_(image) {}

  bool Has(size_t numbers, size_t arrays) const {
    return image_.numbers.size() == numbers && image_.arrays.size() == arrays;
  }
  // What all begin with, but the form and one number of their own. False if it
  // is out of range.
  template <typename Parts>
  bool Common(Parts* parts) const {
    const uint64_t metric = image_.numbers[1];
    const uint64_t n = image_.numbers[2];
    const uint64_t d = image_.numbers[3];
    if (metric < 1 || metric > 3 || n > uint64_t{1} << 31 || d < 1 ||
        d > 16384 || image_.numbers[4] > std::numeric_limits<uint32_t>::max()) {
      return false;
    }
    parts->metric = static_cast<Metric>(metric);
    parts->n = static_cast<int64_t>(n);
    parts->d = static_cast<int64_t>(d);
    return true;
  }
  float Float(size_t i) const {
    return std::bit_cast<float>(static_cast<uint32_t>(image_.numbers[i]));
  }
  uint64_t Number(size_t i) const { return image_.numbers[i]; }
  absl::string_view Bytes() { return image_.arrays[at_++]; }
  // The next array. What is left over at its end is left out: then sizes do not
  // fit.
  template <typename T>
  void Take(absl::Span<const T>* array) {
    const absl::string_view bytes = Bytes();
    *array = {reinterpret_cast<const T*>(bytes.data()),
              bytes.size() / sizeof(T)};
  }
  // A copy of it.
  template <typename T>
  void Take(std::vector<T>* array) {
    absl::Span<const T> view;
    Take(&view);
    array->assign(view.begin(), view.end());
  }

 private:
  const Image& image_;
  size_t at_ = 0;
};

absl::Status Unfit() {
  return absl::DataLossError("its numbers are not those of such a structure");
}

// Of what FromParts gives.
template <typename T, typename Wrap>
absl::StatusOr<std::shared_ptr<SegmentIndex>> Wrapped(
    absl::StatusOr<T> structure, Wrap wrap) {
  if (!structure.ok()) {
    return absl::DataLossError(structure.status().message());
  }
  return std::make_shared<SegmentIndex>(wrap(*std::move(structure)));
}

absl::StatusOr<std::shared_ptr<SegmentIndex>> BoxesOf(ImageReader reader) {
  BoxTree::Parts parts;
  if (!reader.Has(5, 5) || !reader.Common(&parts)) return Unfit();
  parts.max_norm = reader.Float(4);
  reader.Take(&parts.boxes);
  reader.Take(&parts.children);
  reader.Take(&parts.first_leaf);
  reader.Take(&parts.lanes);
  reader.Take(&parts.leaves);
  return Wrapped(BoxTree::FromParts(parts),
                 [](BoxTree tree) { return Tree(std::move(tree)); });
}

absl::StatusOr<std::shared_ptr<SegmentIndex>> CellsOf(ImageReader reader) {
  CellTree::Parts parts;
  if (!reader.Has(6, 5) || !reader.Common(&parts)) return Unfit();
  parts.max_norm = reader.Float(4);
  parts.promise = reader.Float(5);
  reader.Take(&parts.begins);
  reader.Take(&parts.means);
  reader.Take(&parts.radii);
  reader.Take(&parts.spreads);
  reader.Take(&parts.budgets);
  return Wrapped(CellTree::FromParts(parts),
                 [](CellTree tree) { return Tree(std::move(tree)); });
}

absl::StatusOr<std::shared_ptr<SegmentIndex>> HashesOf(ImageReader reader) {
  LshIndex::Parts parts;
  if (!reader.Has(9, 6) || !reader.Common(&parts)) return Unfit();
  parts.max_norm = reader.Float(4);
  parts.seed = reader.Number(5);
  if (reader.Number(8) > std::numeric_limits<uint32_t>::max()) return Unfit();
  parts.sketch_cut = reader.Float(8);
  if (reader.Number(6) > uint64_t{LshIndex::kMaxTables} ||
      reader.Number(7) > 64) {
    return Unfit();
  }
  parts.tables = static_cast<int64_t>(reader.Number(6));
  parts.hash_bits = static_cast<int64_t>(reader.Number(7));
  reader.Take(&parts.centre);
  reader.Take(&parts.shells);
  reader.Take(&parts.directory);
  reader.Take(&parts.rows);
  reader.Take(&parts.sketches);
  reader.Take(&parts.trained);
  return Wrapped(LshIndex::FromParts(parts), [](LshIndex lsh) { return lsh; });
}

absl::StatusOr<std::shared_ptr<SegmentIndex>> FaissOf(ImageReader reader) {
  FaissIndex::Parts parts;
  if (!reader.Has(5, 7) || !reader.Common(&parts)) return Unfit();
  parts.shift = static_cast<int64_t>(reader.Number(4)) - kShiftBias;
  parts.factory = std::string(reader.Bytes());
  reader.Take(&parts.turn);
  reader.Take(&parts.means);
  reader.Take(&parts.code);
  reader.Take(&parts.data);
  reader.Take(&parts.links);
  reader.Take(&parts.measured);
  return Wrapped(FaissIndex::FromParts(parts),
                 [](FaissIndex faiss) { return faiss; });
}

size_t RoundUp(size_t n) { return (n + kPage - 1) / kPage * kPage; }

std::string EncodeHeader(const IndexName& name, const Image& image,
                         const std::vector<uint32_t>& checksums) {
  std::string out(kMagic);
  out.push_back(1);
  const ShardIdentity& owner = name.segment.owner;
  PutString(&out, owner.cluster_uuid);
  PutVarint(&out, static_cast<uint64_t>(owner.shard_id));
  PutVarint(&out, static_cast<uint64_t>(owner.shards_total));
  PutVarint(&out, name.segment.collection);
  PutVarint(&out, static_cast<uint64_t>(name.segment.number));
  PutLittleEndian(&out, name.segment_checksum);
  out.push_back(static_cast<char>(name.kind));
  PutVarint(&out, image.numbers.size());
  for (const uint64_t number : image.numbers) PutLittleEndian(&out, number);
  PutVarint(&out, image.arrays.size());
  for (size_t i = 0; i < image.arrays.size(); ++i) {
    PutLittleEndian(&out, static_cast<uint64_t>(image.arrays[i].size()));
    PutLittleEndian(&out, checksums[i]);
  }
  out.resize(kChecksumAt, '\0');
  PutLittleEndian(&out, Crc32c(out));
  return out;
}

// What a header says; `arrays` are over `bytes`.
absl::StatusOr<Image> ReadImage(absl::string_view bytes,
                                const IndexName& name) {
  if (bytes.size() < kPage || bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::DataLossError("header: it is no index file");
  }
  const absl::string_view header = bytes.substr(0, kPage);
  uint32_t checksum = 0;
  std::memcpy(&checksum, header.data() + kChecksumAt, sizeof(checksum));
  if (checksum != Crc32c(header.substr(0, kChecksumAt))) {
    return absl::DataLossError("header: its checksum is wrong");
  }
  ByteReader reader("index header", header.substr(kMagic.size()));
  IndexName found;
  found.segment.owner.cluster_uuid = reader.String();
  found.segment.owner.shard_id = static_cast<int32_t>(reader.Varint());
  found.segment.owner.shards_total = static_cast<int32_t>(reader.Varint());
  found.segment.collection = static_cast<uint32_t>(reader.Varint());
  found.segment.number = static_cast<int64_t>(reader.Varint());
  found.segment_checksum = reader.LittleEndian<uint32_t>();
  found.kind = static_cast<IndexKind>(reader.Byte());
  Image image;
  const size_t numbers = reader.Count(8);
  if (numbers > kMostParts) reader.Fail("it has too many numbers");
  for (size_t i = 0; i < numbers && reader.ok(); ++i) {
    image.numbers.push_back(reader.LittleEndian<uint64_t>());
  }
  const size_t arrays = reader.Count(12);
  if (arrays > kMostParts) reader.Fail("it has too many arrays");
  std::vector<uint32_t> checksums;
  size_t at = kPage;
  for (size_t i = 0; i < arrays && reader.ok(); ++i) {
    const auto size = reader.LittleEndian<uint64_t>();
    checksums.push_back(reader.LittleEndian<uint32_t>());
    if (at > bytes.size() || size > bytes.size() - at) {
      return absl::DataLossError(
          absl::StrCat("array ", i, " goes on after the end of the file, ",
                       bytes.size(), " bytes"));
    }
    image.arrays.push_back(bytes.substr(at, size));
    at = RoundUp(at + size);
  }
  if (!reader.ok()) return reader.Finish();
  const size_t end =
      image.arrays.empty()
          ? kPage
          : static_cast<size_t>(image.arrays.back().data() - bytes.data()) +
                image.arrays.back().size();
  if (end != bytes.size()) {
    return absl::DataLossError(
        absl::StrCat("the file has ", bytes.size(), " bytes, not ", end));
  }
  if (!(found == name)) {
    return absl::DataLossError("it is of another segment, or of another shard");
  }
  for (size_t i = 0; i < image.arrays.size(); ++i) {
    if (Crc32c(image.arrays[i]) != checksums[i]) {
      return absl::DataLossError(
          absl::StrCat("array ", i, ": its checksum is wrong"));
    }
  }
  // One encoding of each header, zeros to the end.
  if (EncodeHeader(found, image, checksums) != header) {
    return absl::DataLossError("header: it is not of this format");
  }
  return image;
}

}  // namespace

void SegmentIndex::MakeCodes(RowsView rows,
                             const CertifiedCodes* segment_codes) {
  if (segment_codes != nullptr || tree() != nullptr) return;
  own_codes_ = std::make_unique<const CertifiedCodes>(metric(), rows);
}

IndexKind SegmentIndex::kind() const {
  if (tree() != nullptr) return IndexKind::kTree;
  return lsh() != nullptr ? IndexKind::kLsh : IndexKind::kFaiss;
}

Metric SegmentIndex::metric() const {
  if (lsh() != nullptr) return lsh()->metric();
  if (faiss() != nullptr) return faiss()->metric();
  return tree()->boxes() != nullptr ? tree()->boxes()->metric()
                                    : tree()->cells()->metric();
}

int64_t SegmentIndex::dimension() const {
  if (lsh() != nullptr) return lsh()->dimension();
  if (faiss() != nullptr) return faiss()->dimension();
  return tree()->boxes() != nullptr ? tree()->boxes()->dimension()
                                    : tree()->cells()->dimension();
}

int64_t SegmentIndex::size() const {
  return std::visit([](const auto& structure) { return structure.size(); },
                    structure_);
}

int64_t SegmentIndex::MemoryBytes() const {
  return std::visit(
             [](const auto& structure) { return structure.MemoryBytes(); },
             structure_) +
         (own_codes_ != nullptr ? own_codes_->MemoryBytes() : 0);
}

std::shared_ptr<const SegmentIndex> SegmentIndexes::Get(IndexKind kind) const {
  MutexLock lock(&mutex_);
  return indexes_[At(kind)];
}

void SegmentIndexes::Set(std::shared_ptr<const SegmentIndex> index) {
  MutexLock lock(&mutex_);
  indexes_[At(index->kind())] = std::move(index);
}

int64_t SegmentIndexes::MemoryBytes() const {
  MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& index : indexes_) {
    if (index != nullptr) bytes += index->MemoryBytes();
  }
  return bytes;
}

std::string IndexFileName(int64_t segment_number, IndexKind kind) {
  return absl::StrFormat("%010d.%s", segment_number,
                         std::string(IndexKindName(kind)));
}

absl::Status WriteIndexFile(SegmentDisk* disk, const std::string& folder,
                            const IndexName& name, const SegmentIndex& index) {
  const auto made = ImageOf(index);
  if (!made.ok()) return made.status();
  const Image& image = *made;
  std::vector<uint32_t> checksums;
  size_t end = kPage;
  for (const absl::string_view array : image.arrays) {
    checksums.push_back(Crc32c(array));
    end = RoundUp(end) + array.size();
  }
  const std::string path =
      absl::StrCat(folder, "/", IndexFileName(name.segment.number, name.kind));
  const std::string draft = absl::StrCat(path, ".tmp");
  auto file = disk->Create(draft, static_cast<int64_t>(end));
  if (!file.ok()) return file.status();
  absl::Status status =
      (*file)->WriteAt(0, EncodeHeader(name, image, checksums));
  size_t at = kPage;
  for (const absl::string_view array : image.arrays) {
    if (!status.ok()) return status;
    status = (*file)->WriteAt(static_cast<int64_t>(at), array);
    at = RoundUp(at + array.size());
  }
  if (status.ok()) status = (*file)->Sync();
  if (status.ok()) status = disk->Rename(draft, path);
  if (status.ok()) status = disk->SyncFolder(folder);
  return status;
}

absl::StatusOr<std::shared_ptr<SegmentIndex>> DecodeIndexFile(
    absl::string_view bytes, const IndexName& name) {
  const auto image = ReadImage(bytes, name);
  if (!image.ok()) return image.status();
  const uint64_t form = image->numbers.empty() ? 0 : image->numbers[0];
  const ImageReader reader(*image);
  switch (name.kind) {
    case IndexKind::kTree:
      if (form == kBoxes) return BoxesOf(reader);
      if (form == kCells) return CellsOf(reader);
      break;
    case IndexKind::kLsh:
      if (form == kHashes) return HashesOf(reader);
      break;
    case IndexKind::kFaiss:
      if (form == kFaissParts) return FaissOf(reader);
      break;
  }
  return absl::DataLossError(
      absl::StrCat("form ", form, " is not of a ", IndexKindName(name.kind)));
}

absl::StatusOr<std::shared_ptr<SegmentIndex>> ReadIndexFile(
    SegmentDisk* disk, const std::string& folder, const IndexName& name,
    const RowShape& shape, int64_t rows) {
  const std::string path =
      absl::StrCat(folder, "/", IndexFileName(name.segment.number, name.kind));
  std::string bytes;
  const absl::Status read = disk->Read(path, [&](absl::string_view piece) {
    bytes.append(piece.data(), piece.size());
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  auto index = DecodeIndexFile(bytes, name);
  if (!index.ok()) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", index.status().message()));
  }
  const SegmentIndex& found = **index;
  if (found.size() != rows || found.dimension() != shape.dimension ||
      found.metric() != shape.metric ||
      (found.tree() != nullptr &&
       (found.tree()->boxes() != nullptr) !=
           (shape.dimension <= BoxTree::kMaxDimension))) {
    return absl::DataLossError(
        absl::StrCat(path, ": it has another shape than its segment"));
  }
  return index;
}

}  // namespace coterie
