// coterie import, end to end against a fake server.

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "client/cli_fixture.h"
#include "client/npy_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

class Import : public CliFixture {
 protected:
  // rows x 2; row i is (i + 1, i).
  static std::string Rows(int rows) {
    std::vector<float> values;
    for (int i = 0; i < rows; ++i) {
      values.push_back(static_cast<float>(i + 1));
      values.push_back(static_cast<float>(i));
    }
    return WriteFile("rows.npy", NpyMatrix(rows, 2, values));
  }

  static std::string Lines(int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) absl::StrAppend(&text, "line ", i, "\n");
    return WriteFile("lines.txt", text);
  }
};

TEST_F(Import, StoresEveryRowWithItsTextUnderItsId) {
  const Result result =
      Must({"import", "w", Rows(1234), "--text", Lines(1234), "--as", "word",
            "--first-id", "1000", "--batch", "100", "--create", "--metric",
            "cosine", "--slots", "7"});
  EXPECT_EQ(result.out, "imported 1,234 rows into w\n");
  EXPECT_THAT(result.err, HasSubstr("import w: 1,234 rows in "));
  EXPECT_EQ(server_.collection("w").metric(), v1::COSINE);
  EXPECT_EQ(server_.collection("w").dimension(), 2);
  EXPECT_EQ(server_.collection("w").slots(), 7);
  const std::map<uint64_t, v1::Point> points = server_.points("w");
  ASSERT_EQ(points.size(), 1234U);
  for (int i = 0; i < 1234; ++i) {
    const v1::Point& point = points.at(1000 + i);
    EXPECT_EQ(point.vector().packed().data(),
              BytesOf(std::vector<float>{static_cast<float>(i + 1),
                                         static_cast<float>(i)}));
    EXPECT_EQ(point.attributes().at("word").string_value(),
              absl::StrCat("line ", i));
  }
  const std::vector<int> batches = server_.batches();
  EXPECT_EQ(batches.size(), 13U);
  EXPECT_EQ(*std::max_element(batches.begin(), batches.end()), 100);
}

TEST_F(Import, KeepsMessagesSmallWhateverTheBatch) {
  // 16,384 floats are 64 KiB a row: 4,096 of them would be 256 MiB.
  const int rows = 200;
  Must({"import", "wide",
        WriteFile("wide.npy",
                  NpyMatrix(rows, 16384, std::vector<float>(rows * 16384, 1))),
        "--batch", "4096", "--create", "--metric", "l2"});
  const std::vector<int> batches = server_.batches();
  EXPECT_LE(*std::max_element(batches.begin(), batches.end()), 64);
  EXPECT_EQ(server_.points("wide").size(), 200U);
}

TEST_F(Import, IsSafeToRepeat) {
  for (int i = 0; i < 2; ++i) {
    Must({"import", "w", Rows(50), "--create", "--metric", "l2"});
  }
  EXPECT_EQ(server_.points("w").size(), 50U);
}

TEST_F(Import, RetriesABusyOrRestartingServer) {
  Must({"create", "w", "--dim", "2", "--metric", "l2"});
  server_.Fail("Upsert", Overloaded("queue full", absl::Milliseconds(1)), 3);
  const Result result = Must({"import", "w", Rows(50), "--batch", "10"});
  EXPECT_EQ(server_.points("w").size(), 50U);
  EXPECT_EQ(server_.calls("Upsert"), 8);
  EXPECT_THAT(result.err, HasSubstr("retrying: "));
}

TEST_F(Import, NamesTheRowThatTheServerRefused) {
  Must({"create", "w", "--dim", "1", "--metric", "cosine"});
  std::vector<float> values(100, 1);
  values[57] = 0;
  const std::string path = WriteFile("z.npy", NpyMatrix(100, 1, values));
  const Result result = Run({"import", "w", path, "--batch", "10", "--first-id",
                             "500", "--in-flight", "1"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err,
              HasSubstr("row 57 of " + path + ": points[7].vector: is zero"));
  EXPECT_THAT(result.err, HasSubstr("of 100 rows at least 50 are stored"));
}

TEST_F(Import, RefusesATextFileOfAnotherLengthUpFront) {
  Must({"create", "w", "--dim", "2", "--metric", "l2"});
  for (const int lines : {9, 11}) {
    const Result result =
        Run({"import", "w", Rows(10), "--text", Lines(lines)});
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("has ", lines, " lines")));
    EXPECT_THAT(result.err, HasSubstr("has 10 rows"));
  }
  EXPECT_EQ(server_.calls("Upsert"), 0);
}

TEST_F(Import, RefusesBadFilesUpFront) {
  Must({"create", "w", "--dim", "2", "--metric", "l2"});
  const std::string cut =
      WriteFile("cut.npy", NpyMatrix(2, 2, {1, 2, 3, 4}).substr(0, 130));
  const std::string flat =
      WriteFile("flat.npy",
                NpyWithShape("<f4", "(2,)", BytesOf(std::vector<float>{1, 2})));
  const std::string latin1 = WriteFile("latin1.txt", "caf\xe9\nx\n");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"import", "w", "nowhere.npy"},
        {"import", "w", cut},
        {"import", "w", flat},
        {"import", "w", Rows(2), "--text", "nowhere.txt"},
        {"import", "w", Rows(2), "--text", latin1}}) {
    const Result result = Run(arguments);
    EXPECT_EQ(result.code, 3) << result.err;
  }
  EXPECT_EQ(server_.calls("Upsert"), 0);
}

TEST_F(Import, RefusesACollectionOfAnotherDimensionOrMetric) {
  Must({"create", "w", "--dim", "3", "--metric", "l2"});
  Result result = Run({"import", "w", Rows(2)});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("has 2 columns but collection \"w\" has "
                                    "dimension 3"));
  Must({"create", "v", "--dim", "2", "--metric", "l2"});
  result = Run({"import", "v", Rows(2), "--create", "--metric", "cosine"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("exists with metric l2, not cosine"));
  EXPECT_EQ(server_.calls("Upsert"), 0);
}

TEST_F(Import, WithoutACollectionAdvisesToCreateIt) {
  const Result result = Run({"import", "w", Rows(2)});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("coterie create w --dim 2 --metric cosine"));
  EXPECT_THAT(result.err, HasSubstr("--create"));
}

TEST_F(Import, RefusesIdsBeyondTheLast) {
  Must({"import", "w", Rows(2), "--create", "--metric", "l2", "--first-id",
        "18446744073709551614"});
  EXPECT_EQ(server_.points("w").count(18446744073709551615U), 1U);
  const Result result =
      Run({"import", "w", Rows(2), "--first-id", "18446744073709551615"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("at most 18446744073709551614"));
}

TEST_F(Import, AValueThatIsNotFiniteIsNamed) {
  Must({"create", "w", "--dim", "2", "--metric", "l2"});
  const std::string path = WriteFile(
      "nan.npy",
      NpyMatrix(2, 2, {1, 2, 3, std::numeric_limits<float>::quiet_NaN()}));
  const Result result = Run({"import", "w", path});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr(path + ": row 1, column 1 is nan"));
}

TEST_F(Import, OfNoRowsIsDone) {
  EXPECT_THAT(Must({"import", "w",
                    WriteFile("none.npy", NpyWithShape("<f4", "(0, 2)", "")),
                    "--create", "--metric", "l2", "--json"})
                  .out,
              HasSubstr("\"upserted\": \"0\""));
}

}  // namespace
}  // namespace coterie
