// coterie search, end to end against a fake server.

#include <string>

#include "api/status_details.h"
#include "client/cli_fixture.h"
#include "client/npy_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Search : public CliFixture {
 protected:
  Search() { MakePlane(); }
};

TEST_F(Search, PrintsATableOfHits) {
  EXPECT_EQ(Must({"search", "plane", "--vector", "1.5,0", "-k", "3"}).out,
            "rank  id  distance  word\n"
            "   1   1  0.250000  b\n"
            "   2   2  0.250000  c\n"
            "   3   0  2.250000  a\n"
            "3 hits, exact, 6 of 6 rows on 2 of 2 shards\n");
}

TEST_F(Search, TakesVectorsThatBeginWithAMinus) {
  for (const std::vector<std::string>& vector :
       {std::vector<std::string>{"--vector", "-0.5,2"},
        {"--vector=-0.5,2"},
        {"--vector", "-.5, 2"},
        {"--vector", "[-0.5,2]"}}) {
    std::vector<std::string> arguments = {"search", "plane"};
    arguments.insert(arguments.end(), vector.begin(), vector.end());
    Must(arguments);
    EXPECT_EQ(server_.last_search().queries(0).vector().packed().data(),
              BytesOf(std::vector<float>{-0.5F, 2}));
  }
}

TEST_F(Search, ReadsTheQueryFromAFile) {
  for (const std::string& bytes :
       {NpyWithShape("<f4", "(2,)", BytesOf(std::vector<float>{3, 0})),
        NpyMatrix(1, 2, {3, 0})}) {
    EXPECT_THAT(Must({"search", "plane", "--vector-file",
                      WriteFile("q.npy", bytes), "-k", "1"})
                    .out,
                HasSubstr("   1   3  0.000000  d\n"));
  }
  Result result = Run({"search", "plane", "--vector-file",
                       WriteFile("q.npy", NpyMatrix(2, 2, {1, 2, 3, 4}))});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("2 rows; expected one vector"));
  result = Run({"search", "plane", "--vector-file", "nowhere.npy"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("nowhere.npy: no such file"));
}

TEST_F(Search, TakesEvery64BitId) {
  const Result result =
      Run({"search", "plane", "--id", "18446744073709551615"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(server_.last_search().queries(0).id(), 18446744073709551615U);
  EXPECT_THAT(result.err, HasSubstr("Is the id stored? coterie get plane "
                                    "18446744073709551615"));
}

TEST_F(Search, RadiusIsInsteadOfK) {
  EXPECT_THAT(Must({"search", "plane", "--id", "0", "--radius", "1"}).out,
              HasSubstr("2 hits,"));
  EXPECT_THAT(Must({"search", "plane", "--id", "0", "--radius", "0"}).out,
              HasSubstr("1 hit,"));
  EXPECT_TRUE(server_.last_search().has_radius());
  Must({"search", "plane", "--id", "0", "--radius=-3"});
  EXPECT_EQ(server_.last_search().radius(), -3);
}

TEST_F(Search, NoHitsIsAnAnswer) {
  Must({"create", "empty", "--dim", "2", "--metric", "l2"});
  EXPECT_EQ(Must({"search", "empty", "--vector", "1,2"}).out,
            "0 hits, exact, 0 of 0 rows on 2 of 2 shards\n");
}

TEST_F(Search, NearFindsThePointByItsText) {
  EXPECT_THAT(Must({"search", "plane", "--near", "e", "-k", "1"}).out,
              HasSubstr("   1   4  0.000000  e\n"));
  EXPECT_EQ(server_.last_search().queries(0).id(), 4U);
  EXPECT_EQ(server_.calls("Scan"), 1);
}

TEST_F(Search, NearTriesTextAfterWord) {
  Must({"import", "texts", WriteFile("t.npy", NpyMatrix(2, 1, {1, 2})),
        "--text", WriteFile("t.txt", "one\ntwo\n"), "--create", "--metric",
        "l2"});
  Must({"search", "texts", "--near", "two"});
  EXPECT_EQ(server_.last_search().queries(0).id(), 1U);
  EXPECT_EQ(server_.calls("Scan"), 2);
  Must({"search", "texts", "--near", "two", "--attribute", "text"});
  EXPECT_EQ(server_.calls("Scan"), 3);
}

TEST_F(Search, NearSaysWhenThereIsNoneAndWhenThereAreSeveral) {
  Result result = Run({"search", "plane", "--near", "king"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("no point of \"plane\" has word or text \"king\""));
  EXPECT_THAT(result.err, HasSubstr("--attribute NAME"));
  result = Run({"search", "plane", "--near", "e", "--attribute", "colour"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("has colour \"e\""));
  Must({"import", "twins", WriteFile("t.npy", NpyMatrix(3, 1, {1, 2, 3})),
        "--text", WriteFile("t.txt", "x\nx\nx\n"), "--create", "--metric", "l2",
        "--first-id", "40"});
  result = Run({"search", "twins", "--near", "x"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("several points have text \"x\"; "
                                    "searching near id 40"));
}

TEST_F(Search, NearInNoCollectionAdvisesToCreateOne) {
  const Result result = Run({"search", "nothing", "--near", "king"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("coterie create nothing --dim"));
  EXPECT_THAT(Run({"search", "nothing", "--vector", "1,2,3"}).err,
              HasSubstr("coterie create nothing --dim 3 --metric cosine"));
}

TEST_F(Search, ServerErrorsNameTheField) {
  const Result result = Run({"search", "plane", "--vector", "1,2,3"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("queries[0].vector: has 3 components"));
}

TEST_F(Search, ShowChoosesColumns) {
  EXPECT_THAT(
      Must({"search", "plane", "--id", "0", "--show", "word", "--show", "x"})
          .out,
      HasSubstr("rank  id   distance  word  x\n"));
  EXPECT_EQ(server_.last_search().with_attributes().names().values_size(), 2);
}

TEST_F(Search, PrintsVectorsThatCanBePastedBack) {
  EXPECT_THAT(
      Must({"search", "plane", "--id", "3", "-k", "1", "--with-vectors"}).out,
      HasSubstr("vector of 3: 3,0\n"));
}

TEST_F(Search, ProfileShowsHowEachShardAccountsForItsRows) {
  const std::string out =
      Must({"search", "plane", "--id", "0", "-k", "1", "--profile"}).out;
  EXPECT_THAT(out, HasSubstr("certificate, shard map 3:\n"
                             "  shard 0: 3 rows live = 3 evaluated + 0 ruled "
                             "out, at sequence 100\n"));
  EXPECT_THAT(out, HasSubstr("  together: 6 rows live = 6 evaluated + 0 ruled "
                             "out\n  exact: yes;"));
  EXPECT_THAT(out, HasSubstr("shard  rows    MB  queue ms  scan ms  round "
                             "trip ms  sequence\n"
                             "    0     3  3.00      0.00     1.25           "
                             "2.50       100\n"));
  EXPECT_THAT(out, HasSubstr("\nplan of shards 0, 1: exact float32 scan\n"));
  EXPECT_THAT(out, HasSubstr("total 3.00 ms, merge 0.00 ms; 4 messages, "
                             "1.50 kB to and 0 B from shards\n"));
}

TEST_F(Search, AnAccountThatDoesNotAddUpIsAnError) {
  server_.AlterSearchReply([](v1::SearchResponse* reply) {
    reply->mutable_certificate()->mutable_shards(1)->set_rows_live(4);
  });
  Result result = Run({"search", "plane", "--id", "0", "--profile"});
  EXPECT_EQ(result.code, 6);
  EXPECT_THAT(result.err, HasSubstr("shard 1 accounts for 4 rows live"));
  EXPECT_THAT(result.out, HasSubstr("does not add up"));
  server_.AlterSearchReply([](v1::SearchResponse* reply) {
    reply->mutable_certificate()->mutable_shards()->RemoveLast();
  });
  result = Run({"search", "plane", "--id", "0", "--profile"});
  EXPECT_EQ(result.code, 6);
  EXPECT_THAT(result.err, HasSubstr("1 of 2 shards account"));
}

TEST_F(Search, AWithheldCertificateSaysWhy) {
  server_.AlterSearchReply([](v1::SearchResponse* reply) {
    reply->mutable_results(0)->set_exact(false);
    reply->mutable_certificate()->set_withheld("shard 1 did not answer");
  });
  const std::string out =
      Must({"search", "plane", "--id", "0", "--profile"}).out;
  EXPECT_THAT(out, HasSubstr("exact: no; shard 1 did not answer\n"));
  EXPECT_THAT(out, Not(HasSubstr("exact: yes")));
}

TEST_F(Search, PartialAnswersSaySo) {
  server_.AlterSearchReply([](v1::SearchResponse* reply) {
    reply->mutable_results(0)->set_exact(false);
    v1::Coverage* coverage = reply->mutable_coverage();
    coverage->set_shards_ok(1);
    coverage->set_rows_covered(3);
    coverage->set_estimated(true);
    v1::MissingShard* missing = coverage->add_missing();
    missing->set_shard_id(1);
    missing->set_reason("UNAVAILABLE: gone");
  });
  const std::string out =
      Must({"search", "plane", "--id", "0", "--allow-partial"}).out;
  EXPECT_TRUE(server_.last_search().partial_policy().has_allow());
  EXPECT_THAT(out, HasSubstr("6 hits, not certified exact, about 3 of 6 rows "
                             "on 1 of 2 shards\n"
                             "  shard 1 is missing: UNAVAILABLE: gone\n"));
}

TEST_F(Search, AMissingShardAdvisesPartialAnswers) {
  server_.Fail("Search", WithShard(absl::UnavailableError("gone"), 1));
  const Result result = Run({"search", "plane", "--id", "0"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("--allow-partial"));
}

TEST_F(Search, AReplyWithoutAResultIsAnErrorNotACrash) {
  server_.AlterSearchReply(
      [](v1::SearchResponse* reply) { reply->clear_results(); });
  const Result result = Run({"search", "plane", "--id", "0"});
  EXPECT_EQ(result.code, 6);
  EXPECT_THAT(result.err, HasSubstr("0 results for one query"));
}

TEST_F(Search, StrategiesAreAskedFor) {
  Must({"search", "plane", "--vector", "1,2"});
  EXPECT_TRUE(server_.last_search().has_exact());
  Must({"search", "plane", "--vector", "1,2", "--strategy", "tree",
        "--target-recall", "0.95", "--max-leaves", "8", "--epsilon", "0.1"});
  EXPECT_EQ(server_.last_search().tree().target_recall(), 0.95);
  EXPECT_EQ(server_.last_search().tree().max_leaves(), 8);
  EXPECT_EQ(server_.last_search().tree().epsilon(), 0.1);
  Must({"search", "plane", "--vector", "1,2", "--strategy", "auto",
        "--target-recall", "0.5"});
  EXPECT_EQ(server_.last_search().auto_().target_recall(), 0.5);
  Must({"search", "plane", "--vector", "1,2", "--strategy", "lsh",
        "--max-candidates", "50"});
  EXPECT_EQ(server_.last_search().lsh().max_candidates(), 50);
  EXPECT_EQ(server_.last_search().lsh().target_recall(), 0);
  Must({"search", "plane", "--vector", "1,2", "--strategy", "faiss", "--nprobe",
        "8", "--candidates", "60"});
  EXPECT_EQ(server_.last_search().faiss().nprobe(), 8);
  EXPECT_EQ(server_.last_search().faiss().candidates(), 60);
  Must({"search", "plane", "--vector", "1,2", "--strategy", "faiss",
        "--ef-search", "64"});
  EXPECT_EQ(server_.last_search().faiss().ef_search(), 64);
}

TEST_F(Search, StrategiesAndTheirLimitsMustFit) {
  const auto refused = [this](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"search", "plane", "--vector", "1,2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = Run(arguments);
    EXPECT_EQ(result.code, 1);
    return result.err;
  };
  EXPECT_THAT(refused({"--strategy", "guess"}),
              HasSubstr("'guess' is no strategy"));
  EXPECT_THAT(refused({"--epsilon", "1"}), HasSubstr("--strategy tree"));
  EXPECT_THAT(refused({"--strategy", "tree", "--max-candidates", "1"}),
              HasSubstr("--strategy lsh"));
  EXPECT_THAT(refused({"--target-recall", "0.9"}),
              HasSubstr("auto, tree, lsh or faiss"));
  EXPECT_THAT(refused({"--strategy", "tree", "--nprobe", "1"}),
              HasSubstr("--strategy faiss"));
}

TEST_F(Search, UnseenRowsAreShown) {
  server_.AlterSearchReply([](v1::SearchResponse* response) {
    response->mutable_results(0)->set_exact(false);
    v1::QueryAccount* account =
        response->mutable_certificate()->mutable_shards(0)->mutable_queries(0);
    account->set_rows_unseen(1);
    account->set_rows_ruled_out(account->rows_ruled_out() - 1);
    account->set_leaves_read(3);
  });
  const std::string out =
      Must({"search", "plane", "--vector", "1,2", "--profile"}).out;
  EXPECT_THAT(out, HasSubstr(" + 1 unseen; 3 leaves read"));
  EXPECT_THAT(out, Not(HasSubstr("does not add up")));
  // Nobody may call that exact.
  server_.AlterSearchReply([](v1::SearchResponse* response) {
    v1::QueryAccount* account =
        response->mutable_certificate()->mutable_shards(0)->mutable_queries(0);
    account->set_rows_unseen(1);
    account->set_rows_ruled_out(account->rows_ruled_out() - 1);
  });
  EXPECT_EQ(Run({"search", "plane", "--vector", "1,2", "--profile"}).code == 0,
            false);
}

TEST_F(Search, RecallIsAskedForAndShown) {
  server_.AlterSearchReply([](v1::SearchResponse* response) {
    response->mutable_results(0)->set_exact(false);
    response->mutable_results(0)->set_recall(0.8);
  });
  const std::string out = Must({"search", "plane", "--vector", "1,2",
                                "--strategy", "tree", "--measure-recall"})
                              .out;
  EXPECT_TRUE(server_.last_search().measure_recall());
  EXPECT_THAT(out, HasSubstr("not certified exact, recall 0.8, "));
}

}  // namespace
}  // namespace coterie
