#include "server/listen_address.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddress, ReadsHostsIpv6AndSockets) {
  const auto v4 = ParseListenAddress("127.0.0.1:7600");
  ASSERT_TRUE(v4.ok()) << v4.status();
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 7600);
  EXPECT_EQ(v4->ToString(9), "127.0.0.1:9");
  EXPECT_FALSE(v4->is_ipv6());

  const auto v6 = ParseListenAddress("[::1]:0");
  ASSERT_TRUE(v6.ok()) << v6.status();
  EXPECT_EQ(v6->host, "::1");
  EXPECT_TRUE(v6->is_ipv6());
  EXPECT_EQ(v6->ToString(7600), "[::1]:7600");

  for (const char* text : {"unix:/run/x.sock", "unix:///run/x.sock"}) {
    const auto socket = ParseListenAddress(text);
    ASSERT_TRUE(socket.ok()) << socket.status();
    EXPECT_TRUE(socket->is_unix());
    EXPECT_EQ(socket->ToString(0), "unix:/run/x.sock");
  }
}

TEST(ListenAddress, RefusesWhatItWouldHaveToGuess) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "has no port"},
      {"localhost", "has no port"},
      {":7600", "has no host"},
      {"::1:7600", "IPv6 without brackets"},
      {"[::1]", "bracket"},
      {"[::1", "bracket"},
      {"[nonsense]:1", "no IPv6 address"},
      {"host:", "port ''"},
      {"host:65536", "65536"},
      {"host:-1", "-1"},
      {"host:+1", "+1"},
      {"host:7x", "7x"},
      {"unix:", "no path"},
      {"unix:/" + std::string(200, 'a'), "over the system's limit"},
  };
  for (const auto& [text, why] : cases) {
    const auto parsed = ParseListenAddress(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(why));
  }
}

TEST(SocketLock, RefusesASecondHolderUntilTheFirstIsGone) {
  const std::string path = testing::TempDir() + "/listen.sock";
  {
    auto first = SocketLock::Take(path);
    ASSERT_TRUE(first.ok()) << first.status();
    SocketLock kept = *std::move(first);
    const auto second = SocketLock::Take(path);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(second.status().message()), HasSubstr(path));
  }
  EXPECT_TRUE(SocketLock::Take(path).ok());
}

}  // namespace
}  // namespace coterie
