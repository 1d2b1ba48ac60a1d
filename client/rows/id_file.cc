// Ids beside the vectors.

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/npy_file.h"
#include "client/numbers.h"
#include "client/rows/id_check.h"
#include "client/rows/line_reader.h"
#include "client/rows/side_files.h"

namespace coterie {
namespace {

constexpr int64_t kAtOnce = 8192;
constexpr int64_t kMaxLineBytes = 256;

// What both kinds share: a pass over the whole that checks.
class CheckedIds : public IdFile {
 public:
  using IdFile::IdFile;

  // `unit` is what Locate counts: "line" or "row".
  absl::Status Examine(absl::string_view unit, int64_t first) {
    IdCheck check;
    std::vector<uint64_t> ids;
    int64_t rows = 0;
    do {
      absl::Status status = Read(kAtOnce, &ids);
      if (!status.ok()) return status;
      for (const uint64_t id : ids) check.Add(id);
      rows += static_cast<int64_t>(ids.size());
    } while (!ids.empty());
    rows_ = rows;
    Rewind();
    const std::optional<uint64_t> twice = check.FindDuplicate();
    if (!twice.has_value()) return absl::OkStatus();
    std::vector<int64_t> places;
    for (int64_t row = 0; places.size() < 2 && row < rows_;) {
      absl::Status status = Read(kAtOnce, &ids);
      if (!status.ok()) return status;
      for (const uint64_t id : ids) {
        if (id == *twice) places.push_back(first + row);
        ++row;
      }
    }
    places.resize(2);
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": ", unit, " ", places[1], ": id ", *twice,
                     " is that of ", unit, " ", places[0], " already"));
  }

 protected:
  virtual void Rewind() = 0;
};

class NpyIds : public CheckedIds {
 public:
  NpyIds(InputFile file, const NpyLayout& layout)
      : CheckedIds(std::move(file.name)),
        stream_(std::move(file.stream)),
        layout_(layout) {
    most_bytes_ = sizeof(uint64_t);
    NpyIds::Rewind();
  }

  absl::Status Read(int64_t max_rows, std::vector<uint64_t>* values) override {
    values->resize(std::min(max_rows, layout_.rows - next_row_));
    const auto bytes =
        static_cast<std::streamsize>(values->size() * sizeof(uint64_t));
    if (bytes > 0 &&
        !stream_->read(reinterpret_cast<char*>(values->data()), bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": cannot be read behind row ", next_row_,
                       "; has the file been changed meanwhile?"));
    }
    for (const uint64_t id : *values) {
      const auto as_signed = static_cast<int64_t>(id);
      if (layout_.type == NpyType::kInt64 && as_signed < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(name_, ": row ", next_row_, " is ", as_signed,
                         "; expected an id, 0 or more"));
      }
      ++next_row_;
    }
    return absl::OkStatus();
  }

 private:
  void Rewind() override {
    stream_->clear();
    stream_->seekg(layout_.data_offset);
    next_row_ = 0;
  }

  const std::unique_ptr<std::istream> stream_;
  const NpyLayout layout_;
  int64_t next_row_ = 0;
};

class TextIds : public CheckedIds {
 public:
  explicit TextIds(InputFile file)
      : CheckedIds(file.name), reader_(std::move(file), kMaxLineBytes) {
    most_bytes_ = sizeof(uint64_t);
  }

  absl::Status Read(int64_t max_rows, std::vector<uint64_t>* values) override {
    values->clear();
    while (static_cast<int64_t>(values->size()) < max_rows) {
      absl::StatusOr<bool> more = reader_.Next(&line_);
      if (!more.ok()) return more.status();
      if (!*more) break;
      absl::StatusOr<uint64_t> id =
          ParsePointId(absl::StripAsciiWhitespace(line_));
      if (!id.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(reader_.Where(), ": ", id.status().message()));
      }
      values->push_back(*id);
    }
    return absl::OkStatus();
  }

 private:
  void Rewind() override { reader_.Rewind(); }

  LineReader reader_;
  std::string line_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<IdFile>> OpenIds(InputFile file) {
  constexpr absl::string_view kNpyMagic("\x93NUMPY", 6);
  std::string start(
      std::min<int64_t>(file.bytes, kNpyPreambleBytes + kMaxNpyHeaderBytes),
      '\0');
  file.stream->read(start.data(), static_cast<std::streamsize>(start.size()));
  std::unique_ptr<CheckedIds> ids;
  const bool npy = absl::StartsWith(start, kNpyMagic);
  if (npy) {
    absl::StatusOr<NpyLayout> layout =
        ParseNpyHeader(start, file.bytes, file.name, NpyContent::kIntegers);
    if (!layout.ok()) return layout.status();
    ids = std::make_unique<NpyIds>(std::move(file), *layout);
  } else {
    file.stream->clear();
    file.stream->seekg(0);
    ids = std::make_unique<TextIds>(std::move(file));
  }
  absl::Status status = npy ? ids->Examine("row", 0) : ids->Examine("line", 1);
  if (!status.ok()) return status;
  return ids;
}

}  // namespace coterie
