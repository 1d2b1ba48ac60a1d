// A table on a terminal: columns as wide as their widest cell.
// Not thread-safe.

#ifndef COTERIE_CLIENT_TABLE_H_
#define COTERIE_CLIENT_TABLE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace coterie {

enum class Align { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // REQUIRES: a cell per column. Cells are cut to 60 code points and made
  // printable (client/printable.h).
  void AddRow(const std::vector<std::string>& cells);

  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }

  // Title line, then rows in the order added; two spaces between columns, no
  // trailing spaces. A table without rows prints its titles.
  void Print(std::ostream& out) const;

 private:
  void PrintRow(const std::vector<std::string>& cells,
                const std::vector<int64_t>& widths, std::ostream& out) const;

  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_TABLE_H_
