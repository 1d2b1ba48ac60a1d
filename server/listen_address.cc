#include "server/listen_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace coterie {
namespace {

absl::Status Expected(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' ", why, "; expected host:port, [IPv6]:port or unix:PATH"));
}

absl::StatusOr<ListenAddress> ParseUnix(absl::string_view text,
                                        absl::string_view path) {
  // "unix:///abs" is the same as "unix:/abs".
  if (path.substr(0, 3) == "///") {
    path.remove_prefix(2);
  }
  if (path.empty()) {
    return Expected(text, "has no path");
  }
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Expected(text, absl::StrCat("has a path of ", path.size(),
                                       " bytes, over the system's limit of ",
                                       sizeof(sockaddr_un::sun_path) - 1));
  }
  ListenAddress address;
  address.unix_path = std::string(path);
  return address;
}

}  // namespace

std::string ListenAddress::ToString(int with_port) const {
  if (is_unix()) {
    return absl::StrCat("unix:", unix_path);
  }
  if (is_ipv6()) {
    return absl::StrCat("[", host, "]:", with_port);
  }
  return absl::StrCat(host, ":", with_port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    return ParseUnix(text, rest);
  }
  ListenAddress address;
  absl::string_view port;
  if (absl::ConsumePrefix(&rest, "[")) {
    const size_t end = rest.find("]:");
    if (end == absl::string_view::npos) {
      return Expected(text, "opens a bracket that no ]:port closes");
    }
    address.host = std::string(rest.substr(0, end));
    port = rest.substr(end + 2);
    in6_addr parsed;
    const size_t zone = address.host.find('%');
    if (inet_pton(AF_INET6, address.host.substr(0, zone).c_str(), &parsed) !=
        1) {
      return Expected(text, "has no IPv6 address in its brackets");
    }
  } else {
    const size_t colon = rest.find(':');
    if (colon == absl::string_view::npos) {
      return Expected(text, "has no port");
    }
    if (rest.find(':', colon + 1) != absl::string_view::npos) {
      return Expected(text, "reads as IPv6 without brackets");
    }
    address.host = std::string(rest.substr(0, colon));
    port = rest.substr(colon + 1);
  }
  if (address.host.empty()) {
    return Expected(text, "has no host (0.0.0.0 is every IPv4 address)");
  }
  if (port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(port, &address.port) || address.port > 65535) {
    return Expected(
        text, absl::StrCat("has a port '", port, "' that is not in 0..65535"));
  }
  return address;
}

absl::Status CheckFamily(const ListenAddress& address) {
  if (!address.is_ipv6()) {
    return absl::OkStatus();
  }
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_loopback;
  const bool works =
      fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof(any)) == 0;
  if (fd >= 0) {
    close(fd);
  }
  if (works) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(
      "cannot listen on ", address.ToString(address.port),
      ": IPv6 is off on this machine; 0.0.0.0 is every IPv4 address"));
}

absl::StatusOr<SocketLock> SocketLock::Take(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  SocketLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on unix:", socket_path,
                     ": another server that lives has it (", path, ")"));
  }
  return lock;
}

SocketLock::~SocketLock() {
  if (fd_ >= 0) {
    close(fd_);  // releases the flock
  }
}

}  // namespace coterie
