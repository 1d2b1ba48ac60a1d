// The services of a coordinator on a loopback port, for tests.

#ifndef COTERIE_COORDINATOR_TEST_SERVER_H_
#define COTERIE_COORDINATOR_TEST_SERVER_H_

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "api/limits.h"
#include "api/v1/cluster.grpc.pb.h"
#include "api/v1/collections.grpc.pb.h"
#include "api/v1/points.grpc.pb.h"
#include "api/v1/search.grpc.pb.h"
#include "coordinator/coordinator.h"
#include "coordinator/services.h"
#include "sync/mutex.h"

namespace coterie {

inline void WaitUntil(const std::function<bool()>& condition) {
  while (!condition()) {
    std::this_thread::yield();
  }
}

// Counts RPCs as the services report them.
class Records {
 public:
  RpcObserver Observer() {
    return [this](absl::string_view method, absl::StatusCode code,
                  double seconds) {
      EXPECT_GE(seconds, 0);
      MutexLock lock(&mu_);
      ++counts_[{std::string(method), code}];
    };
  }
  int64_t Count(const std::string& method, absl::StatusCode code) {
    MutexLock lock(&mu_);
    return counts_[{method, code}];
  }

 private:
  Mutex mu_;
  std::map<std::pair<std::string, absl::StatusCode>, int64_t> counts_
      ABSL_GUARDED_BY(mu_);
};

// The services over a coordinator, on a port of the system's choice.
class TestServer {
 public:
  TestServer(Coordinator* coordinator, const Limits& limits) {
    // Held until the process ends: gRPC's own shutdown, at the end of its last
    // user, now and then waits 10 s for its poller.
    static const bool held = (grpc_init(), true);
    EXPECT_TRUE(held);
    services_ = MakeServices(coordinator, limits, {"1.2.3", "0f1e2d3c"},
                             records.Observer());
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    for (grpc::Service* service : services_->all()) {
      builder.RegisterService(service);
    }
    server_ = builder.BuildAndStart();
    EXPECT_NE(port, 0);
    auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port),
                                       grpc::InsecureChannelCredentials());
    collections = v1::CollectionService::NewStub(channel);
    points = v1::PointService::NewStub(channel);
    search = v1::SearchService::NewStub(channel);
    cluster = v1::ClusterService::NewStub(channel);
  }
  ~TestServer() { Shutdown(); }

  // Returns when every RPC has ended.
  void Shutdown() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  Records records;
  std::unique_ptr<v1::CollectionService::Stub> collections;
  std::unique_ptr<v1::PointService::Stub> points;
  std::unique_ptr<v1::SearchService::Stub> search;
  std::unique_ptr<v1::ClusterService::Stub> cluster;

 private:
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
};

inline v1::UpsertRequest UpsertOf(
    const std::string& collection,
    const std::vector<std::vector<float>>& vectors) {
  v1::UpsertRequest request;
  request.set_collection(collection);
  for (size_t i = 0; i < vectors.size(); ++i) {
    v1::Point* point = request.add_points();
    point->set_id(i + 1);
    for (float value : vectors[i]) {
      point->mutable_vector()->mutable_values()->add_values(value);
    }
  }
  return request;
}

inline v1::SearchRequest SearchOf(const std::string& collection,
                                  const std::vector<float>& query, int32_t k) {
  v1::SearchRequest request;
  request.set_collection(collection);
  v1::FloatVector* values =
      request.add_queries()->mutable_vector()->mutable_values();
  for (float value : query) {
    values->add_values(value);
  }
  request.set_k(k);
  return request;
}

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_TEST_SERVER_H_
