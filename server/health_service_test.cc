#include "server/health_service.h"

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "server/health.h"

namespace coterie {
namespace {

namespace hv1 = grpc::health::v1;
using State = hv1::HealthCheckResponse;

class HealthServiceTest : public testing::Test {
 protected:
  HealthServiceTest() : service_(MakeHealthService(&health_)) {
    // gRPC's own shutdown, at the end of its last user, now and then waits.
    static const bool held = (grpc_init(), true);
    EXPECT_TRUE(held);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(service_->service());
    server_ = builder.BuildAndStart();
    stub_ = hv1::Health::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }
  ~HealthServiceTest() override { Stop(); }

  void Stop() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  std::string Check(const std::string& name) {
    grpc::ClientContext context;
    hv1::HealthCheckRequest request;
    request.set_service(name);
    State reply;
    const grpc::Status status = stub_->Check(&context, request, &reply);
    return status.ok() ? State::ServingStatus_Name(reply.status())
                       : absl::StrCat("code ", status.error_code());
  }

  Health health_;
  std::unique_ptr<HealthService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<hv1::Health::Stub> stub_;
};

TEST_F(HealthServiceTest, NothingServesBeforeItIsSaid) {
  EXPECT_EQ(Check(""), "NOT_SERVING");
  EXPECT_EQ(Check("coterie.v1.SearchService"), "NOT_SERVING");
  EXPECT_EQ(health_.reason(), "starting");
}

TEST_F(HealthServiceTest, AliveServesWhateverElseIsTheCase) {
  EXPECT_EQ(Check("alive"), "SERVING");
  health_.SetProcess(false, "a shard is missing");
  EXPECT_EQ(Check("alive"), "SERVING");
  health_.Drain();
  EXPECT_EQ(Check("alive"), "SERVING");
}

TEST_F(HealthServiceTest, NamesFollowWhatTheyName) {
  health_.SetShard(2, true);
  EXPECT_EQ(Check("shard/2"), "SERVING");
  EXPECT_EQ(Check(""), "NOT_SERVING");
  health_.SetProcess(true, "");
  health_.SetShard(2, false);
  EXPECT_EQ(Check(""), "SERVING");
  EXPECT_EQ(Check("coterie.v1.SearchService"), "SERVING");
  EXPECT_EQ(Check("shard/2"), "NOT_SERVING");
  EXPECT_EQ(health_.reason(), "");
}

TEST_F(HealthServiceTest, AnUnknownNameIsNotFound) {
  health_.SetProcess(true, "");
  EXPECT_EQ(Check("nope"), absl::StrCat("code ", grpc::StatusCode::NOT_FOUND));
  EXPECT_EQ(Check("shard/0"),
            absl::StrCat("code ", grpc::StatusCode::NOT_FOUND));
}

TEST_F(HealthServiceTest, DrainingIsForGood) {
  health_.SetProcess(true, "");
  health_.SetShard(0, true);
  health_.Drain();
  health_.SetProcess(true, "");
  health_.SetShard(0, true);
  EXPECT_EQ(Check(""), "NOT_SERVING");
  EXPECT_EQ(Check("shard/0"), "NOT_SERVING");
  EXPECT_NE(health_.reason().find("draining"), std::string::npos);
}

TEST_F(HealthServiceTest, WatchTellsEveryChangeAndEndsWhenToldTo) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  hv1::HealthCheckRequest request;
  request.set_service("shard/7");
  auto reader = stub_->Watch(&context, request);
  State reply;
  ASSERT_TRUE(reader->Read(&reply));
  EXPECT_EQ(reply.status(), State::SERVICE_UNKNOWN);
  health_.SetShard(7, true);
  ASSERT_TRUE(reader->Read(&reply));
  EXPECT_EQ(reply.status(), State::SERVING);
  health_.Drain();
  ASSERT_TRUE(reader->Read(&reply));
  EXPECT_EQ(reply.status(), State::NOT_SERVING);
  service_->EndWatches();
  EXPECT_FALSE(reader->Read(&reply));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(HealthServiceTest, AWatchOpenedAfterTheEndEndsAtOnce) {
  service_->EndWatches();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  auto reader = stub_->Watch(&context, hv1::HealthCheckRequest());
  State reply;
  while (reader->Read(&reply)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(HealthServiceTest, AWatcherThatGoesAwayIsForgotten) {
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    auto reader = stub_->Watch(&context, hv1::HealthCheckRequest());
    State reply;
    ASSERT_TRUE(reader->Read(&reply));
    context.TryCancel();
    reader->Finish();
    health_.SetProcess(i % 2 == 0, "as the test wants");
  }
  Stop();  // returns only when every call is done with
  health_.SetProcess(true, "");
}

}  // namespace
}  // namespace coterie
