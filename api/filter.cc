#include "api/filter.h"

#include <algorithm>
#include <compare>
#include <limits>

namespace coterie {
namespace {

// Exact order of an integer and a double; NaN is unordered. Comparing through
// double would take 2^53 + 1 for 2^53.
std::partial_ordering Compare(int64_t a, double b) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (b != b) return std::partial_ordering::unordered;
  if (b >= kTwoTo63) return std::partial_ordering::less;
  if (b < -kTwoTo63) return std::partial_ordering::greater;
  const auto whole = static_cast<int64_t>(b);  // toward zero, exact
  if (a != whole) return a <=> whole;
  // A double with a fraction is below 2^53, so the difference is exact.
  return 0.0 <=> b - static_cast<double>(whole);
}

// Strings come before values of other kinds.
struct TextBefore {
  bool operator()(const AttributeValue& wanted, const std::string& text) const {
    const auto* const value = std::get_if<std::string>(&wanted);
    return value != nullptr && *value < text;
  }
  bool operator()(const std::string& text, const AttributeValue& wanted) const {
    const auto* const value = std::get_if<std::string>(&wanted);
    return value == nullptr || text < *value;
  }
};

bool Matches(const std::vector<AttributeValue>& any_of,
             const AttributeValue& stored) {
  const auto* const list = std::get_if<std::vector<std::string>>(&stored);
  if (list == nullptr) {  // values of other kinds are not equal
    return std::binary_search(any_of.begin(), any_of.end(), stored);
  }
  return std::any_of(list->begin(), list->end(), [&](const std::string& text) {
    return std::binary_search(any_of.begin(), any_of.end(), text, TextBefore());
  });
}

std::partial_ordering Compare(double a, double b) { return a <=> b; }

template <typename Number>
bool Reaches(const std::optional<RangeCondition::Bound>& lower, Number number) {
  if (!lower.has_value()) return true;
  const std::partial_ordering order = Compare(number, lower->value);
  return lower->inclusive ? order >= 0 : order > 0;
}

template <typename Number>
bool Keeps(const std::optional<RangeCondition::Bound>& upper, Number number) {
  if (!upper.has_value()) return true;
  const std::partial_ordering order = Compare(number, upper->value);
  return upper->inclusive ? order <= 0 : order < 0;
}

bool Within(const RangeCondition& range, const AttributeValue& stored) {
  if (const auto* whole = std::get_if<int64_t>(&stored)) {
    return range.ReachesLower(*whole) && range.WithinUpper(*whole);
  }
  const auto* real = std::get_if<double>(&stored);
  return real != nullptr && range.ReachesLower(*real) &&
         range.WithinUpper(*real);
}

// Whether one point passes one condition.
class Passes {
 public:
  Passes(PointId id, const Attributes& attributes)
      : id_(id), attributes_(attributes) {}

  bool operator()(const MatchCondition& match) const {
    const AttributeValue* stored = Find(match.attribute);
    return stored != nullptr && Matches(match.any_of, *stored);
  }

  bool operator()(const RangeCondition& range) const {
    const AttributeValue* stored = Find(range.attribute);
    return stored != nullptr && Within(range, *stored);
  }

  bool operator()(const HasAttributeCondition& has) const {
    return Find(has.attribute) != nullptr;
  }

  bool operator()(const IdCondition& ids) const {
    return std::binary_search(ids.ids.begin(), ids.ids.end(), id_);
  }

  bool operator()(const Condition& condition) const {
    return std::visit(*this, condition);
  }

 private:
  const AttributeValue* Find(const std::string& key) const {
    const auto it = attributes_.find(key);
    return it == attributes_.end() ? nullptr : &it->second;
  }

  const PointId id_;
  const Attributes& attributes_;
};

}  // namespace

bool RangeCondition::ReachesLower(int64_t number) const {
  return Reaches(lower, number);
}
bool RangeCondition::ReachesLower(double number) const {
  return Reaches(lower, number);
}
bool RangeCondition::WithinUpper(int64_t number) const {
  return Keeps(upper, number);
}
bool RangeCondition::WithinUpper(double number) const {
  return Keeps(upper, number);
}

bool Admits(const Filter& filter, PointId id, const Attributes& attributes) {
  const Passes passes(id, attributes);
  return std::all_of(filter.must.begin(), filter.must.end(), passes) &&
         std::none_of(filter.must_not.begin(), filter.must_not.end(), passes) &&
         (filter.should.empty() ||
          std::any_of(filter.should.begin(), filter.should.end(), passes));
}

}  // namespace coterie
