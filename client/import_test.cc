// coterie import, end to end against a fake server.

#include <algorithm>
#include <cstdio>
#include <fstream>
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

TEST_F(Import, TakesIdsAndAttributesFromFilesBesideIt) {
  const std::string ids = WriteFile("ids.txt", "7\n18446744073709551615\n0\n");
  const std::string attributes = WriteFile(
      "rows.jsonl", "{\"rank\": 1, \"tags\": [\"a\"]}\n{}\n{\"rank\": 3}\n");
  Must({"import", "w", Rows(3), "--ids", ids, "--attributes", attributes,
        "--text", Lines(3), "--create", "--metric", "l2"});
  const std::map<uint64_t, v1::Point> points = server_.points("w");
  ASSERT_EQ(points.size(), 3U);
  const v1::Point& first = points.at(7);
  EXPECT_EQ(first.vector().packed().data(), BytesOf(std::vector<float>{1, 0}));
  EXPECT_EQ(first.attributes().at("rank").int_value(), 1);
  EXPECT_EQ(first.attributes().at("tags").strings_value().values(0), "a");
  EXPECT_EQ(first.attributes().at("text").string_value(), "line 0");
  EXPECT_EQ(points.at(18446744073709551615U).attributes().size(), 1U);
  EXPECT_EQ(points.at(0).attributes().at("rank").int_value(), 3);
}

TEST_F(Import, RefusesFilesBesideItThatDoNotFitUpFront) {
  Must({"create", "w", "--dim", "2", "--metric", "l2"});
  const std::string rows = Rows(3);
  const std::string csv = WriteFile("three.csv", "7,1,2\n8,3,4\n9,5,6\n");
  const std::string ids = WriteFile("three.txt", "1\n2\n3\n");
  const auto refusal = [&](std::vector<std::string> arguments, int code) {
    arguments.insert(arguments.begin(), {"import", "w"});
    const Result result = Run(arguments);
    EXPECT_EQ(result.code, code) << result.err;
    return result.err;
  };
  EXPECT_THAT(refusal({rows, "--ids", WriteFile("two.txt", "1\n2\n")}, 3),
              HasSubstr("two.txt has 2 ids but "));
  EXPECT_THAT(refusal({rows, "--ids", WriteFile("same.txt", "1\n2\n1\n")}, 3),
              HasSubstr("line 3: id 1 is that of line 1 already"));
  EXPECT_THAT(refusal({rows, "--attributes", WriteFile("a.jsonl", "{}\n")}, 3),
              HasSubstr("a.jsonl has 1 row but "));
  EXPECT_THAT(refusal({rows, "--attributes", WriteFile("b.jsonl", "{}\n{")}, 3),
              HasSubstr("b.jsonl: line 2, byte 2: expected a string"));
  EXPECT_THAT(refusal({rows, "--ids", ids, "--first-id", "5"}, 1),
              HasSubstr("--ids excludes --first-id"));
  EXPECT_THAT(refusal({csv, "--id-column", "1", "--ids", ids}, 1),
              HasSubstr("ids come from a column and from --ids"));
  EXPECT_THAT(refusal({rows, "--id-column", "1"}, 1), HasSubstr("are of csv"));
  EXPECT_THAT(refusal({rows, "--zero-based"}, 1), HasSubstr("is of libsvm"));
  EXPECT_THAT(refusal({rows, "--format", "xml"}, 1),
              HasSubstr("\"xml\" is not a format"));
  EXPECT_THAT(refusal({WriteFile("rows.dat", "x")}, 3),
              HasSubstr("the name does not tell the format"));
  EXPECT_EQ(server_.calls("Upsert"), 0);
}

TEST_F(Import, RefusesAnAttributeFromTwoFiles) {
  Must({"create", "w", "--dim", "2", "--metric", "l2"});
  const Result result =
      Run({"import", "w", Rows(1), "--text", Lines(1), "--attributes",
           WriteFile("both.jsonl", "{\"text\": \"x\"}\n")});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("row 0: attribute \"text\" comes from"));
}

TEST_F(Import, TakesIdsAndAttributesFromColumnsOfCsv) {
  const std::string iris =
      WriteFile("iris.csv",
                "id,length,width,species,petals\r\n10,5.1,3.5,setosa,3\r\n"
                "11,6,\"2.5\",\"Iris, the blue\",3\r\n");
  Must({"import", "iris", iris, "--id-column", "id", "--attribute-column",
        "species", "--attribute-column", "petals:double", "--create",
        "--metric", "l2"});
  const std::map<uint64_t, v1::Point> points = server_.points("iris");
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points.at(11).vector().packed().data(),
            BytesOf(std::vector<float>{6, 2.5}));
  EXPECT_EQ(points.at(11).attributes().at("species").string_value(),
            "Iris, the blue");
  EXPECT_EQ(points.at(10).attributes().at("petals").double_value(), 3);
}

TEST_F(Import, WidensLibsvmToTheCollection) {
  const std::string file = WriteFile("a.libsvm", "+1 2:1\n-1 1:0.5\n");
  Must({"import", "a", file, "--create", "--metric", "l2", "--dim", "4"});
  Must({"import", "a", file, "--first-id", "2"});
  const std::map<uint64_t, v1::Point> points = server_.points("a");
  ASSERT_EQ(points.size(), 4U);
  EXPECT_EQ(points.at(2).vector().packed().data(),
            BytesOf(std::vector<float>{0, 1, 0, 0}));
  EXPECT_EQ(points.at(3).attributes().at("label").int_value(), -1);
  const Result result = Run({"import", "a", WriteFile("b.libsvm", "1 5:1\n")});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("has 5 columns but collection \"a\" has "
                                    "dimension 4"));
}

// Interrupted after some batches by an error that retrying cannot mend.
class Resume : public Import {
 protected:
  static constexpr int kRows = 1005;

  void Interrupt(int batches) {
    rows_ = Rows(kRows);
    checkpoint_ = testing::TempDir() + "/resume.checkpoint";
    std::remove(checkpoint_.c_str());
    Must({"create", "w", "--dim", "2", "--metric", "l2"});
    server_.Fail("Upsert", absl::InternalError("disk gone"), 1 << 30, batches);
    const Result result = Go({"--batch", "10", "--in-flight", "3"});
    EXPECT_EQ(result.code, 6) << result.err;
    EXPECT_THAT(result.err, HasSubstr("(--resume goes on from there)"));
    server_.Fail("Upsert", absl::OkStatus(), 0);
    before_ = server_.upserts();
  }

  Result Go(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"import", "w", rows_, "--checkpoint",
                                          checkpoint_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }

  // Upserts since the interruption.
  std::vector<v1::UpsertRequest> Later() const {
    std::vector<v1::UpsertRequest> all = server_.upserts();
    all.erase(all.begin(), all.begin() + static_cast<int64_t>(before_.size()));
    return all;
  }

  std::string rows_;
  std::string checkpoint_;
  std::vector<v1::UpsertRequest> before_;
};

TEST_F(Resume, SendsTheRestAsTheSameBatchesUnderTheSameRequestIds) {
  Interrupt(40);
  // Flags that would cut other batches do not apply.
  const Result result = Go({"--resume", "--batch", "77"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("resuming behind "));
  EXPECT_EQ(server_.points("w").size(), static_cast<size_t>(kRows));
  std::map<int64_t, v1::UpsertRequest> earlier;
  for (const v1::UpsertRequest& request : before_) {
    earlier[request.request_id().sequence()] = request;
  }
  const std::vector<v1::UpsertRequest> later = Later();
  // At most what three lanes held is sent again.
  EXPECT_GE(later.size(), 101U - 40U);
  EXPECT_LE(later.size(), 101U - 40U + 6U);
  int again = 0;
  for (const v1::UpsertRequest& request : later) {
    const auto found = earlier.find(request.request_id().sequence());
    if (found == earlier.end()) continue;
    EXPECT_EQ(request.SerializeAsString(), found->second.SerializeAsString());
    ++again;
  }
  EXPECT_GT(again, 0);
  EXPECT_FALSE(std::ifstream(checkpoint_).is_open());
}

TEST_F(Resume, RefusesAFileThatHasChanged) {
  Interrupt(20);
  std::ofstream(rows_, std::ios::binary)
      << NpyMatrix(kRows, 2, std::vector<float>(2 * kRows, 7));
  const Result result = Go({"--resume"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("the file of rows is not what it was when "
                                    "the import began"));
  EXPECT_THAT(result.err, HasSubstr("without --resume to start over"));
  EXPECT_TRUE(Later().empty());
}

TEST_F(Resume, RefusesOtherOptionsAndACollectionThatWasDropped) {
  Interrupt(20);
  Result result = Go({"--resume", "--first-id", "9"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("what is read is not what it was"));
  Must({"drop", "w", "--yes"});
  result = Go({"--resume", "--create", "--metric", "l2"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("has 0 points, fewer than the "));
  EXPECT_TRUE(Later().empty());
  // Starting over is always possible.
  result = Go({});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(server_.points("w").size(), static_cast<size_t>(kRows));
}

TEST_F(Resume, RefusesACheckpointThatIsNone) {
  Interrupt(20);
  for (const std::string text :
       {"", "coterie import checkpoint 1\nend\n", "hello\n",
        "coterie import checkpoint 1\nclient_id: c\nbatch_rows: -1\nend\n",
        "coterie import checkpoint 1\nclient_id: c\nbatch_rows: 10\n"}) {
    std::ofstream(checkpoint_, std::ios::binary) << text;
    const Result result = Go({"--resume"});
    EXPECT_EQ(result.code, 3) << text;
    EXPECT_THAT(result.err, HasSubstr("not a checkpoint of coterie import"));
  }
  EXPECT_TRUE(Later().empty());
}

TEST_F(Resume, WithoutACheckpointBeginsAtTheFirstRow) {
  const Result result =
      Must({"import", "w", Rows(5), "--create", "--metric", "l2", "--resume"});
  EXPECT_THAT(result.err, HasSubstr("nothing to resume: from the first row"));
  EXPECT_EQ(server_.points("w").size(), 5U);
}

TEST_F(Resume, ACheckpointThatCannotBeWrittenIsSaidUpFront) {
  Must({"create", "w", "--dim", "2", "--metric", "l2"});
  const Result result =
      Run({"import", "w", Rows(5), "--checkpoint", "/nowhere/at/all"});
  EXPECT_EQ(result.code, 6);
  EXPECT_THAT(result.err, HasSubstr("/nowhere/at/all: cannot be written"));
  EXPECT_EQ(server_.calls("Upsert"), 0);
}

}  // namespace
}  // namespace coterie
