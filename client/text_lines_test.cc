#include "client/text_lines.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<TextLines> Open(const std::string& text) {
  return TextLines::FromFile(InputFromBytes(text, "f.txt"));
}

std::vector<std::string> All(const std::string& text) {
  absl::StatusOr<TextLines> lines = Open(text);
  EXPECT_TRUE(lines.ok()) << lines.status();
  std::vector<std::string> all(lines->lines());
  for (std::string& line : all) {
    const absl::Status status = lines->Next(&line);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::string more;
  EXPECT_EQ(lines->Next(&more).code(), absl::StatusCode::kOutOfRange);
  return all;
}

TEST(TextLines, EndsAtAnyLineEndOrTheFilesEnd) {
  EXPECT_THAT(All(""), IsEmpty());
  EXPECT_THAT(All("\n"), ElementsAre(""));
  EXPECT_THAT(All("a"), ElementsAre("a"));
  EXPECT_THAT(All("a\n"), ElementsAre("a"));
  EXPECT_THAT(All("a\r\nb\n\nc"), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(All("\xef\xbb\xbfüber\n東京\n"), ElementsAre("über", "東京"));
}

TEST(TextLines, RefusesALongLineBeforeHandingOutAny) {
  const std::string most(TextLines::kMaxLineBytes, 'x');
  EXPECT_TRUE(Open("a\n" + most + "\n").ok());
  const absl::StatusOr<TextLines> lines = Open("a\n" + most + "x\nb\n");
  EXPECT_EQ(lines.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(lines.status().message()),
              HasSubstr("f.txt: line 2 is longer than 16384"));
}

TEST(TextLines, RefusesWhatIsNotUtf8NamingTheLine) {
  const absl::StatusOr<TextLines> lines = Open("fine\ncaf\xe9\n");
  EXPECT_THAT(std::string(lines.status().message()),
              HasSubstr("f.txt: line 2 is not UTF-8: caf\\xe9"));
}

TEST(TextLines, KnowsTheLongestLine) {
  EXPECT_EQ(Open("a\nbcd\r\nxy\n")->longest_line_bytes(), 3);
}

TEST(TextLines, RefusesWhatIsNoRegularFile) {
  EXPECT_THAT(std::string(TextLines::Open("nowhere.txt").status().message()),
              HasSubstr("nowhere.txt: no such file"));
  EXPECT_EQ(TextLines::Open("/dev/zero").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace coterie
