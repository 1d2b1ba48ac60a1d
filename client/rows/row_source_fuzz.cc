// Any bytes as a file of any format that the importer reads: an error that
// names the file, or rows that agree with what the reader said of them.
//
// The first byte chooses the reader, the second how it reads; the rest is the
// file. Letters, so that the corpus can be read.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "api/quoted.h"
#include "client/rows/json_attributes.h"
#include "client/rows/row_source.h"
#include "client/rows/side_files.h"

namespace {

using coterie::Attributes;

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

void RequireRefusal(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument,
          "refusals are INVALID_ARGUMENT");
  Require(absl::StartsWith(status.message(), "f.x"), "refusals name the file");
  Require(status.message().size() < 1000, "refusals are short");
  Require(coterie::IsValidUtf8(status.message()), "refusals are UTF-8");
  for (const char c : status.message()) {
    const auto byte = static_cast<unsigned char>(c);
    Require(byte >= 0x20 && byte != 0x7f, "refusals are printable");
  }
}

void RequireSound(const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    Require(coterie::IsValidUtf8(name), "names are UTF-8");
    const auto* real = std::get_if<double>(&value);
    Require(real == nullptr || !std::isnan(*real), "doubles are no NaN");
    const auto* text = std::get_if<std::string>(&value);
    Require(text == nullptr || coterie::IsValidUtf8(*text), "text is UTF-8");
  }
  const auto again =
      coterie::ParseAttributes(coterie::FormatAttributes(attributes));
  Require(again.ok() && *again == attributes, "attributes come back");
}

coterie::RowOptions OptionsOf(char how) {
  coterie::RowOptions options;
  if ((how & 4) != 0) {
    options.zero_based = true;
    options.attribute_columns = {"name"};
  }
  if ((how & 1) != 0) options.id_column = "id";
  if ((how & 8) != 0) {
    options.id_column = "1";
    options.header = coterie::CsvHeader::kNo;
    options.label.clear();
  }
  return options;
}

void TryRows(coterie::InputFile file, coterie::RowFormat format, char how) {
  const int64_t bytes = file.bytes;
  auto source = coterie::OpenRows(std::move(file), format, OptionsOf(how));
  if (!source.ok()) return RequireRefusal(source.status());
  coterie::RowSource& rows = **source;
  Require(rows.dimension() >= 1 && rows.dimension() <= coterie::kMaxDimension,
          "the dimension is in range");
  Require(rows.rows() >= 0 && rows.rows() <= bytes, "rows have bytes");
  int64_t read = std::min<int64_t>(rows.rows(), how % 3);
  absl::Status status = rows.Skip(read);
  coterie::RowBlock block;
  // Sparse rows may be a thousand times their text.
  const int64_t at_once = 1 + how % 4;
  while (status.ok() && read < 1000) {
    status = rows.Read(at_once, &block);
    if (!status.ok() || block.rows == 0) break;
    read += block.rows;
    Require(static_cast<int64_t>(block.values.size()) ==
                block.rows * rows.dimension(),
            "every row has every component");
    for (const float value : block.values) {
      Require(std::isfinite(value), "values are finite");
    }
    Require(block.ids.size() ==
                static_cast<size_t>(rows.has_ids() ? block.rows : 0),
            "every row has an id, or none");
    Require(block.attributes.empty() ||
                block.attributes.size() == static_cast<size_t>(block.rows),
            "every row has attributes, or none");
    for (const Attributes& attributes : block.attributes) {
      RequireSound(attributes);
    }
  }
  if (!status.ok()) return RequireRefusal(status);
  Require(read == rows.rows() || read >= 1000, "all rows are read");
}

template <typename T>
std::vector<T> TrySide(
    absl::StatusOr<std::unique_ptr<coterie::SideFile<T>>> file) {
  if (!file.ok()) {
    RequireRefusal(file.status());
    return {};
  }
  std::vector<T> all;
  std::vector<T> some;
  do {
    const absl::Status status = (*file)->Read(3, &some);
    Require(status.ok(), "what was examined can be read");
    all.insert(all.end(), some.begin(), some.end());
  } while (!some.empty());
  Require(static_cast<int64_t>(all.size()) == (*file)->rows(),
          "all rows are read");
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const char reader = static_cast<char>(data[0]);
  const char how = static_cast<char>(data[1] & 0x7f);
  coterie::InputFile file = coterie::InputFromBytes(
      std::string(reinterpret_cast<const char*>(data) + 2, size - 2), "f.x");
  const std::string formats = "nfbFuicl";
  if (const size_t at = formats.find(reader); at != std::string::npos) {
    TryRows(std::move(file), static_cast<coterie::RowFormat>(at), how);
  } else if (reader == 'I') {
    const std::vector<uint64_t> ids =
        TrySide<uint64_t>(coterie::OpenIds(std::move(file)));
    Require(std::set<uint64_t>(ids.begin(), ids.end()).size() == ids.size(),
            "no id occurs twice");
  } else if (reader == 'J' || reader == 'A') {
    for (const Attributes& attributes : TrySide<Attributes>(
             coterie::OpenAttributes(std::move(file), reader == 'A', ','))) {
      RequireSound(attributes);
    }
  }
  return 0;
}
