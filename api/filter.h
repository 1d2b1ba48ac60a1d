// Which points a call speaks of: typed conditions on attributes and ids.
// Immutable once built; any thread.

#ifndef COTERIE_API_FILTER_H_
#define COTERIE_API_FILTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/point.h"

namespace coterie {

// Equal to one of the values and of the same type; a list of strings matches
// if it holds a wanted string. Values: string, int64 or bool.
struct MatchCondition {
  std::string attribute;
  std::vector<AttributeValue> any_of;  // sorted

  friend bool operator==(const MatchCondition&,
                         const MatchCondition&) = default;
};

// A number within bounds. int64 values are compared exactly, not through
// double.
struct RangeCondition {
  struct Bound {
    double value = 0;
    bool inclusive = true;

    friend bool operator==(const Bound&, const Bound&) = default;
  };
  std::string attribute;
  std::optional<Bound> lower;
  std::optional<Bound> upper;

  // Whether a number keeps to one of the bounds, given or not. Of ascending
  // numbers, those that do not reach the lower come first, those beyond the
  // upper last. A NaN keeps to no bound that is given.
  bool ReachesLower(int64_t number) const;
  bool ReachesLower(double number) const;
  bool WithinUpper(int64_t number) const;
  bool WithinUpper(double number) const;

  friend bool operator==(const RangeCondition&,
                         const RangeCondition&) = default;
};

struct HasAttributeCondition {
  std::string attribute;

  friend bool operator==(const HasAttributeCondition&,
                         const HasAttributeCondition&) = default;
};

struct IdCondition {
  std::vector<PointId> ids;  // sorted

  friend bool operator==(const IdCondition&, const IdCondition&) = default;
};

using Condition = std::variant<MatchCondition, RangeCondition,
                               HasAttributeCondition, IdCondition>;

// All of must, none of must_not, and one of should unless that is empty.
struct Filter {
  std::vector<Condition> must;
  std::vector<Condition> should;
  std::vector<Condition> must_not;

  bool empty() const {
    return must.empty() && should.empty() && must_not.empty();
  }

  friend bool operator==(const Filter&, const Filter&) = default;
};

// Whether the filter admits a point. An absent attribute passes no condition.
// REQUIRES: values and ids of conditions are sorted. O(conditions x log values
// x length of a list).
bool Admits(const Filter& filter, PointId id, const Attributes& attributes);

}  // namespace coterie

#endif  // COTERIE_API_FILTER_H_
