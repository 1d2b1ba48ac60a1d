#include "client/rows/row_writer.h"

#include <charconv>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

template <typename T>
absl::string_view BytesOf(const T* values, size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(T)};
}

// A header of the same length for every number of rows.
std::string NpyHeader(absl::string_view descr, absl::string_view shape) {
  constexpr size_t kHeaderBytes = 128;
  constexpr size_t kPreambleBytes = 10;
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(kHeaderBytes - kPreambleBytes);
  header += '\0';
  absl::StrAppend(&header, "{'descr': '", descr,
                  "', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize(kHeaderBytes - 1, ' ');
  header += '\n';
  return header;
}

class NpyWriter : public RowWriter {
 public:
  NpyWriter(AtomicFile file, int64_t dimension)
      : RowWriter(std::move(file)), dimension_(dimension) {}

  absl::Status Begin() { return file_.Append(Header()); }

  absl::Status Add(uint64_t, absl::Span<const float> values) override {
    ++rows_;
    return file_.Append(BytesOf(values.data(), values.size()));
  }
  absl::Status Finish() override { return file_.ReplaceStart(Header()); }

 private:
  std::string Header() const {
    return NpyHeader("<f4", absl::StrCat("(", rows_, ", ", dimension_, ")"));
  }

  const int64_t dimension_;
  int64_t rows_ = 0;
};

class IdWriter : public RowWriter {
 public:
  explicit IdWriter(AtomicFile file) : RowWriter(std::move(file)) {}

  absl::Status Begin() { return file_.Append(Header()); }

  absl::Status Add(uint64_t id, absl::Span<const float>) override {
    ++rows_;
    return file_.Append(BytesOf(&id, 1));
  }
  absl::Status Finish() override { return file_.ReplaceStart(Header()); }

 private:
  std::string Header() const {
    return NpyHeader("<u8", absl::StrCat("(", rows_, ",)"));
  }

  int64_t rows_ = 0;
};

class FvecsWriter : public RowWriter {
 public:
  FvecsWriter(AtomicFile file, int64_t dimension)
      : RowWriter(std::move(file)),
        dimension_(static_cast<int32_t>(dimension)) {}

  static absl::Status Begin() { return absl::OkStatus(); }

  absl::Status Add(uint64_t, absl::Span<const float> values) override {
    absl::Status status = file_.Append(BytesOf(&dimension_, 1));
    if (!status.ok()) return status;
    return file_.Append(BytesOf(values.data(), values.size()));
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const int32_t dimension_;
};

class FbinWriter : public RowWriter {
 public:
  FbinWriter(AtomicFile file, int64_t dimension)
      : RowWriter(std::move(file)), dimension_(dimension) {}

  absl::Status Begin() { return file_.Append(Header()); }

  absl::Status Add(uint64_t, absl::Span<const float> values) override {
    ++rows_;
    return file_.Append(BytesOf(values.data(), values.size()));
  }
  absl::Status Finish() override {
    if (rows_ > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_.path(), ": ", rows_,
                       " rows; fbin holds at most 4294967295: use npy"));
    }
    return file_.ReplaceStart(Header());
  }

 private:
  std::string Header() const {
    const uint32_t header[2] = {static_cast<uint32_t>(rows_),
                                static_cast<uint32_t>(dimension_)};
    return std::string(BytesOf(header, 2));
  }

  const int64_t dimension_;
  int64_t rows_ = 0;
};

class CsvWriter : public RowWriter {
 public:
  CsvWriter(AtomicFile file, int64_t dimension)
      : RowWriter(std::move(file)), dimension_(dimension) {}

  absl::Status Begin() {
    std::string header = "id";
    for (int64_t i = 0; i < dimension_; ++i) {
      absl::StrAppend(&header, ",v", i);
    }
    return file_.Append(absl::StrCat(header, "\n"));
  }

  absl::Status Add(uint64_t id, absl::Span<const float> values) override {
    line_ = absl::StrCat(id);
    for (const float value : values) {
      char digits[32];
      const auto end = std::to_chars(digits, digits + sizeof(digits), value);
      line_.push_back(',');
      line_.append(digits, end.ptr);
    }
    line_.push_back('\n');
    return file_.Append(line_);
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const int64_t dimension_;
  std::string line_;
};

template <typename Writer, typename... Arguments>
absl::StatusOr<std::unique_ptr<RowWriter>> Create(const std::string& path,
                                                  Arguments... arguments) {
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
  if (!file.ok()) return file.status();
  auto writer = std::make_unique<Writer>(*std::move(file), arguments...);
  absl::Status status = writer->Begin();
  if (!status.ok()) return status;
  return writer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowWriter>> CreateRows(const std::string& path,
                                                      RowFormat format,
                                                      int64_t dimension) {
  switch (format) {
    case RowFormat::kNpy:
      return Create<NpyWriter>(path, dimension);
    case RowFormat::kFvecs:
      return Create<FvecsWriter>(path, dimension);
    case RowFormat::kFbin:
      return Create<FbinWriter>(path, dimension);
    case RowFormat::kCsv:
      return Create<CsvWriter>(path, dimension);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", RowFormatName(format),
                       " cannot hold every vector; expected npy, fvecs, fbin "
                       "or csv"));
  }
}

absl::StatusOr<std::unique_ptr<RowWriter>> CreateIds(const std::string& path) {
  return Create<IdWriter>(path);
}

}  // namespace coterie
