#include "client/rows/csv_attributes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/quoted.h"

namespace coterie {
namespace {

bool IsAbsent(const CsvReader::Field& field) {
  return field.text.empty() && !field.quoted;
}

}  // namespace

void CsvAttributes::Add(size_t column, std::string name,
                        std::optional<ValueType> type) {
  columns_.push_back({column, std::move(name), type, TypeGuess()});
}

absl::Status CsvAttributes::See(const std::vector<CsvReader::Field>& fields,
                                const std::string& where) {
  int64_t bytes = 0;
  for (Column& column : columns_) {
    const CsvReader::Field& field = fields[column.column];
    if (IsAbsent(field)) continue;
    if (!column.type.has_value()) column.guess.See(field.text);
    // Numbers take up to 10 bytes, whatever their text.
    bytes += static_cast<int64_t>(column.name.size() +
                                  std::max<size_t>(field.text.size(), 10));
    absl::StatusOr<AttributeValue> value =
        ParseValue(field.text, column.type.value_or(ValueType::kString));
    if (!value.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ", column ", column.column + 1, " (",
                       Quoted(column.name), ") is ", value.status().message()));
    }
  }
  most_bytes_ = std::max(most_bytes_, bytes);
  return absl::OkStatus();
}

absl::StatusOr<Attributes> CsvAttributes::Take(
    const std::vector<CsvReader::Field>& fields,
    const std::string& where) const {
  Attributes attributes;
  for (const Column& column : columns_) {
    const CsvReader::Field& field = fields[column.column];
    if (IsAbsent(field)) continue;
    absl::StatusOr<AttributeValue> value =
        ParseValue(field.text, column.type.value_or(column.guess.type()));
    if (!value.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": the file has been changed meanwhile"));
    }
    attributes.emplace(column.name, *std::move(value));
  }
  return attributes;
}

}  // namespace coterie
