#include "client/rows/libsvm_rows.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/quoted.h"
#include "client/rows/line_reader.h"
#include "client/rows/number_text.h"

namespace coterie {
namespace {

// kMaxDimension entries of 60 bytes.
constexpr int64_t kMaxLineBytes = 1 << 20;

constexpr char kQid[] = "qid";

struct Line {
  absl::string_view label;
  std::optional<int64_t> qid;
  // (component, value); components ascend.
  std::vector<std::pair<int64_t, float>> entries;
};

// Takes the next word off the front.
absl::string_view TakeWord(absl::string_view* text) {
  *text = absl::StripLeadingAsciiWhitespace(*text);
  const auto end =
      std::find_if(text->begin(), text->end(), absl::ascii_isspace);
  const absl::string_view word = text->substr(0, end - text->begin());
  text->remove_prefix(word.size());
  return word;
}

class LibsvmRows : public RowSource {
 public:
  LibsvmRows(LineReader reader, const RowOptions& options)
      : RowSource(reader.name(), 0, 0),
        reader_(std::move(reader)),
        zero_based_(options.zero_based),
        label_(options.label) {}

  // Reads all: finds faults, counts rows and types labels.
  absl::Status Examine() {
    TypeGuess labels;
    Line line;
    while (true) {
      absl::StatusOr<bool> more = Next(&line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      ++rows_;
      labels.See(line.label);
      if (!line.entries.empty()) {
        dimension_ = std::max(dimension_, line.entries.back().first + 1);
      }
      has_qid_ = has_qid_ || line.qid.has_value();
    }
    if (dimension_ == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": no index:value in ", rows_,
                       " rows; expected lines like: +1 3:0.5 17:1"));
    }
    label_type_ =
        labels.type() == ValueType::kInt ? ValueType::kInt : ValueType::kDouble;
    reader_.Rewind();
    return absl::OkStatus();
  }

  int64_t attribute_bytes() const override {
    // Names, and a number each.
    return static_cast<int64_t>(label_.size() + sizeof(kQid)) + 16;
  }

  absl::Status SetDimension(int64_t dimension) override {
    if (dimension < dimension_) {
      return absl::InvalidArgumentError(absl::StrCat(
          name_, " has an index of component ", dimension_ - 1,
          " (counted from 0); expected dimension ", dimension, " at most"));
    }
    dimension_ = dimension;
    return absl::OkStatus();
  }

  absl::Status Read(int64_t max_rows, RowBlock* block) override {
    block->Clear();
    const int64_t count = std::min(max_rows, rows_ - next_row_);
    block->values.assign(count * dimension_, 0);
    for (; block->rows < count; ++block->rows, ++next_row_) {
      absl::StatusOr<bool> more = Next(&line_);
      if (!more.ok()) return more.status();
      const bool fits = *more && (line_.entries.empty() ||
                                  line_.entries.back().first < dimension_);
      if (!fits) {
        return absl::InvalidArgumentError(absl::StrCat(
            reader_.Where(), ": the file has been changed meanwhile"));
      }
      float* const row = block->values.data() + block->rows * dimension_;
      for (const auto& [component, value] : line_.entries) {
        row[component] = value;
      }
      absl::Status status = KeepAttributes(block);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Refuse(absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(reader_.Where(), ": ", why));
  }

  absl::Status KeepAttributes(RowBlock* block) const {
    if (label_.empty() && !has_qid_) return absl::OkStatus();
    Attributes attributes;
    if (line_.qid.has_value()) attributes[kQid] = *line_.qid;
    if (!label_.empty()) {
      absl::StatusOr<AttributeValue> label =
          ParseValue(line_.label, label_type_);
      if (!label.ok()) return Refuse("the file has been changed meanwhile");
      attributes[label_] = *std::move(label);
    }
    block->attributes.push_back(std::move(attributes));
    return absl::OkStatus();
  }

  // The next line that is a row; false at the end.
  absl::StatusOr<bool> Next(Line* line) {
    while (true) {
      absl::StatusOr<bool> more = reader_.Next(&text_);
      if (!more.ok() || !*more) return more;
      absl::string_view rest = text_;
      rest = absl::StripAsciiWhitespace(rest.substr(0, rest.find('#')));
      if (rest.empty()) continue;
      absl::Status status = Parse(rest, line);
      if (!status.ok()) return status;
      return true;
    }
  }

  absl::Status Parse(absl::string_view rest, Line* line) const {
    line->label = TakeWord(&rest);
    line->qid.reset();
    line->entries.clear();
    const std::optional<double> label = ParseDouble(line->label);
    if (!label.has_value() || !std::isfinite(*label)) {
      return Refuse(
          absl::StrCat("the label is ", Quoted(line->label),
                       "; expected a number, then index:value pairs"));
    }
    while (true) {
      const absl::string_view word = TakeWord(&rest);
      if (word.empty()) return absl::OkStatus();
      absl::Status status = ParseEntry(word, line);
      if (!status.ok()) return status;
    }
  }

  absl::Status ParseEntry(absl::string_view word, Line* line) const {
    const size_t colon = word.find(':');
    if (colon == absl::string_view::npos) {
      return Refuse(absl::StrCat(Quoted(word), "; expected index:value"));
    }
    const absl::string_view index_text = word.substr(0, colon);
    const absl::string_view value_text = word.substr(colon + 1);
    const std::optional<int64_t> index =
        ParseInteger(index_text == kQid ? value_text : index_text);
    if (!index.has_value()) {
      return Refuse(absl::StrCat(Quoted(word), "; expected index:value"));
    }
    if (index_text == kQid) {
      line->qid = index;
      return absl::OkStatus();
    }
    const int64_t component = zero_based_ ? *index : *index - 1;
    absl::Status status = CheckIndex(*index, component, *line);
    if (!status.ok()) return status;
    const std::optional<float> value = ParseFloat(value_text);
    if (!value.has_value() || !std::isfinite(*value)) {
      return Refuse(absl::StrCat("value of index ", *index, " is ",
                                 NotAComponent(value_text)));
    }
    line->entries.emplace_back(component, *value);
    return absl::OkStatus();
  }

  absl::Status CheckIndex(int64_t index, int64_t component,
                          const Line& line) const {
    if (component < 0) {
      return Refuse(absl::StrCat(
          "index ", index, "; expected 1 or more",
          index == 0 ? ", unless indices count from 0 (--zero-based)" : ""));
    }
    if (component >= kMaxDimension) {
      return Refuse(absl::StrCat("index ", index, "; the largest dimension is ",
                                 kMaxDimension));
    }
    if (line.entries.empty() || line.entries.back().first < component) {
      return absl::OkStatus();
    }
    const int64_t before = line.entries.back().first + (zero_based_ ? 0 : 1);
    return Refuse(absl::StrCat("index ", index, " follows ", before,
                               "; expected indices that ascend"));
  }

  LineReader reader_;
  const bool zero_based_;
  const std::string label_;
  ValueType label_type_ = ValueType::kDouble;
  bool has_qid_ = false;
  int64_t next_row_ = 0;
  std::string text_;
  Line line_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowSource>> OpenLibsvmRows(
    InputFile file, const RowOptions& options) {
  auto rows = std::make_unique<LibsvmRows>(
      LineReader(std::move(file), kMaxLineBytes), options);
  absl::Status status = rows->Examine();
  if (!status.ok()) return status;
  return rows;
}

}  // namespace coterie
