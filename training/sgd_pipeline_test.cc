#include "training/sgd_pipeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "training/sgd_simulation.h"
#include "training/sgd_testing.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

SgdModel Mlp() {
  SgdModel model;
  model.kind = SgdModelKind::kMlp;
  model.dimension = 9;
  model.hidden = 6;
  model.classes = 3;
  model.l2 = 1e-3;
  model.l1 = 1e-4;
  return model;
}

// Rows in the order of ids, as a shard has them.
SgdSimulationData Data(int64_t n) {
  SgdSimulationData data = MakeData(n, 9, 1, TestSeed());
  std::mt19937_64 random(TestSeed());
  for (double& label : data.labels) label = static_cast<double>(random() % 3);
  return data;
}

struct Stages {
  SgdFrontStage front;
  SgdBackStage back;
};

Stages Begin(const SgdModel& model) {
  const SgdStages split =
      *SplitSgdStages(model, 0, InitialSgdParameters(model, TestSeed()));
  return {*SgdFrontStage::Create(model, split.front),
          *SgdBackStage::Create(model, split.back)};
}

// One step of both, all messages as bytes; front is up to `ahead` micro-batches
// ahead. Bytes across the cut: there and back.
std::pair<int64_t, int64_t> Step(const SgdModel& model,
                                 const SgdSimulationData& data, size_t micro,
                                 size_t ahead, double step_size,
                                 Stages& stages) {
  std::vector<std::string> queue;
  int64_t down = 0, up = 0;
  const auto drain = [&](size_t keep) {
    while (queue.size() > keep) {
      const auto reply =
          stages.back.Process(*DecodeSgdActivations(model, queue.front()));
      ASSERT_TRUE(reply.ok()) << reply.status();
      queue.erase(queue.begin());
      const std::string bytes = EncodeSgdActivationGradients(*reply);
      up += static_cast<int64_t>(bytes.size());
      const absl::Status status =
          stages.front.Backward(*DecodeSgdActivationGradients(model, bytes));
      ASSERT_TRUE(status.ok()) << status;
    }
  };
  for (size_t at = 0; at < data.labels.size(); at += micro) {
    const size_t count = std::min(micro, data.labels.size() - at);
    std::vector<const float*> rows;
    for (size_t i = at; i < at + count; ++i) {
      rows.push_back(data.values.data() + i * 9);
    }
    const auto message = stages.front.Forward(
        rows, absl::MakeSpan(data.labels).subspan(at, count));
    EXPECT_TRUE(message.ok()) << message.status();
    queue.push_back(EncodeSgdActivations(*message));
    down += static_cast<int64_t>(queue.back().size());
    drain(ahead);
  }
  drain(0);
  const int64_t step = stages.back.state().step;
  EXPECT_TRUE(stages.back.Finish(step, data.size(), step_size).ok());
  EXPECT_TRUE(stages.front.Finish(step, data.size(), step_size).ok());
  return {down, up};
}

TEST(SgdPipeline, IsOneProcessBitForBitForAnyMicroBatches) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const SgdModel model = Mlp();
  const SgdSimulationData data = Data(50);
  SgdOptions options = TestOptions(SgdMethod::kGradientDescent, model, 1);
  options.schedule = SgdSchedule::kConstant;
  options.step = 0.4;
  options.max_updates = 100;
  const std::vector<double> one =
      Trained(data, options, 1, std::vector<int32_t>(50));
  for (size_t micro : {50, 16, 7, 1}) {
    Stages stages = Begin(model);
    double first = 0, last = 0;
    for (int t = 0; t < 100; ++t) {
      Step(model, data, micro, std::min<size_t>(3, micro), 0.4, stages);
      last = stages.front.loss();
      if (t == 0) first = last;
    }
    EXPECT_LT(last, first);
    const auto joined =
        JoinSgdStages(model, {stages.front.state(), stages.back.state()});
    ASSERT_TRUE(joined.ok()) << joined.status();
    EXPECT_EQ(*joined, one) << micro;
  }
}

TEST(SgdPipeline, BytesAcrossTheCutAreBatchTimesHiddenTimesFour) {
  const SgdModel model = Mlp();
  const SgdSimulationData data = Data(48);
  for (size_t micro : {48, 12}) {
    Stages stages = Begin(model);
    const auto [down, up] = Step(model, data, micro, 0, 0.1, stages);
    const int64_t messages = static_cast<int64_t>(48 / micro);
    EXPECT_GE(down, 48 * 6 * 4 + 48);
    EXPECT_LE(down, 48 * 6 * 4 + 48 + 8 * messages);
    EXPECT_GE(up, 48 * 6 * 4);
    EXPECT_LE(up, 48 * 6 * 4 + 16 * messages);
  }
}

TEST(SgdPipeline, AnAbortedStepLeavesNoTrace) {
  const SgdModel model = Mlp();
  const SgdSimulationData data = Data(20);
  Stages clean = Begin(model), broken = Begin(model);
  const float* row = data.values.data();
  const auto sent = broken.front.Forward({row}, {data.labels[0]});
  const auto reply = broken.back.Process(*sent);
  ASSERT_TRUE(broken.front.Backward(*reply).ok());
  broken.front.Abort();
  broken.back.Abort();
  Step(model, data, 8, 1, 0.1, clean);
  Step(model, data, 8, 1, 0.1, broken);
  EXPECT_EQ(clean.front.state(), broken.front.state());
  EXPECT_EQ(clean.back.state(), broken.back.state());
  // A message of the step before is refused.
  EXPECT_EQ(broken.back.Process(*sent).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SgdPipeline, StagesOfDifferentStepsAreNotJoined) {
  const SgdModel model = Mlp();
  Stages stages = Begin(model);
  SgdStages states = {stages.front.state(), stages.back.state()};
  states.back.step = 1;
  EXPECT_THAT(std::string(JoinSgdStages(model, states).status().message()),
              HasSubstr("different steps: 0 and 1"));
}

TEST(SgdPipeline, WhatDoesNotFitIsRefusedAndChangesNothing) {
  const SgdModel model = Mlp();
  const SgdSimulationData data = Data(4);
  Stages stages = Begin(model);
  const float* row = data.values.data();
  EXPECT_FALSE(stages.front.Forward({row}, {3}).ok());
  auto sent = stages.front.Forward({row}, {1});
  ASSERT_TRUE(sent.ok());
  auto wrong = *sent;
  wrong.micro = 1;
  EXPECT_THAT(std::string(stages.back.Process(wrong).status().message()),
              HasSubstr("micro-batch 1 of step 0; due is 0"));
  wrong = *sent;
  wrong.values.pop_back();
  EXPECT_FALSE(stages.back.Process(wrong).ok());
  auto reply = stages.back.Process(*sent);
  ASSERT_TRUE(reply.ok());
  EXPECT_FALSE(stages.back.Finish(0, 2, 0.1).ok());
  EXPECT_FALSE(stages.front.Finish(0, 1, 0.1).ok());  // gradients are not back
  ASSERT_TRUE(stages.front.Backward(*reply).ok());
  EXPECT_FALSE(stages.front.Backward(*reply).ok());
  EXPECT_TRUE(stages.front.Finish(0, 1, 0.1).ok());
}

TEST(SgdPipeline, BytesAreValidated) {
  const SgdModel model = Mlp();
  SgdActivations message;
  message.values.assign(12, 0.5F);
  message.labels = {0, 2};
  const std::string bytes = EncodeSgdActivations(message);
  EXPECT_EQ(*DecodeSgdActivations(model, bytes), message);
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(DecodeSgdActivations(model, bytes.substr(0, cut)).ok());
  }
  EXPECT_FALSE(DecodeSgdActivations(model, bytes + "x").ok());
  message.labels = {0, 3};
  EXPECT_FALSE(DecodeSgdActivations(model, EncodeSgdActivations(message)).ok());
  message.labels = {0, 2};
  message.values[3] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(DecodeSgdActivations(model, EncodeSgdActivations(message)).ok());
  SgdActivationGradients gradients;
  gradients.values.assign(11, 1);
  EXPECT_FALSE(DecodeSgdActivationGradients(
                   model, EncodeSgdActivationGradients(gradients))
                   .ok());
}

}  // namespace
}  // namespace coterie
