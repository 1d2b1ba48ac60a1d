#include "api/rpc_roles.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/v1/cluster.pb.h"
#include "api/v1/clustering.pb.h"
#include "api/v1/collections.pb.h"
#include "api/v1/jobs.pb.h"
#include "api/v1/points.pb.h"
#include "api/v1/search.pb.h"
#include "api/v1/shard.pb.h"
#include "api/v1/types.pb.h"

namespace coterie {
namespace {

// Descriptors are known to the pool once something of their file is linked in:
// name one message of each.
void LinkEveryFile() {
  ASSERT_NE(v1::DescribeRequest::descriptor(), nullptr);
  ASSERT_NE(v1::Clustering::descriptor(), nullptr);
  ASSERT_NE(v1::Collection::descriptor(), nullptr);
  ASSERT_NE(v1::Job::descriptor(), nullptr);
  ASSERT_NE(v1::UpsertRequest::descriptor(), nullptr);
  ASSERT_NE(v1::SearchRequest::descriptor(), nullptr);
  ASSERT_NE(v1::EchoRequest::descriptor(), nullptr);
  ASSERT_NE(v1::Vector::descriptor(), nullptr);
}

// Every method of every .proto file in api/v1, as "package.Service/Method".
std::vector<std::string> DescribedMethods() {
  std::vector<std::string> methods;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("api/v1")) {
    if (entry.path().extension() != ".proto") continue;
    ++files;
    const std::string name = entry.path().generic_string();
    const google::protobuf::FileDescriptor* file =
        google::protobuf::DescriptorPool::generated_pool()->FindFileByName(
            name);
    EXPECT_NE(file, nullptr) << name << ": add it to LinkEveryFile";
    if (file == nullptr) continue;
    for (int s = 0; s < file->service_count(); ++s) {
      const google::protobuf::ServiceDescriptor* service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        methods.push_back(absl::StrCat(service->full_name(), "/",
                                       service->method(m)->name()));
      }
    }
  }
  EXPECT_GE(files, 6);
  std::sort(methods.begin(), methods.end());
  return methods;
}

TEST(RpcRoles, HoldExactlyTheMethodsOfTheServices) {
  LinkEveryFile();
  std::vector<std::string> listed;
  for (const RpcRoleEntry& entry : RpcRoles()) {
    listed.emplace_back(entry.method);
  }
  EXPECT_EQ(listed, DescribedMethods());  // sorted, as the header says
}

TEST(RpcRoles, FindEachMethodAndNothingElse) {
  for (const RpcRoleEntry& entry : RpcRoles()) {
    EXPECT_EQ(RoleOf(entry.method), entry.role) << entry.method;
  }
  for (const char* method :
       {"", "coterie.v1.SearchService", "/coterie.v1.SearchService/Search",
        "coterie.v1.SearchService/Searc", "coterie.v1.SearchService/Search2",
        "zzz"}) {
    EXPECT_EQ(RoleOf(method), std::nullopt) << method;
  }
}

TEST(RpcRoles, WhatChangesDataIsNotARead) {
  EXPECT_EQ(RoleOf("coterie.v1.PointService/Upsert"), RpcRole::kWrite);
  EXPECT_EQ(RoleOf("coterie.v1.PointService/UpsertStream"), RpcRole::kWrite);
  EXPECT_EQ(RoleOf("coterie.v1.PointService/SetAttributes"), RpcRole::kWrite);
  EXPECT_EQ(RoleOf("coterie.v1.PointService/Delete"), RpcRole::kWrite);
  EXPECT_EQ(RoleOf("coterie.v1.CollectionService/CreateCollection"),
            RpcRole::kAdmin);
  EXPECT_EQ(RoleOf("coterie.v1.CollectionService/DeleteCollection"),
            RpcRole::kAdmin);
}

TEST(RpcRoles, WhatShardsServeToCoordinatorsIsInternal) {
  for (const RpcRoleEntry& entry : RpcRoles()) {
    EXPECT_EQ(entry.role == RpcRole::kInternal,
              absl::StartsWith(entry.method, "coterie.v1.ShardService/"))
        << entry.method;
  }
}

}  // namespace
}  // namespace coterie
