#include "client/printable.h"

#include <string>

#include "gtest/gtest.h"

namespace coterie {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  EXPECT_EQ(Printable("", 10), "");
  EXPECT_EQ(Printable("Zürich 東京 🙂", 60), "Zürich 東京 🙂");
}

TEST(Printable, EscapesWhatWouldCommandATerminal) {
  EXPECT_EQ(Printable("a\nb\tc\rd", 60), "a\\nb\\tc\\rd");
  EXPECT_EQ(Printable("\x1b[2J", 60), "\\x1b[2J");
  // C1 controls, which some terminals obey: U+009B is CSI.
  EXPECT_EQ(Printable("\xc2\x9b", 60), "\\xc2\\x9b");
  EXPECT_EQ(Printable(std::string("\0", 1), 60), "\\x00");
  EXPECT_EQ(Printable("\x7f", 60), "\\x7f");
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(Printable("\xff", 60), "\\xff");
  // Cut off, overlong, a surrogate, above U+10FFFF.
  EXPECT_EQ(Printable("\xe2\x82", 60), "\\xe2\\x82");
  EXPECT_EQ(Printable("\xc0\x80", 60), "\\xc0\\x80");
  EXPECT_EQ(Printable("\xed\xa0\x80", 60), "\\xed\\xa0\\x80");
  EXPECT_EQ(Printable("\xf4\x90\x80\x80", 60), "\\xf4\\x90\\x80\\x80");
}

TEST(Printable, CutsToCodePointsNotBytes) {
  EXPECT_EQ(Printable("äöüß", 4), "äöüß");
  EXPECT_EQ(Printable("äöüß", 3), "äö…");
  EXPECT_EQ(Printable("abc", 1), "…");
  // An escape is never cut in two.
  EXPECT_EQ(Printable("ab\n\n", 5), "ab\\n…");
  EXPECT_EQ(Printable("ab\x01", 5), "ab…");
}

TEST(Printable, IsNeverWiderThanAsked) {
  const std::string text = "ab\x01\xff é東\n\x1b🙂";
  for (int64_t width = 1; width < 40; ++width) {
    EXPECT_LE(PrintedWidth(Printable(text, width)), width);
  }
}

TEST(PrintedWidth, CountsCodePoints) {
  EXPECT_EQ(PrintedWidth(""), 0);
  EXPECT_EQ(PrintedWidth("äb🙂"), 3);
}

}  // namespace
}  // namespace coterie
