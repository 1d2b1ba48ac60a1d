// A server for tests of the command line: real gRPC on a free port of
// 127.0.0.1, points in memory, squared L2 whatever the metric says, two
// pretended shards (id mod 2), failures on demand.
//
// Thread-safe.

#ifndef COTERIE_CLIENT_FAKE_SERVER_H_
#define COTERIE_CLIENT_FAKE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/cluster.grpc.pb.h"
#include "api/v1/collections.grpc.pb.h"
#include "api/v1/points.grpc.pb.h"
#include "api/v1/search.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "sync/mutex.h"

namespace coterie {

class FakeServer : private v1::CollectionService::Service,
                   private v1::PointService::Service,
                   private v1::SearchService::Service,
                   private v1::ClusterService::Service,
                   private grpc::health::v1::Health::Service {
 public:
  FakeServer();
  ~FakeServer() override;

  // 127.0.0.1:PORT.
  const std::string& address() const { return address_; }

  // Of this method ("Upsert") the next `after` calls are served, then `times`
  // fail so.
  void Fail(const std::string& method, const absl::Status& status,
            int times = 1 << 30, int after = 0);

  // Applied to each search reply before it is sent.
  void AlterSearchReply(std::function<void(v1::SearchResponse*)> alter);

  int64_t calls(const std::string& method) const;
  // Of the last call of any method, in seconds from its arrival.
  double last_deadline_seconds() const;
  v1::SearchRequest last_search() const;
  // Sizes of the upsert batches received, in order.
  std::vector<int> batches() const;
  // Of every upsert that arrived, in order.
  std::vector<v1::UpsertRequest> upserts() const;
  std::map<uint64_t, v1::Point> points(const std::string& collection) const;
  v1::Collection collection(const std::string& name) const;

 private:
  struct Stored {
    v1::Collection collection;
    std::map<uint64_t, v1::Point> points;
  };

  grpc::Status CreateCollection(grpc::ServerContext* context,
                                const v1::CreateCollectionRequest* request,
                                v1::CreateCollectionResponse* reply) override;
  grpc::Status GetCollection(grpc::ServerContext* context,
                             const v1::GetCollectionRequest* request,
                             v1::GetCollectionResponse* reply) override;
  grpc::Status ListCollections(grpc::ServerContext* context,
                               const v1::ListCollectionsRequest* request,
                               v1::ListCollectionsResponse* reply) override;
  grpc::Status DeleteCollection(grpc::ServerContext* context,
                                const v1::DeleteCollectionRequest* request,
                                v1::DeleteCollectionResponse* reply) override;
  grpc::Status Upsert(grpc::ServerContext* context,
                      const v1::UpsertRequest* request,
                      v1::UpsertResponse* reply) override;
  grpc::Status Delete(grpc::ServerContext* context,
                      const v1::DeleteRequest* request,
                      v1::DeleteResponse* reply) override;
  grpc::Status Get(grpc::ServerContext* context, const v1::GetRequest* request,
                   v1::GetResponse* reply) override;
  grpc::Status Count(grpc::ServerContext* context,
                     const v1::CountRequest* request,
                     v1::CountResponse* reply) override;
  grpc::Status Scan(grpc::ServerContext* context,
                    const v1::ScanRequest* request,
                    grpc::ServerWriter<v1::ScanResponse>* writer) override;
  grpc::Status Search(grpc::ServerContext* context,
                      const v1::SearchRequest* request,
                      v1::SearchResponse* reply) override;
  grpc::Status Describe(grpc::ServerContext* context,
                        const v1::DescribeRequest* request,
                        v1::DescribeResponse* reply) override;
  // "" serves, "shard/1" does not, and there is nothing else.
  grpc::Status Check(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* reply) override;

  // Counts the call, and fails it if that was asked for.
  absl::Status Begin(const std::string& method,
                     const grpc::ServerContext& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Stored*> Find(const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  struct Failure {
    absl::Status status;
    int times = 0;
    int after = 0;
  };

  mutable Mutex mu_;
  std::map<std::string, Stored> collections_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Failure> failures_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int64_t> calls_ ABSL_GUARDED_BY(mu_);
  std::function<void(v1::SearchResponse*)> alter_ ABSL_GUARDED_BY(mu_);
  double last_deadline_seconds_ ABSL_GUARDED_BY(mu_) = 0;
  v1::SearchRequest last_search_ ABSL_GUARDED_BY(mu_);
  std::vector<int> batches_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::UpsertRequest> upserts_ ABSL_GUARDED_BY(mu_);

  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_FAKE_SERVER_H_
