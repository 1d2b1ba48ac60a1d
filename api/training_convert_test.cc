#include "api/training_convert.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "api/status_details.h"
#include "api/text_proto_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Train = v1::TrainSgdRequest;

Train ARequest() {
  return FromText<Train>(R"(
      collection: "c" name: "n" label_attribute: "y"
      model { logistic {} }
      method { preset: ISEGA })");
}

TEST(TrainingConvert, LeavesOutMeansTheDefaults) {
  const auto request = DecodeTrainSgd(ARequest(), Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  SgdOptions expected;
  expected = SgdPreset(SgdMethod::kIsega, expected);
  EXPECT_EQ(request->options, expected);
  EXPECT_EQ(request->label_attribute, "y");
  EXPECT_FALSE(request->replace);
  EXPECT_FALSE(request->skip_missing);
}

TEST(TrainingConvert, TakesEveryOption) {
  const auto request = DecodeTrainSgd(FromText<Train>(R"(
      collection: "c" name: "n" label_attribute: "y" skip_missing: true
      filter { must { has_attribute { attribute: "z" } } }
      model { mlp { hidden: 8 classes: 3 } l2: 0.5 }
      method { preset: ISGD compressor: QSGD feedback: PLAIN levels: 4
               block_fraction: 0.25 blocks: 16 top_k: 9 strong_growth: 2 }
      mode { buffered { answers: 3 rule: STALENESS_SCALED } max_staleness: 7 }
      step_rule { inverse { step: 0.5 decay: 0.125 } smoothness: 3
                  strong_convexity: 0.25 }
      num_workers: 4 batch: 5 expected_global_batch: 20
      independent_sampling: true float64: true max_updates: 70
      target_loss: 0.125 min_squared_gradient: 0.0625 held_out: 0.5
      evaluate_every: 6 refresh_every: 8 seed: 11 threads: 2
      checkpoint_every: 13 report_every: 14 replace: true)"),
                                      Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  SgdOptions expected;
  expected.model.kind = SgdModelKind::kMlp;
  expected.model.hidden = 8;
  expected.model.classes = 3;
  expected.model.l2 = 0.5;
  expected.seed = 11;
  expected.workers = 4;
  expected.batch = 5;
  expected.expected_global_batch = 20;
  expected.sampling = SgdSampling::kIndependent;
  expected.estimator = SgdEstimator::kMiniBatch;
  expected.compressor = SgdCompressor::kQsgd;
  expected.feedback = SgdFeedback::kPlain;
  expected.levels = 4;
  expected.block_fraction = 0.25;
  expected.blocks = 16;
  expected.top_k = 9;
  expected.strong_growth = 2;
  expected.float64 = true;
  expected.mode = SgdMode::kBuffered;
  expected.rule = SgdAsyncRule::kStalenessScaled;
  expected.buffer = 3;
  expected.max_staleness = 7;
  expected.schedule = SgdSchedule::kInverse;
  expected.step = 0.5;
  expected.decay = 0.125;
  expected.smoothness = 3;
  expected.strong_convexity = 0.25;
  expected.max_updates = 70;
  expected.target_loss = 0.125;
  expected.min_gradient = 0.0625;
  expected.held_out = 0.5;
  expected.evaluate_every = 6;
  expected.refresh_every = 8;
  EXPECT_EQ(request->options, expected);
  EXPECT_EQ(request->filter.must.size(), 1U);
  EXPECT_EQ(request->threads, 2);
  EXPECT_EQ(request->checkpoint_every, 13);
  EXPECT_EQ(request->report_every, 14);
  EXPECT_TRUE(request->replace);
  EXPECT_TRUE(request->skip_missing);
}

TEST(TrainingConvert, AsynchronousRulesFollowTheFeedback) {
  Train request = ARequest();
  request.mutable_mode()->mutable_asynchronous();
  auto decoded = DecodeTrainSgd(request, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->options.rule, SgdAsyncRule::kTable);
  request.mutable_method()->set_preset(v1::SgdMethod::GRADIENT_DESCENT);
  decoded = DecodeTrainSgd(request, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->options.rule, SgdAsyncRule::kDelayAdaptive);
  request.mutable_method()->set_preset(v1::SgdMethod::ASYNCHRONOUS_PROXIMAL);
  request.clear_mode();
  decoded = DecodeTrainSgd(request, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->options.mode, SgdMode::kAsynchronous);
  EXPECT_EQ(decoded->options.rule, SgdAsyncRule::kProximal);
}

// An MLP in two parts.
Train ACutModel() {
  Train request = ARequest();
  request.mutable_model()->mutable_mlp()->set_hidden(4);
  request.mutable_model()->mutable_mlp()->set_classes(3);
  request.mutable_method()->set_preset(v1::SgdMethod::SGD);
  request.mutable_step_rule()->mutable_constant()->set_step(0.5);
  request.set_batch(6);
  request.set_num_workers(1);
  request.set_checkpoint_every(20);
  request.mutable_partition()->mutable_model_parallel();
  return request;
}

TEST(TrainingConvert, AModelInTwoPartsHasPiecesOfABatch) {
  Train request = ACutModel();
  auto decoded = DecodeTrainSgd(request, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->options.micro_batches, 6);
  EXPECT_EQ(decoded->options.gather_every, 20);
  request.mutable_partition()->mutable_model_parallel()->set_micro_batches(3);
  request.mutable_partition()->mutable_model_parallel()->set_back_copies(2);
  decoded = DecodeTrainSgd(request, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->options.micro_batches, 3);
  EXPECT_EQ(decoded->options.back_copies, 2);
  request.mutable_partition()->mutable_data_parallel();
  decoded = DecodeTrainSgd(request, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->options.micro_batches, 0);
}

struct Refused {
  std::function<void(Train*)> edit;
  std::string field;
  std::string says;
};

TEST(TrainingConvert, RefusesWhatIsNotSoundByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Refused> all = {
      {[](Train* t) { t->clear_collection(); }, "collection", ""},
      {[](Train* t) { t->set_name("a/b"); }, "name", ""},
      {[](Train* t) { t->clear_label_attribute(); }, "label_attribute", ""},
      {[](Train* t) { t->clear_model(); }, "model.kind", "not set"},
      {[](Train* t) { t->mutable_model()->mutable_softmax(); }, "model",
       "classes"},
      {[nan](Train* t) { t->mutable_model()->set_l2(nan); }, "model", "l2"},
      {[](Train* t) { t->clear_method(); }, "method.preset", "ISEGA"},
      {[](Train* t) {
         t->mutable_method()->set_preset(
             static_cast<v1::SgdMethod::Preset>(77));
       },
       "method.preset", "77"},
      {[](Train* t) { t->mutable_method()->set_block_fraction(1.5); },
       "method.block_fraction", "1.5"},
      {[](Train* t) {
         t->mutable_method()->set_compressor(v1::SgdMethod::TOP_K);
       },
       "method", "EF21"},
      {[](Train* t) { t->set_batch(3); }, "method", "full gradients"},
      {[](Train* t) { t->mutable_method()->set_preset(v1::SgdMethod::SGD); },
       "method", "batch is 0"},
      {[](Train* t) { t->mutable_mode()->mutable_backup(); },
       "mode.backup.shards", "0"},
      {[](Train* t) { t->mutable_mode()->set_max_staleness(-1); },
       "mode.max_staleness", "-1"},
      {[](Train* t) { t->mutable_step_rule()->mutable_constant(); },
       "step_rule.constant.step", "0"},
      {[nan](Train* t) { t->mutable_step_rule()->set_smoothness(nan); },
       "step_rule.smoothness", "nan"},
      {[](Train* t) {
         t->mutable_model()->mutable_mlp()->set_hidden(2);
         t->mutable_model()->mutable_mlp()->set_classes(2);
       },
       "step_rule", "constant"},
      {[](Train* t) { t->set_num_workers(-1); }, "num_workers", "-1"},
      {[](Train* t) { t->set_num_workers(kMostSgdWorkers + 1); }, "num_workers",
       "65537"},
      {[](Train* t) { t->set_max_updates(2'000'000'000); }, "max_updates",
       "2000000000"},
      {[nan](Train* t) { t->set_target_loss(nan); }, "target_loss", "nan"},
      {[](Train* t) { t->set_held_out(1); }, "held_out", "1"},
      {[](Train* t) { t->set_threads(-2); }, "threads", "-2"},
      {[](Train* t) { t->mutable_partition()->mutable_model_parallel(); },
       "method", "no layer"},
      {[](Train* t) {
         *t = ACutModel();
         t->set_num_workers(2);
       },
       "method", "no workers"},
      {[](Train* t) {
         *t = ACutModel();
         t->mutable_partition()->mutable_model_parallel()->set_micro_batches(7);
       },
       "method", "at most batch = 6"},
      {[](Train* t) {
         *t = ACutModel();
         t->mutable_partition()->mutable_model_parallel()->set_micro_batches(
             -1);
       },
       "partition.model_parallel.micro_batches", "-1"},
  };
  for (const Refused& refused : all) {
    SCOPED_TRACE(refused.field);
    Train request = ARequest();
    refused.edit(&request);
    const absl::Status status = DecodeTrainSgd(request, Limits()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(FieldOf(status), refused.field);
    EXPECT_THAT(std::string(status.message()), HasSubstr(refused.says));
  }
}

TEST(TrainingConvert, PredictTakesIdsOrVectors) {
  Limits limits;
  limits.queries = 2;
  const auto decode = [&](const std::string& text) {
    return DecodePredict(
        FromText<v1::PredictRequest>(R"(collection: "c" model: "m" )" + text),
        limits);
  };
  const auto ids = decode("ids: [ 7, 7 ]");
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_THAT(ids->ids, ElementsAre(7U, 7U));
  const auto vectors = decode("vectors { values { values: [ 1, 2 ] } }");
  ASSERT_TRUE(vectors.ok()) << vectors.status();
  EXPECT_THAT(vectors->vectors, ElementsAre(ElementsAre(1, 2)));
  for (const auto& [text, field] :
       {std::pair<std::string, std::string>("", "ids"),
        {"ids: 1 vectors { values { values: 1 } }", "ids"},
        {"ids: [ 1, 2, 3 ]", "ids"},
        {"vectors { values { values: 1 } } "
         "vectors { values { values: [ 1, 2 ] } }",
         "vectors[1]"}}) {
    const absl::Status status = decode(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(FieldOf(status), field) << text;
  }
}

TEST(TrainingConvert, EncodesReportsAndModels) {
  TrainedModel model;
  model.collection = "c";
  model.name = "m";
  model.model.kind = SgdModelKind::kSoftmax;
  model.model.dimension = 1;
  model.model.classes = 2;
  model.parameters = {0.5, -0.5};
  model.stop = SgdStop::kTargetLoss;
  model.last.progress.update = 9;
  model.last.progress.loss = 0.25;
  model.last.shards.resize(2);
  model.last.shards[1].dropped = 4;
  model.last.staleness.p95 = 3;
  model.warnings = {"w"};
  v1::SgdModel out;
  EncodeTrainedModel(model, true, &out);
  EXPECT_EQ(out.spec().softmax().classes(), 2);
  EXPECT_THAT(out.parameters(), ElementsAre(0.5, -0.5));
  EXPECT_EQ(out.parameter_count(), 2);
  EXPECT_EQ(out.stop(), v1::SgdModel::TARGET_LOSS);
  EXPECT_EQ(out.last().update(), 9);
  EXPECT_FALSE(out.last().has_measured_at());
  ASSERT_EQ(out.last().shards_size(), 2);
  EXPECT_EQ(out.last().shards(1).shard_id(), 1);
  EXPECT_EQ(out.last().shards(1).dropped(), 4);
  EXPECT_EQ(out.last().staleness().p95(), 3);
  EXPECT_THAT(out.warnings(), ElementsAre("w"));
  model.last.progress.measured_at = 0;
  v1::SgdModel bare;
  EncodeTrainedModel(model, false, &bare);
  EXPECT_TRUE(bare.parameters().empty());
  EXPECT_EQ(bare.parameter_count(), 2);
  EXPECT_TRUE(bare.last().has_measured_at());
}

}  // namespace
}  // namespace coterie
