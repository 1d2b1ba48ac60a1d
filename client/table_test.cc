#include "client/table.h"

#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace coterie {
namespace {

std::string Printed(const Table& table) {
  std::ostringstream out;
  table.Print(out);
  return out.str();
}

TEST(Table, AlignsColumnsToTheirWidestCell) {
  Table table({{"rank"}, {"word", Align::kLeft}, {"id"}});
  table.AddRow({"1", "king", "7"});
  table.AddRow({"10", "straße", "12345"});
  EXPECT_EQ(Printed(table),
            "rank  word       id\n"
            "   1  king        7\n"
            "  10  straße  12345\n");
}

TEST(Table, LeavesNoTrailingSpaces) {
  Table table({{"id"}, {"note", Align::kLeft}});
  table.AddRow({"1", ""});
  table.AddRow({"2", "long enough"});
  EXPECT_EQ(Printed(table), "id  note\n 1\n 2  long enough\n");
}

TEST(Table, PrintsTitlesWithoutRows) {
  EXPECT_EQ(Printed(Table({{"id"}, {"x"}})), "id  x\n");
}

TEST(Table, KeepsCellsOnTheirLine) {
  Table table({{"t", Align::kLeft}});
  table.AddRow({"a\nb\x1b[0m"});
  table.AddRow({std::string(100, 'x')});
  EXPECT_EQ(Printed(table),
            "t\na\\nb\\x1b[0m\n" + std::string(59, 'x') + "…\n");
}

}  // namespace
}  // namespace coterie
