#include "shard/attribute_columns.h"

#include <utility>
#include <variant>

#include "shard/attribute_column.h"

namespace coterie {

using internal_attributes::AddRows;
using internal_attributes::Column;

// --- Admission --------------------------------------------------------------

void Admission::IntersectWith(const Admission& other) {
  if (possible.has_value() || other.possible.has_value()) {
    if (!possible.has_value()) possible = sure;
    possible->IntersectWith(other.widest());
  }
  sure.IntersectWith(other.sure);
}

void Admission::UnionWith(const Admission& other) {
  if (possible.has_value() || other.possible.has_value()) {
    if (!possible.has_value()) possible = sure;
    possible->UnionWith(other.widest());
  }
  sure.UnionWith(other.sure);
}

void Admission::Subtract(const Admission& other) {
  if (possible.has_value() || other.possible.has_value()) {
    if (!possible.has_value()) possible = sure;
    possible->Subtract(other.sure);
  }
  sure.Subtract(other.widest());
}

void Admission::Remove(const RowSet& rows) {
  if (possible.has_value()) possible->Subtract(rows);
  sure.Subtract(rows);
}

void Admission::Set(int64_t row, bool admitted) {
  for (RowSet* rows : {&sure, possible.has_value() ? &*possible : &sure}) {
    if (admitted) {
      rows->Add(row);
    } else {
      rows->Remove(row);
    }
  }
}

// --- The columns ------------------------------------------------------------

namespace {

// What one condition makes of the rows of `columns`.
template <typename Impl>
class Trial {
 public:
  Trial(const Impl& impl, int64_t size, RowsOfIds rows_of_ids)
      : impl_(impl), size_(size), rows_of_ids_(rows_of_ids) {}

  Admission operator()(const MatchCondition& match) const {
    return With(match.attribute, /*values=*/true,
                [&](const Column& column, RowSet* rows) {
                  for (const AttributeValue& value : match.any_of) {
                    column.AddMatching(value, rows);
                  }
                });
  }

  Admission operator()(const RangeCondition& range) const {
    return With(range.attribute, /*values=*/true,
                [&](const Column& column, RowSet* rows) {
                  column.ints.AddWithin(range, rows);
                  column.doubles.AddWithin(range, rows);
                });
  }

  Admission operator()(const HasAttributeCondition& has) const {
    return With(has.attribute, /*values=*/false,
                [](const Column& column, RowSet* rows) {
                  AddRows(column.present, rows);
                });
  }

  Admission operator()(const IdCondition& ids) const {
    return {rows_of_ids_(ids)};
  }

  Admission operator()(const Condition& condition) const {
    return std::visit(*this, condition);
  }

 private:
  // `add` adds the rows of a column that pass.
  template <typename Add>
  Admission With(const std::string& attribute, bool values, Add add) const {
    Admission admission{RowSet(size_)};
    if (impl_.opaque) {
      admission.possible = impl_.Covered(size_);
      return admission;
    }
    const auto found = impl_.columns.find(attribute);
    if (found == impl_.columns.end()) return admission;
    const Column& column = found->second;
    if (values && !column.has_values) {
      admission.possible = RowSet(size_);
      AddRows(column.present, &*admission.possible);
    } else {
      add(column, &admission.sure);
    }
    return admission;
  }

  const Impl& impl_;
  const int64_t size_;
  const RowsOfIds rows_of_ids_;
};

}  // namespace

AttributeColumns::AttributeColumns(std::unique_ptr<const Impl> impl)
    : impl_(std::move(impl)) {}

AttributeColumns::~AttributeColumns() = default;

RowSet AttributeColumns::Covered(int64_t size) const {
  return impl_->Covered(size);
}

int64_t AttributeColumns::covered() const {
  return static_cast<int64_t>(impl_->covered.cardinality());
}

int64_t AttributeColumns::MemoryBytes() const { return impl_->memory_bytes; }

Admission AttributeColumns::Evaluate(const Filter& filter, int64_t size,
                                     RowsOfIds rows_of_ids) const {
  const Trial<Impl> passes(*impl_, size, rows_of_ids);
  Admission admission{Covered(size)};
  for (const Condition& condition : filter.must) {
    admission.IntersectWith(passes(condition));
  }
  for (const Condition& condition : filter.must_not) {
    admission.Subtract(passes(condition));
  }
  if (!filter.should.empty()) {
    Admission any{RowSet(size)};
    for (const Condition& condition : filter.should) {
      any.UnionWith(passes(condition));
    }
    admission.IntersectWith(any);
  }
  return admission;
}

}  // namespace coterie
