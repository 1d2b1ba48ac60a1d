#include "client/table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "client/printable.h"

namespace coterie {
namespace {

constexpr int64_t kMaxCellWidth = 60;

}  // namespace

void Table::AddRow(const std::vector<std::string>& cells) {
  assert(cells.size() == columns_.size());
  std::vector<std::string> row;
  row.reserve(cells.size());
  for (const std::string& cell : cells) {
    row.push_back(Printable(cell, kMaxCellWidth));
  }
  rows_.push_back(std::move(row));
}

void Table::Print(std::ostream& out) const {
  std::vector<std::string> titles;
  std::vector<int64_t> widths;
  for (const Column& column : columns_) {
    titles.push_back(Printable(column.title, kMaxCellWidth));
    widths.push_back(PrintedWidth(titles.back()));
  }
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], PrintedWidth(row[i]));
    }
  }
  PrintRow(titles, widths, out);
  for (const std::vector<std::string>& row : rows_) PrintRow(row, widths, out);
}

void Table::PrintRow(const std::vector<std::string>& cells,
                     const std::vector<int64_t>& widths,
                     std::ostream& out) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - PrintedWidth(cells[i]), ' ');
    if (i > 0) line += "  ";
    if (columns_[i].align == Align::kRight) line += padding;
    line += cells[i];
    if (columns_[i].align == Align::kLeft) line += padding;
  }
  line.resize(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

}  // namespace coterie
