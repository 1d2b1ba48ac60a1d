#include "client/rows/csv_rows.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "api/quoted.h"
#include "client/numbers.h"
#include "client/rows/csv_attributes.h"
#include "client/rows/csv_reader.h"
#include "client/rows/id_check.h"
#include "client/rows/number_text.h"

namespace coterie {
namespace {

using Fields = std::vector<CsvReader::Field>;

// A column as the user names it.
struct Selector {
  std::string name;
  std::optional<ValueType> type;

  // From 0, if the name is a number.
  std::optional<size_t> number() const {
    uint32_t value = 0;
    const bool digits = !name.empty() && std::all_of(name.begin(), name.end(),
                                                     absl::ascii_isdigit);
    if (!digits || !absl::SimpleAtoi(name, &value) || value == 0) {
      return std::nullopt;
    }
    return value - 1;
  }
};

Selector ParseSelector(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text, std::nullopt};
  const std::optional<ValueType> type = ParseValueType(text.substr(colon + 1));
  // A name may hold a colon of its own.
  if (!type.has_value()) return {text, std::nullopt};
  return {text.substr(0, colon), type};
}

class CsvRows : public RowSource {
 public:
  CsvRows(CsvReader reader, const RowOptions& options)
      : RowSource(reader.name(), 0, 0),
        reader_(std::move(reader)),
        header_(options.header) {
    for (const std::string& text : options.attribute_columns) {
      selectors_.push_back(ParseSelector(text));
    }
    if (!options.id_column.empty()) id_selector_ = {options.id_column, {}};
  }

  // Reads all: finds faults, counts rows and types columns.
  absl::Status Examine() {
    absl::Status status = ExamineFirst();
    if (!status.ok()) return status;
    IdCheck ids;
    while (true) {
      absl::StatusOr<bool> more = Next();
      if (!more.ok()) return more.status();
      if (!*more) break;
      status = ExamineRecord(&ids);
      if (!status.ok()) return status;
      ++rows_;
    }
    if (const std::optional<uint64_t> twice = ids.FindDuplicate()) {
      return DescribeDuplicate(*twice);
    }
    return Restart();
  }

  bool has_ids() const override { return id_column_.has_value(); }
  int64_t attribute_bytes() const override { return attributes_.most_bytes(); }

  absl::Status Read(int64_t max_rows, RowBlock* block) override {
    block->Clear();
    const int64_t count = std::min(max_rows, rows_ - next_row_);
    block->values.reserve(count * dimension_);
    for (; block->rows < count; ++block->rows, ++next_row_) {
      absl::StatusOr<bool> more = Next();
      if (!more.ok()) return more.status();
      if (!*more) return Refuse("the file has been changed meanwhile");
      absl::Status status = Keep(block);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Refuse(absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(reader_.Where(), ": ", why));
  }

  // `column (name)`, for messages.
  std::string ColumnText(size_t column) const {
    std::string text = absl::StrCat(", column ", column + 1);
    if (has_header_) absl::StrAppend(&text, " (", Quoted(names_[column]), ")");
    return absl::StrCat(reader_.Where(), text);
  }

  // Columns and whether there is a header, from the first record.
  absl::Status ExamineFirst() {
    absl::StatusOr<bool> more = reader_.Next(&fields_);
    if (!more.ok()) return more.status();
    if (!*more) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": no records; expected rows of numbers"));
    }
    for (const CsvReader::Field& field : fields_) {
      names_.emplace_back(absl::StripAsciiWhitespace(field.text));
    }
    // Until columns are known, what looks like one is not known either.
    has_header_ = header_ != CsvHeader::kNo;
    absl::Status status = ResolveColumns();
    if (!status.ok()) return status;
    has_header_ = header_ == CsvHeader::kYes ||
                  (header_ == CsvHeader::kGuess && LooksLikeHeader());
    if (!has_header_) {
      for (size_t i = 0; i < names_.size(); ++i) {
        names_[i] = absl::StrCat(i + 1);
      }
    }
    for (size_t i = 0; i < selectors_.size(); ++i) {
      attributes_.Add(attribute_columns_[i], names_[attribute_columns_[i]],
                      selectors_[i].type);
    }
    return Restart();
  }

  absl::Status ResolveColumns() {
    std::vector<bool> taken(names_.size());
    if (id_selector_.has_value()) {
      absl::StatusOr<size_t> column = Resolve(*id_selector_, &taken);
      if (!column.ok()) return column.status();
      id_column_ = *column;
    }
    for (const Selector& selector : selectors_) {
      absl::StatusOr<size_t> column = Resolve(selector, &taken);
      if (!column.ok()) return column.status();
      attribute_columns_.push_back(*column);
    }
    for (size_t i = 0; i < names_.size(); ++i) {
      if (!taken[i]) components_.push_back(i);
    }
    dimension_ = static_cast<int64_t>(components_.size());
    if (dimension_ >= 1 && dimension_ <= kMaxDimension) return absl::OkStatus();
    return Refuse(absl::StrCat(dimension_, " columns are left for the vector; ",
                               "expected 1..", kMaxDimension));
  }

  absl::StatusOr<size_t> Resolve(const Selector& selector,
                                 std::vector<bool>* taken) {
    std::optional<size_t> column;
    const auto named = std::find(names_.begin(), names_.end(), selector.name);
    // A number is a name only where a header is certain.
    const bool by_name = header_ == CsvHeader::kYes ||
                         (has_header_ && !selector.number().has_value());
    if (by_name && named != names_.end()) {
      column = named - names_.begin();
      asked_by_name_ = true;
    } else {
      column = selector.number();
    }
    if (!column.has_value() || *column >= names_.size()) {
      return Refuse(absl::StrCat("no column ", Quoted(selector.name), " among ",
                                 names_.size(),
                                 has_header_ ? ""
                                             : ": without a header they "
                                               "are named by number"));
    }
    if ((*taken)[*column]) {
      return Refuse(absl::StrCat("column ", Quoted(selector.name),
                                 " is asked for twice"));
    }
    (*taken)[*column] = true;
    return *column;
  }

  bool LooksLikeHeader() const {
    return asked_by_name_ ||
           std::any_of(components_.begin(), components_.end(), [&](size_t i) {
             return !ParseFloat(fields_[i].text).has_value();
           });
  }

  // To the first record that is a row.
  absl::Status Restart() {
    reader_.Rewind();
    if (!has_header_) return absl::OkStatus();
    return reader_.Next(&fields_).status();
  }

  absl::StatusOr<bool> Next() {
    absl::StatusOr<bool> more = reader_.Next(&fields_);
    if (!more.ok() || !*more || fields_.size() == names_.size()) return more;
    return Refuse(
        absl::StrCat(Plural(static_cast<int64_t>(fields_.size()), "field"),
                     "; the first record has ", names_.size()));
  }

  absl::StatusOr<float> Component(size_t column) const {
    const std::optional<float> value = ParseFloat(fields_[column].text);
    if (value.has_value() && std::isfinite(*value)) return *value;
    return absl::InvalidArgumentError(absl::StrCat(
        ColumnText(column), " is ", NotAComponent(fields_[column].text)));
  }

  absl::StatusOr<uint64_t> Id() const {
    absl::StatusOr<uint64_t> id =
        ParsePointId(absl::StripAsciiWhitespace(fields_[*id_column_].text));
    if (id.ok()) return id;
    return absl::InvalidArgumentError(
        absl::StrCat(ColumnText(*id_column_), ": ", id.status().message()));
  }

  absl::Status ExamineRecord(IdCheck* ids) {
    for (const size_t column : components_) {
      absl::StatusOr<float> value = Component(column);
      if (!value.ok()) return value.status();
    }
    if (id_column_.has_value()) {
      absl::StatusOr<uint64_t> id = Id();
      if (!id.ok()) return id.status();
      ids->Add(*id);
    }
    return attributes_.See(fields_, reader_.Where());
  }

  absl::Status Keep(RowBlock* block) const {
    for (const size_t column : components_) {
      absl::StatusOr<float> value = Component(column);
      if (!value.ok()) return value.status();
      block->values.push_back(*value);
    }
    if (id_column_.has_value()) {
      absl::StatusOr<uint64_t> id = Id();
      if (!id.ok()) return id.status();
      block->ids.push_back(*id);
    }
    if (attributes_.empty()) return absl::OkStatus();
    absl::StatusOr<Attributes> attributes =
        attributes_.Take(fields_, reader_.Where());
    if (!attributes.ok()) return attributes.status();
    block->attributes.push_back(*std::move(attributes));
    return absl::OkStatus();
  }

  // Names the lines of an id that occurs twice.
  absl::Status DescribeDuplicate(uint64_t twice) {
    absl::Status status = Restart();
    std::optional<int64_t> first;
    while (status.ok()) {
      absl::StatusOr<bool> more = Next();
      if (!more.ok() || !*more) break;
      absl::StatusOr<uint64_t> id = Id();
      if (!id.ok() || *id != twice) continue;
      if (first.has_value()) {
        return Refuse(absl::StrCat("id ", twice, " is that of line ", *first,
                                   " already"));
      }
      first = reader_.line();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": id ", twice, " occurs more than once"));
  }

  CsvReader reader_;
  const CsvHeader header_;
  std::optional<Selector> id_selector_;
  std::vector<Selector> selectors_;

  bool has_header_ = false;
  bool asked_by_name_ = false;
  std::vector<std::string> names_;
  std::optional<size_t> id_column_;
  std::vector<size_t> attribute_columns_;
  std::vector<size_t> components_;
  CsvAttributes attributes_;
  int64_t next_row_ = 0;
  Fields fields_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowSource>> OpenCsvRows(
    InputFile file, const RowOptions& options) {
  auto rows = std::make_unique<CsvRows>(
      CsvReader(std::move(file), options.delimiter), options);
  absl::Status status = rows->Examine();
  if (!status.ok()) return status;
  return rows;
}

}  // namespace coterie
