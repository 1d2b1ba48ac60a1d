#include "client/loss_curve.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

TEST(LossCurve, FallsFromTheTopLeftToTheBottomRight) {
  const std::vector<std::string> lines =
      LossCurve::Draw({{1, 1.0}, {2, 0.5}, {3, 0.25}, {4, 0.0}}, 44);
  ASSERT_THAT(lines, SizeIs(8));
  EXPECT_EQ(lines.front(), "         1 |*");
  EXPECT_THAT(lines.back(), EndsWith("*"));
  EXPECT_THAT(lines.back(), HasSubstr("0 |"));
  EXPECT_EQ(lines.back().size(), 43U);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 43U);
}

TEST(LossCurve, ASingleOrConstantLossHasACurve) {
  EXPECT_THAT(LossCurve::Draw({{7, 0.5}}, 80), SizeIs(8));
  EXPECT_THAT(LossCurve::Draw({{7, 0.5}, {9, 0.5}}, 1), SizeIs(8));
}

TEST(LossCurve, RedrawsInPlaceOnATerminalAndPrintsLinesElsewhere) {
  std::ostringstream terminal;
  LossCurve live({"job", true, 60}, &terminal);
  live.Add(1, 1.0, "first");
  EXPECT_THAT(terminal.str(), Not(HasSubstr("\x1b[9A")));
  live.Add(2, 0.5, "second");
  EXPECT_THAT(terminal.str(), HasSubstr("\x1b[9A\x1b[J"));
  EXPECT_THAT(terminal.str(), HasSubstr("job  second\n"));

  std::ostringstream log;
  LossCurve lines({"job", false, 60}, &log);
  for (int64_t update = 1; update <= 1000; ++update) {
    lines.Add(update, 1.0, "line");
  }
  lines.Clear();
  const std::string text = log.str();
  const auto count = std::count(text.begin(), text.end(), '\n');
  EXPECT_GT(count, 12);
  EXPECT_LT(count, 25);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace coterie
