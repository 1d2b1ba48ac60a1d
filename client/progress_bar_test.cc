#include "client/progress_bar.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "client/printable.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

const absl::Time kStart = absl::UnixEpoch();

ProgressBar::Options Of(int64_t total, bool terminal, int columns = 80) {
  return {.label = "import words",
          .total = total,
          .terminal = terminal,
          .columns = columns};
}

TEST(ProgressBar, PrintsALineEachTenthWhereThereIsNoTerminal) {
  std::ostringstream out;
  ProgressBar bar(Of(1000, false), &out, kStart);
  for (int64_t done = 0; done <= 1000; ++done) {
    bar.Update(done, kStart + absl::Milliseconds(10) * done);
  }
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_THAT(text, HasSubstr("import words  50%  500/1,000 rows  "
                              "100 rows/s  ETA 0:05\n"));
  EXPECT_THAT(text, HasSubstr("100%  1,000/1,000 rows"));
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(ProgressBar, RedrawsItselfOnATerminalTenTimesASecond) {
  std::ostringstream out;
  ProgressBar bar(Of(1000, true, 120), &out, kStart);
  // A thousand updates in one second.
  for (int64_t done = 1; done <= 1000; ++done) {
    bar.Update(done, kStart + absl::Milliseconds(done));
  }
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 10);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("[===============               ]  50%"));
}

TEST(ProgressBar, FitsTheTerminal) {
  for (const int columns : {1, 10, 40, 60, 80, 200}) {
    std::ostringstream out;
    ProgressBar bar(Of(1'000'000, true, columns), &out, kStart);
    bar.Update(500'000, kStart + absl::Seconds(10));
    const std::string text = out.str();
    constexpr size_t kEraseBytes = 4;
    EXPECT_LT(PrintedWidth(text.substr(kEraseBytes)), std::max(columns, 2));
  }
}

TEST(ProgressBar, SaysInTheEndHowLongItTook) {
  std::ostringstream out;
  ProgressBar bar(Of(10'000, true), &out, kStart);
  bar.Update(10'000, kStart + absl::Seconds(2));
  bar.Finish(kStart + absl::Seconds(2));
  EXPECT_THAT(out.str(), HasSubstr("\r\x1b[K"
                                   "import words: 10,000 rows in 2.0 s "
                                   "(5,000 rows/s)\n"));
}

TEST(ProgressBar, NotesStandAboveTheBar) {
  std::ostringstream out;
  ProgressBar bar(Of(10, true), &out, kStart);
  bar.Update(5, kStart + absl::Seconds(1));
  bar.Note("retrying: busy");
  bar.Update(6, kStart + absl::Seconds(1));
  EXPECT_THAT(out.str(), HasSubstr("\r\x1b[Kretrying: busy\n\r\x1b[K"));
}

TEST(ProgressBar, NothingToDoIsDone) {
  std::ostringstream out;
  ProgressBar bar(Of(0, false), &out, kStart);
  bar.Update(0, kStart);
  bar.Finish(kStart);
  EXPECT_EQ(out.str(), "import words: 0 rows in 0.0 s (0 rows/s)\n");
}

TEST(ProgressBar, StandsAClockThatGoesBack) {
  std::ostringstream out;
  ProgressBar bar(Of(10, false), &out, kStart);
  bar.Update(5, kStart - absl::Hours(1));
  EXPECT_THAT(out.str(), HasSubstr("ETA -:--"));
}

}  // namespace
}  // namespace coterie
