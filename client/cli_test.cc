// The command line itself, and the commands on collections and points.

#include "client/cli.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "client/cli_fixture.h"
#include "client/npy_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Cli : public CliFixture {};

TEST_F(Cli, HelpTeachesByExampleAndListsExitCodes) {
  Result help = RunRaw({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.err, IsEmpty());
  EXPECT_THAT(help.out, HasSubstr("coterie search words --near king"));
  EXPECT_THAT(help.out, HasSubstr("4  the server or a shard did not answer"));
  for (const char* command : {"create", "import", "search", "get", "delete",
                              "count", "describe", "drop", "health"}) {
    EXPECT_THAT(help.out, HasSubstr(absl::StrCat("\n  ", command, " ")));
    Result own = RunRaw({command, "--help"});
    EXPECT_EQ(own.code, 0);
    EXPECT_THAT(own.out, HasSubstr("Examples:\n  coterie "));
    EXPECT_THAT(own.out, HasSubstr(absl::StrCat("  coterie ", command)));
  }
}

TEST_F(Cli, VersionIsPrinted) {
  const Result result = RunRaw({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("coterie 0."));
}

TEST_F(Cli, WrongUsageIsCode1WithAdviceAndSendsNothing) {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"serach", "words"},
      {"--bogus"},
      {"count"},
      {"count", "a", "b"},
      {"create", "w"},
      {"create", "w", "--dim", "x", "--metric", "l2"},
      {"create", "w", "--dim", "3", "--metric", "manhattan"},
      {"create", "w", "--dim", "99999999999", "--metric", "l2"},
      {"get", "w"},
      {"get", "w", "-5"},
      {"get", "w", "1.0"},
      {"delete", "w", "18446744073709551616"},
      {"search", "w"},
      {"search", "w", "--id", "1", "--near", "king"},
      {"search", "w", "--id", "-1"},
      {"search", "w", "--vector", "1,two"},
      {"search", "w", "--vector", "1,nan"},
      {"search", "w", "--id", "1", "-k", "3", "--radius", "2"},
      {"search", "w", "--id", "1", "--radius", "nan"},
      {"search", "w", "--id", "1", "--attribute", "word"},
      {"import", "w"},
      {"import", "w", "f.npy", "--batch", "0"},
      {"import", "w", "f.npy", "--batch", "4097"},
      {"import", "w", "f.npy", "--in-flight", "17"},
      {"import", "w", "f.npy", "--create"},
      {"import", "w", "f.npy", "--metric", "l2"},
      {"import", "w", "f.npy", "--as", "word"},
      {"import", "w", "f.npy", "--first-id", "-1"},
      {"count", "w", "--timeout", "30"},
      {"count", "w", "--where", "=x"},
      {"delete", "w"},
      {"delete", "w", "1", "--where", "a=b"},
      {"delete", "w", "1", "--dry-run"},
      {"search", "w", "--id", "1", "--where", "a>b"},
      {"drop", "w"},
      {"train", "w"},
      {"train", "w", "--label", "y", "--model", "forest"},
      {"train", "w", "--label", "y", "--method", "adam"},
      {"train", "w", "--label", "y", "--decay", "0.1"},
      {"train", "w", "--label", "y", "--asynchronous", "--backup", "1"},
      {"train", "w", "--label", "y", "--back-copies", "2"},
      {"predict", "w", "m"},
      {"predict", "w", "m", "--vector", "1,nan"},
      {"models", "w", "--delete"},
      {"clusterings", "w", "--delete"},
      {"clusterings", "w", "c", "--members", "-1"},
  };
  for (const std::vector<std::string>& arguments : cases) {
    const Result result = Run(arguments);
    SCOPED_TRACE(testing::PrintToString(arguments) + result.err);
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr("coterie: "));
    // What to do.
    EXPECT_THAT(result.err, HasSubstr("\n  "));
  }
  for (const char* method : {"CreateCollection", "GetCollection", "Upsert",
                             "Search", "Get", "Delete", "Count"}) {
    EXPECT_EQ(server_.calls(method), 0) << method;
  }
}

TEST_F(Cli, AnUnknownCommandIsNamedWithThoseThereAre) {
  const Result result = RunRaw({"serach", "words"});
  EXPECT_THAT(result.err, HasSubstr("'serach'"));
  EXPECT_THAT(result.err, HasSubstr("search, get"));
}

TEST_F(Cli, ServerAddressesAreChecked) {
  for (const char* server : {"localhost", "localhost:", "localhost:0",
                             "localhost:65536", ":7600", "::1:7600", "a:b"}) {
    const Result result = RunRaw({"count", "w", "--server", server});
    EXPECT_EQ(result.code, 1) << server;
    EXPECT_THAT(result.err, HasSubstr("HOST:PORT")) << server;
  }
}

TEST_F(Cli, TheServerIsTakenFromTheEnvironment) {
  MakePlane();
  setenv("COTERIE_SERVER", server_.address().c_str(), 1);
  const Result result = RunRaw({"count", "plane"});
  unsetenv("COTERIE_SERVER");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "6\n");
}

TEST_F(Cli, AnUnreachableServerIsCode4WithAdvice) {
  // Port 1 is reserved: nothing listens there.
  const Result result =
      RunRaw({"count", "words", "--server", "127.0.0.1:1", "--timeout", "9s"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("(UNAVAILABLE)"));
  EXPECT_THAT(result.err, HasSubstr("Is coteried running at 127.0.0.1:1?"));
}

TEST_F(Cli, ServerErrorsHaveTheirExitCodesAndDetails) {
  const struct {
    absl::Status status;
    int code;
    const char* text;
  } cases[] = {
      {absl::NotFoundError("no words"), 2, "coterie create words --dim"},
      {InvalidField("name", "is odd"), 3, "name: is odd"},
      {absl::FailedPreconditionError("x"), 3, "FAILED_PRECONDITION"},
      {WithShard(absl::UnavailableError("gone"), 2), 4, "shard 2: gone"},
      {absl::DeadlineExceededError("late"), 4, "--timeout"},
      {Overloaded("queue full", absl::Seconds(2)), 5, "Try again in 2s"},
      {absl::InternalError("oops"), 6, "oops (INTERNAL)"},
  };
  for (const auto& c : cases) {
    server_.Fail("Count", c.status, 1);
    const Result result = Run({"count", "words"});
    EXPECT_EQ(result.code, c.code) << c.status;
    EXPECT_THAT(result.err, HasSubstr(c.text));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(Cli, EachCallHasADeadline) {
  MakePlane();
  Must({"count", "plane"});
  EXPECT_NEAR(server_.last_deadline_seconds(), 30, 10);
  Must({"--timeout", "10m", "count", "plane"});
  EXPECT_NEAR(server_.last_deadline_seconds(), 600, 30);
  Must({"delete", "plane", "0"});
  EXPECT_NEAR(server_.last_deadline_seconds(), 60, 15);
}

TEST_F(Cli, CreateSaysWhatWasMade) {
  const Result result = Must({"create", "w", "--dim", "3", "--metric", "IP"});
  EXPECT_EQ(result.out, "created w: dimension 3, metric ip, 64 slots\n");
  EXPECT_EQ(server_.collection("w").metric(), v1::INNER_PRODUCT);
  const Result again = Run({"create", "w", "--dim", "3", "--metric", "ip"});
  EXPECT_EQ(again.code, 3);
  EXPECT_THAT(again.err, HasSubstr("coterie drop w"));
  const Result bad = Run({"create", "v", "--dim", "0", "--metric", "ip"});
  EXPECT_EQ(bad.code, 3);
  EXPECT_THAT(bad.err, HasSubstr("collection.dimension: is 0"));
}

TEST_F(Cli, ACollectionMayHaveTheNameOfACommand) {
  Must({"create", "search", "--dim", "3", "--metric", "l2"});
  EXPECT_EQ(Must({"count", "search"}).out, "0\n");
}

TEST_F(Cli, GetPrintsPointsAndNamesThoseMissing) {
  MakePlane();
  Result result = Must({"get", "plane", "1", "4", "--with-vectors"});
  EXPECT_EQ(result.out,
            "id  word\n"
            " 1  b\n"
            " 4  e\n"
            "vector of 1: 1,0\n"
            "vector of 4: 4,0\n");
  result = Run({"get", "plane", "1", "77", "78"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, HasSubstr(" 1  b\n"));
  EXPECT_THAT(result.err, HasSubstr("not stored in \"plane\": 77, 78"));
}

TEST_F(Cli, GetShowsOnlyTheAttributesAskedFor) {
  MakePlane();
  EXPECT_EQ(Must({"get", "plane", "1", "--show", "colour"}).out,
            "id  colour\n 1\n");
}

TEST_F(Cli, IdsAreExactBeyondDoubles) {
  // Two ids that are one as doubles.
  Must({"import", "w", WriteFile("two.npy", NpyMatrix(2, 1, {1, 2})),
        "--create", "--metric", "l2", "--first-id", "9007199254740992"});
  EXPECT_THAT(Must({"get", "w", "9007199254740993", "--with-vectors"}).out,
              HasSubstr("vector of 9007199254740993: 2\n"));
  EXPECT_THAT(Must({"search", "w", "--id", "9007199254740993"}).out,
              HasSubstr("   1  9007199254740993  0.000000"));
  Must({"delete", "w", "9007199254740993"});
  EXPECT_EQ(Must({"get", "w", "9007199254740992", "--json"})
                .out.find("\"9007199254740993\""),
            std::string::npos);
  EXPECT_EQ(Must({"count", "w"}).out, "1\n");
}

TEST_F(Cli, DeleteCountsWhatWasThere) {
  MakePlane();
  EXPECT_EQ(Must({"delete", "plane", "1", "2", "99"}).out,
            "deleted 2 points of 3 named\n");
  EXPECT_EQ(Must({"delete", "plane", "1"}).out,
            "deleted 0 points of 1 named\n");
  EXPECT_EQ(Must({"count", "plane"}).out, "4\n");
}

TEST_F(Cli, WhereChoosesPointsByTheirAttributes) {
  MakePlane();
  EXPECT_EQ(Must({"count", "plane", "--where", "word=a,c,x"}).out, "2\n");
  EXPECT_THAT(Must({"search", "plane", "--id", "0", "--where", "word=c"}).out,
              AllOf(HasSubstr("4.0"), Not(HasSubstr("0.000"))));
  EXPECT_EQ(Must({"delete", "plane", "--where", "word=a,b", "--dry-run"}).out,
            "would delete 2 points\n");
  EXPECT_EQ(Must({"count", "plane"}).out, "6\n");
  EXPECT_EQ(Must({"delete", "plane", "--where", "word=a,b"}).out,
            "deleted 2 points\n");
  EXPECT_EQ(Must({"count", "plane"}).out, "4\n");
}

TEST_F(Cli, JsonHasZerosAndQuotedIds) {
  MakePlane();
  const std::string out = Must({"search", "plane", "--id", "0", "--json"}).out;
  EXPECT_THAT(out, HasSubstr("\"id\": \"0\""));
  EXPECT_THAT(out, HasSubstr("\"distance\": 0,"));
  EXPECT_THAT(out, HasSubstr("\"exact\": true"));
  EXPECT_THAT(out, HasSubstr("\"shardsTotal\": 2"));
  EXPECT_THAT(Must({"--json", "count", "plane"}).out,
              HasSubstr("\"count\": \"6\""));
}

TEST_F(Cli, HealthIsAnExitCode) {
  const Result serving = Run({"health"});
  EXPECT_EQ(serving.code, 0) << serving.err;
  EXPECT_EQ(serving.out, "SERVING\n");
  const Result not_serving = Run({"health", "shard/1"});
  EXPECT_EQ(not_serving.code, 4);
  EXPECT_EQ(not_serving.out, "NOT_SERVING\n");
  EXPECT_THAT(not_serving.err, HasSubstr("coterie describe"));
  const Result unknown = Run({"health", "nope"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("'nope'"));
}

TEST_F(Cli, DescribeShowsClusterLimitsAndCollections) {
  MakePlane();
  const std::string out = Must({"describe"}).out;
  EXPECT_THAT(out, HasSubstr("cluster 0f9e at " + server_.address()));
  EXPECT_THAT(out, HasSubstr("up 1:15"));
  EXPECT_THAT(out, HasSubstr("    1  10.0.0.1:7600  unreachable"));
  EXPECT_THAT(out, HasSubstr("connection refused"));
  EXPECT_THAT(out, HasSubstr("k      10,000"));
  EXPECT_THAT(out, HasSubstr("plane         2  l2         64       6"));
  const std::string json = Must({"describe", "--json"}).out;
  EXPECT_THAT(json, HasSubstr("\"cluster\": {"));
  EXPECT_THAT(json, HasSubstr("\"name\": \"plane\""));
}

TEST_F(Cli, DescribeShowsTheClusterEvenIfCollectionsCannotBeRead) {
  MakePlane();
  server_.Fail("GetCollection", WithShard(absl::UnavailableError("gone"), 1));
  Result result = Run({"describe"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.out, HasSubstr("cluster 0f9e"));
  EXPECT_THAT(result.out, HasSubstr("plane"));
  EXPECT_THAT(result.out, HasSubstr("?"));
  EXPECT_THAT(result.err, HasSubstr("shard 1: gone"));
  server_.Fail("ListCollections", absl::UnavailableError("gone"));
  result = Run({"describe"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.out, HasSubstr("cluster 0f9e"));
}

TEST_F(Cli, DescribeOneShowsItsShards) {
  MakePlane();
  const std::string out = Must({"describe", "plane"}).out;
  EXPECT_THAT(out, HasSubstr("dimension 2, metric l2, 64 slots"));
  EXPECT_THAT(out, HasSubstr("6 points, 48 B of vectors"));
  EXPECT_EQ(Run({"describe", "nothing"}).code, 2);
}

TEST_F(Cli, DropAsksOnATerminal) {
  MakePlane();
  Result result = Run({"drop", "plane"}, "n\n");
  EXPECT_EQ(result.code, 6);
  EXPECT_THAT(result.err, HasSubstr("Drop plane and its 6 points?"));
  EXPECT_EQ(server_.calls("DeleteCollection"), 0);
  result = Run({"drop", "plane"}, "\n");
  EXPECT_EQ(server_.calls("DeleteCollection"), 0);
  result = Run({"drop", "plane"}, "Yes\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "dropped plane with 6 points\n");
}

TEST_F(Cli, DropNeedsYesElsewhere) {
  MakePlane();
  const Result refused = Run({"drop", "plane"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("coterie drop plane --yes"));
  Must({"drop", "plane", "--yes"});
  const Result gone = Run({"drop", "plane", "--yes"});
  EXPECT_EQ(gone.code, 2);
  EXPECT_THAT(gone.err, HasSubstr("Nothing to do"));
  EXPECT_THAT(Run({"drop", "plane"}, "y\n").err, HasSubstr("Nothing to do"));
}

TEST_F(Cli, OutputThatCannotBeWrittenIsAnError) {
  MakePlane();
  std::ostringstream out;
  std::ostringstream err;
  std::istringstream in;
  out.setstate(std::ios::badbit);
  Terminal terminal;
  terminal.in = &in;
  terminal.out = &out;
  terminal.err = &err;
  EXPECT_EQ(RunCli({"count", "plane", "--server", server_.address()}, terminal),
            6);
  EXPECT_THAT(err.str(), HasSubstr("standard output"));
}

TEST_F(Cli, CreateTakesIndexes) {
  EXPECT_THAT(
      Must({"create", "i", "--dim", "3", "--metric", "l2", "--index", "tree",
            "--index", "lsh:128:0.8", "--index", "faiss:IVF8,Flat:0.7"})
          .out,
      HasSubstr("slots, index tree, index lsh:128:0.8, "
                "index faiss:IVF8,Flat:0.7\n"));
  const v1::Collection made = server_.collection("i");
  ASSERT_EQ(made.indexes_size(), 3);
  EXPECT_TRUE(made.indexes(0).has_tree());
  EXPECT_EQ(made.indexes(1).lsh().bytes_per_row(), 128);
  EXPECT_EQ(made.indexes(2).faiss().factory(), "IVF8,Flat");
  const std::string out = Must({"describe", "i"}).out;
  EXPECT_THAT(out, HasSubstr("index tree, index lsh:128:0.8"));
  EXPECT_THAT(out, HasSubstr("3/4"));
  EXPECT_THAT(out, HasSubstr("30,000/40,000"));
  EXPECT_THAT(out, HasSubstr("building over 0000000007.seg"));
  for (const char* index :
       {"ball", "lsh:x", "lsh:1:2:3", "tree:4", "faiss", "faiss:HNSW8:x"}) {
    const Result result =
        Run({"create", "j", "--dim", "3", "--metric", "l2", "--index", index});
    EXPECT_EQ(result.code, 1) << index;
    EXPECT_THAT(result.err, HasSubstr("is no index")) << index;
  }
}

}  // namespace
}  // namespace coterie
