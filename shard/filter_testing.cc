#include "shard/filter_testing.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

std::string Name(std::mt19937_64& random) {
  return absl::StrCat("a", random() % 4);
}

std::string Text(std::mt19937_64& random) {
  static const std::vector<std::string> texts = {"", "1", "true", "x", "xy"};
  return random() % 3 == 0 ? absl::StrCat("t", random() % 300)
                           : texts[random() % texts.size()];
}

int64_t Whole(std::mt19937_64& random) {
  static const std::vector<int64_t> wholes = {
      0,
      1,
      -1,
      (int64_t{1} << 53),
      (int64_t{1} << 53) + 1,
      -(int64_t{1} << 53) - 1,
      std::numeric_limits<int64_t>::max(),
      std::numeric_limits<int64_t>::min()};
  return random() % 2 == 0 ? wholes[random() % wholes.size()]
                           : static_cast<int64_t>(random() % 200) - 100;
}

double Real(std::mt19937_64& random) {
  static const std::vector<double> reals = {
      0.0,
      -0.0,
      0.5,
      -1.0,
      0x1p53,
      0x1p63,
      -0x1p63,
      std::numeric_limits<double>::infinity(),
      -std::numeric_limits<double>::infinity()};
  return random() % 2 == 0 ? reals[random() % reals.size()]
                           : static_cast<double>(random() % 400) / 2 - 100;
}

AttributeValue Value(std::mt19937_64& random) {
  switch (random() % 5) {
    case 0:
      return Text(random);
    case 1:
      return Whole(random);
    case 2:
      return Real(random);
    case 3:
      return random() % 2 == 0;
    default:
      break;
  }
  std::vector<std::string> list(random() % 4);
  for (std::string& text : list) text = Text(random);
  return list;
}

RangeCondition RandomRange(std::mt19937_64& random) {
  RangeCondition range{Name(random), {}, {}};
  const auto bound = [&random] {
    return RangeCondition::Bound{Real(random), random() % 2 == 0};
  };
  const uint64_t sides = random() % 3;
  if (sides != 0) range.lower = bound();
  if (sides != 1) range.upper = bound();
  return range;
}

Condition RandomCondition(absl::Span<const PointId> ids,
                          std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      return HasAttributeCondition{Name(random)};
    case 1: {
      IdCondition condition;
      for (int i = 0; i < 5; ++i) {
        condition.ids.push_back(ids.empty() || random() % 4 == 0
                                    ? random()
                                    : ids[random() % ids.size()]);
      }
      std::sort(condition.ids.begin(), condition.ids.end());
      return condition;
    }
    case 2:
    case 3:
    case 4:
      return RandomRange(random);
    default:
      break;
  }
  MatchCondition match{Name(random), {}};
  for (uint64_t i = random() % 3 + 1; i > 0; --i) {
    const uint64_t kind = random() % 4;
    match.any_of.push_back(kind < 2    ? AttributeValue(Text(random))
                           : kind == 2 ? AttributeValue(Whole(random))
                                       : AttributeValue(random() % 2 == 0));
  }
  std::sort(match.any_of.begin(), match.any_of.end());
  return match;
}

}  // namespace

Attributes AnyAttributes(std::mt19937_64& random) {
  Attributes attributes;
  for (uint64_t i = random() % 5; i > 0; --i) {
    attributes[Name(random)] = Value(random);
  }
  return attributes;
}

Filter AnyFilter(absl::Span<const PointId> ids, std::mt19937_64& random) {
  Filter filter;
  for (uint64_t i = random() % 5 + 1; i > 0; --i) {
    std::vector<Condition>* const lists[] = {&filter.must, &filter.should,
                                             &filter.must_not};
    lists[random() % 3]->push_back(RandomCondition(ids, random));
  }
  return filter;
}

}  // namespace coterie
