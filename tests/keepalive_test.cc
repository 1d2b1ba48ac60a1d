// How often a client without calls may ping.

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/rpc_call.h"
#include "gtest/gtest.h"
#include "server/server.h"
#include "tests/health_client.h"

namespace coterie {
namespace {

class Keepalive : public testing::Test {
 protected:
  // With data in a folder of that name.
  static std::unique_ptr<Server> Start(const std::string& name,
                                       absl::Duration least_ping_interval) {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.http = "";
    options.data_dir = testing::TempDir() + "/" + name;
    options.local_shards = 1;
    options.least_ping_interval = least_ping_interval;
    auto server = Server::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    EXPECT_TRUE((*server)->AwaitServing().ok());
    return *std::move(server);
  }
};

// A channel that has asked once and then only pings, as often as this.
std::shared_ptr<grpc::Channel> Pinging(const std::string& address,
                                       absl::Duration interval) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(interval)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  auto channel = grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments);
  EXPECT_EQ(CheckHealth(channel, ""), "SERVING");
  return channel;
}

bool IsSentAwayWithin(grpc::Channel* channel, absl::Duration patience) {
  return channel->WaitForStateChange(
      GRPC_CHANNEL_READY, absl::ToChronoTime(absl::Now() + patience));
}

// What the documentation has clients ping at, at least.
static_assert(kLeastPingInterval <= absl::Seconds(15));

// Two servers are pinged once a second, which is the most that gRPC sends: the
// one that takes pings every 10 s ends the channel, the other does not.
TEST_F(Keepalive, IdleChannelsMayPingAsOftenAsTheServerSaysAndNotFaster) {
  const auto patient = Start("patient", absl::Milliseconds(500));
  const auto usual = Start("usual", absl::ZeroDuration());
  const auto kept = Pinging(patient->address(), absl::Seconds(1));
  const auto fast = Pinging(usual->address(), absl::Seconds(1));
  EXPECT_TRUE(IsSentAwayWithin(fast.get(), absl::Seconds(60)));
  EXPECT_FALSE(IsSentAwayWithin(kept.get(), absl::Seconds(1)));
  EXPECT_EQ(CheckHealth(kept, ""), "SERVING");
}

// IDLE_SECONDS in the environment says for how long a channel idles; pings are
// seen from 60 on.
TEST_F(Keepalive, IdleChannelsMayPingAsDocumented) {
  const char* text = std::getenv("IDLE_SECONDS");
  int64_t seconds = 1;
  if (text != nullptr) {
    ASSERT_TRUE(absl::SimpleAtoi(text, &seconds));
  }
  const auto server = Start("documented", absl::ZeroDuration());
  const auto channel = Pinging(server->address(), absl::Seconds(15));
  EXPECT_FALSE(IsSentAwayWithin(channel.get(), absl::Seconds(seconds)));
  EXPECT_EQ(CheckHealth(channel, ""), "SERVING");
}

}  // namespace
}  // namespace coterie
