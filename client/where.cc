#include "client/where.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace coterie {

const char kWhereHelp[] =
    "--where takes one condition and may be repeated: all have to hold.\n"
    "  lang=en,de  year!=1999  score>=0.5  title (has it)  !title (has not)\n"
    "A value that reads as an integer, true or false stands for that and for "
    "the\ntext; in double quotes it is text: code=\"7\".";

namespace {

absl::Status Bad(absl::string_view condition, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--where '", condition, "': ", why));
}

// Takes the next value of a list, and whether it was quoted, off `rest`.
absl::Status TakeValue(absl::string_view* rest, std::string* value,
                       bool* quoted) {
  *quoted = !rest->empty() && rest->front() == '"';
  size_t end = 0;
  if (*quoted) {
    end = rest->find('"', 1);
    if (end == absl::string_view::npos) {
      return absl::InvalidArgumentError("a quote is not closed");
    }
    *value = std::string(rest->substr(1, end - 1));
    ++end;
    if (end < rest->size() && (*rest)[end] != ',') {
      return absl::InvalidArgumentError("a comma is missing after a quote");
    }
  } else {
    end = std::min(rest->find(','), rest->size());
    *value = std::string(rest->substr(0, end));
    if (value->empty()) {
      return absl::InvalidArgumentError(
          "a value is missing; the empty text is \"\"");
    }
  }
  rest->remove_prefix(end);
  return absl::OkStatus();
}

absl::Status ParseValues(absl::string_view text, v1::MatchCondition* match) {
  for (;;) {
    std::string value;
    bool quoted = false;
    absl::Status status = TakeValue(&text, &value, &quoted);
    if (!status.ok()) return status;
    match->add_any_of()->set_string_value(value);
    int64_t number = 0;
    if (!quoted && absl::SimpleAtoi(value, &number)) {
      match->add_any_of()->set_int_value(number);
    }
    if (!quoted && (value == "true" || value == "false")) {
      match->add_any_of()->set_bool_value(value == "true");
    }
    if (text.empty()) return absl::OkStatus();
    text.remove_prefix(1);  // the comma
  }
}

absl::Status ParseBound(absl::string_view relation, absl::string_view text,
                        v1::RangeCondition* range) {
  double bound = 0;
  if (!absl::SimpleAtod(text, &bound) || std::isnan(bound)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a number"));
  }
  if (relation == ">=") {
    range->set_gte(bound);
  } else if (relation == ">") {
    range->set_gt(bound);
  } else if (relation == "<=") {
    range->set_lte(bound);
  } else {
    range->set_lt(bound);
  }
  return absl::OkStatus();
}

absl::Status ParseOne(absl::string_view text, v1::Filter* filter) {
  const bool absent = !text.empty() && text.front() == '!';
  const absl::string_view rest = text.substr(absent ? 1 : 0);
  const size_t name_end = std::min(rest.find_first_of("!=<>"), rest.size());
  const std::string name(rest.substr(0, name_end));
  const absl::string_view relation_on = rest.substr(name_end);
  if (name.empty()) {
    return absl::InvalidArgumentError("it names no attribute");
  }
  if (relation_on.empty()) {
    (absent ? filter->add_must_not() : filter->add_must())
        ->mutable_has_attribute()
        ->set_attribute(name);
    return absl::OkStatus();
  }
  if (absent) {
    return absl::InvalidArgumentError("not: name!=value");
  }
  for (const absl::string_view relation : {"!=", ">=", "<=", "=", ">", "<"}) {
    if (relation_on.substr(0, relation.size()) != relation) continue;
    const absl::string_view value = relation_on.substr(relation.size());
    v1::Condition* condition =
        relation == "!=" ? filter->add_must_not() : filter->add_must();
    if (relation == "=" || relation == "!=") {
      condition->mutable_match()->set_attribute(name);
      return ParseValues(value, condition->mutable_match());
    }
    condition->mutable_range()->set_attribute(name);
    return ParseBound(relation, value, condition->mutable_range());
  }
  return absl::InvalidArgumentError("after ! comes =");
}

}  // namespace

absl::StatusOr<v1::Filter> ParseWhere(
    const std::vector<std::string>& conditions) {
  v1::Filter filter;
  for (const std::string& condition : conditions) {
    absl::Status status = ParseOne(condition, &filter);
    if (!status.ok()) return Bad(condition, status.message());
  }
  return filter;
}

}  // namespace coterie
