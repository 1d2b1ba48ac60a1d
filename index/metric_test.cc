#include "index/metric.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                               Metric::kCosine};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string Message(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(Metric, NamesAreThoseOfTheInterface) {
  EXPECT_EQ(MetricName(Metric::kSquaredL2), "SQUARED_L2");
  EXPECT_EQ(MetricName(Metric::kInnerProduct), "INNER_PRODUCT");
  EXPECT_EQ(MetricName(Metric::kCosine), "COSINE");
}

TEST(ValidateVector, AcceptsEveryFiniteMagnitude) {
  const std::vector<float> v = {0,
                                -0.0f,
                                1,
                                3.4028234e38f,
                                -3.4028234e38f,
                                std::numeric_limits<float>::denorm_min()};
  for (Metric metric : kMetrics) {
    EXPECT_TRUE(ValidateVector(metric, v).ok()) << MetricName(metric);
  }
}

TEST(ValidateVector, NamesTheFirstComponentThatIsNotFinite) {
  for (Metric metric : kMetrics) {
    EXPECT_THAT(Message(ValidateVector(metric, {1, 2, kNan, kInfinity})),
                HasSubstr("component 2 is nan"));
    EXPECT_THAT(Message(ValidateVector(metric, {1, -kInfinity, kNan})),
                HasSubstr("component 1 is -inf"));
    EXPECT_THAT(Message(ValidateVector(metric, {kInfinity})),
                HasSubstr("component 0 is inf"));
  }
}

TEST(ValidateVector, RefusesZeroUnderCosineOnly) {
  const std::vector<float> zero = {0, -0.0f, 0};
  EXPECT_TRUE(ValidateVector(Metric::kSquaredL2, zero).ok());
  EXPECT_TRUE(ValidateVector(Metric::kInnerProduct, zero).ok());
  EXPECT_THAT(Message(ValidateVector(Metric::kCosine, zero)),
              HasSubstr("all 3 components are 0"));
}

TEST(ValidateVector, TakesTheSmallestSubnormalForADirection) {
  EXPECT_TRUE(ValidateVector(Metric::kCosine,
                             {0, std::numeric_limits<float>::denorm_min()})
                  .ok());
}

}  // namespace
}  // namespace coterie
