#include "client/rows/row_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/quoted.h"
#include "client/rows/csv_rows.h"
#include "client/rows/fixed_rows.h"
#include "client/rows/libsvm_rows.h"
#include "client/rows/npy_rows.h"

namespace coterie {
namespace {

struct Named {
  RowFormat format;
  absl::string_view name;
  // A second extension; the first is the name.
  absl::string_view extension;
};

constexpr std::array<Named, 8> kFormats = {{
    {RowFormat::kNpy, "npy", ""},
    {RowFormat::kFvecs, "fvecs", ""},
    {RowFormat::kBvecs, "bvecs", ""},
    {RowFormat::kFbin, "fbin", ""},
    {RowFormat::kU8bin, "u8bin", ""},
    {RowFormat::kI8bin, "i8bin", ""},
    {RowFormat::kCsv, "csv", "tsv"},
    {RowFormat::kLibsvm, "libsvm", "svm"},
}};

// Rows skipped at once by formats that have to read them.
constexpr int64_t kSkippedAtOnce = 256;

}  // namespace

void RowBlock::Clear() {
  rows = 0;
  values.clear();
  ids.clear();
  attributes.clear();
}

absl::Status RowSource::SetDimension(int64_t dimension) {
  if (dimension == dimension_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name_, " has ", dimension_, " columns; expected ", dimension));
}

absl::Status RowSource::Skip(int64_t rows) {
  RowBlock block;
  while (rows > 0) {
    absl::Status status = Read(std::min(rows, kSkippedAtOnce), &block);
    if (!status.ok()) return status;
    rows -= block.rows;
  }
  return absl::OkStatus();
}

absl::string_view RowFormatName(RowFormat format) {
  return kFormats[static_cast<size_t>(format)].name;
}

std::string RowFormatNames() {
  return absl::StrJoin(kFormats, ", ",
                       [](std::string* text, const Named& named) {
                         absl::StrAppend(text, named.name);
                       });
}

absl::StatusOr<RowFormat> ParseRowFormat(absl::string_view name) {
  for (const Named& named : kFormats) {
    if (absl::EqualsIgnoreCase(name, named.name)) return named.format;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(name), " is not a format: expected one of ", RowFormatNames()));
}

absl::StatusOr<RowFormat> RowFormatOfPath(absl::string_view path) {
  const size_t slash = path.rfind('/');
  const absl::string_view file =
      slash == absl::string_view::npos ? path : path.substr(slash + 1);
  const size_t dot = file.rfind('.');
  if (dot != absl::string_view::npos) {
    const absl::string_view extension = file.substr(dot + 1);
    for (const Named& named : kFormats) {
      if (absl::EqualsIgnoreCase(extension, named.name) ||
          (!named.extension.empty() &&
           absl::EqualsIgnoreCase(extension, named.extension))) {
        return named.format;
      }
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the name does not tell the format: expected .",
      absl::StrJoin(kFormats, ", .", [](std::string* text, const Named& named) {
        absl::StrAppend(text, named.name);
      })));
}

absl::StatusOr<std::unique_ptr<RowSource>> OpenRows(InputFile file,
                                                    RowFormat format,
                                                    const RowOptions& options) {
  switch (format) {
    case RowFormat::kNpy:
      return OpenNpyRows(std::move(file));
    case RowFormat::kCsv:
      return OpenCsvRows(std::move(file), options);
    case RowFormat::kLibsvm:
      return OpenLibsvmRows(std::move(file), options);
    case RowFormat::kFvecs:
    case RowFormat::kBvecs:
    case RowFormat::kFbin:
    case RowFormat::kU8bin:
    case RowFormat::kI8bin:
      break;
  }
  return OpenFixedRows(std::move(file), format);
}

}  // namespace coterie
