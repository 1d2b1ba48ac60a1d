// A closed-loop load generator for any unary gRPC method that spends as little
// as it can, so that beside the server on a small machine it is the server that
// is measured: requests are sent as the bytes they are in a file, replies are
// not parsed.
//
// Requests file: for each a 32-bit little-endian length and that many bytes.
// Clients have a connection each and send the requests in turn, each client
// from another place. One line of JSON is printed; with --once every request is
// sent once, in order, and the replies go to --replies in the same format.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

ABSL_FLAG(std::string, target, "", "host:port of the server.");
ABSL_FLAG(std::string, method, "/coterie.v1.SearchService/Search",
          "Unary method to call.");
ABSL_FLAG(std::string, requests, "", "File of requests.");
ABSL_FLAG(std::string, replies, "", "With --once: file for the replies.");
ABSL_FLAG(bool, once, false, "Send every request once, in order.");
ABSL_FLAG(int32_t, clients, 1, "Connections, each with one call at a time.");
ABSL_FLAG(absl::Duration, seconds, absl::Seconds(5), "Time that is measured.");
ABSL_FLAG(absl::Duration, warm, absl::Seconds(1), "Time before that.");

namespace coterie {
namespace {

constexpr int kMostBytes = 64 << 20;

std::vector<grpc::ByteBuffer> ReadRequests(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<grpc::ByteBuffer> requests;
  uint32_t size = 0;
  while (file.read(reinterpret_cast<char*>(&size), sizeof(size))) {
    std::string bytes(size, '\0');
    if (!file.read(bytes.data(), size)) break;
    const grpc::Slice slice(bytes);
    requests.emplace_back(&slice, 1);
  }
  return requests;
}

// One connection.
class Client {
 public:
  Client() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(kMostBytes);
    stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
        absl::GetFlag(FLAGS_target), grpc::InsecureChannelCredentials(),
        arguments));
  }

  grpc::Status Call(const grpc::ByteBuffer& request, grpc::ByteBuffer* reply) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    const auto call =
        stub_->PrepareUnaryCall(&context, method_, request, &queue_);
    call->StartCall();
    grpc::Status status;
    call->Finish(reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return status;
  }

 private:
  const std::string method_ = absl::GetFlag(FLAGS_method);
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
};

int SendOnce(const std::vector<grpc::ByteBuffer>& requests) {
  std::ofstream file(absl::GetFlag(FLAGS_replies), std::ios::binary);
  Client client;
  for (const grpc::ByteBuffer& request : requests) {
    grpc::ByteBuffer reply;
    const grpc::Status status = client.Call(request, &reply);
    if (!status.ok()) {
      std::cerr << status.error_message() << "\n";
      return 1;
    }
    const auto size = static_cast<uint32_t>(reply.Length());
    file.write(reinterpret_cast<const char*>(&size), sizeof(size));
    std::vector<grpc::Slice> slices;
    if (!reply.Dump(&slices).ok()) return 1;
    for (const grpc::Slice& slice : slices) {
      file.write(reinterpret_cast<const char*>(slice.begin()),
                 static_cast<std::streamsize>(slice.size()));
    }
  }
  return file.good() ? 0 : 1;
}

struct Measured {
  std::vector<double> milliseconds;
  int64_t errors = 0;
  std::string error;
};

// Calls that end within [start, stop] count.
void Load(const std::vector<grpc::ByteBuffer>& requests, size_t first,
          absl::Time start, absl::Time stop, Measured* measured) {
  Client client;
  for (size_t i = first;; ++i) {
    const absl::Time begin = absl::Now();
    if (begin > stop) return;
    grpc::ByteBuffer reply;
    const grpc::Status status =
        client.Call(requests[i % requests.size()], &reply);
    const absl::Time end = absl::Now();
    if (!status.ok()) {
      measured->error = status.error_message();
      if (++measured->errors > 20) return;
    } else if (end > start && end <= stop) {
      measured->milliseconds.push_back(absl::ToDoubleMilliseconds(end - begin));
    }
  }
}

double CpuSeconds() {
  rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) +
           static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

int LoadAll(const std::vector<grpc::ByteBuffer>& requests) {
  const auto clients = static_cast<size_t>(absl::GetFlag(FLAGS_clients));
  const absl::Duration length = absl::GetFlag(FLAGS_seconds);
  const absl::Time start = absl::Now() + absl::GetFlag(FLAGS_warm);
  const absl::Time stop = start + length;
  std::vector<Measured> measured(clients);
  std::vector<std::thread> threads;
  for (size_t c = 0; c < clients; ++c) {
    threads.emplace_back(Load, std::cref(requests),
                         c * requests.size() / clients, start, stop,
                         &measured[c]);
  }
  absl::SleepFor(start - absl::Now());
  const double before = CpuSeconds();
  absl::SleepFor(stop - absl::Now());
  const double cpu = CpuSeconds() - before;
  for (std::thread& thread : threads) thread.join();
  std::vector<double> all;
  int64_t errors = 0;
  std::string error;
  for (const Measured& m : measured) {
    all.insert(all.end(), m.milliseconds.begin(), m.milliseconds.end());
    errors += m.errors;
    if (!m.error.empty()) error = m.error;
  }
  std::sort(all.begin(), all.end());
  const auto percentile = [&all](double part) {
    if (all.empty()) return 0.0;
    const auto at = static_cast<size_t>(part * static_cast<double>(all.size()));
    return all[std::min(at, all.size() - 1)];
  };
  const double seconds = absl::ToDoubleSeconds(length);
  std::cout << absl::StreamFormat(
      "{\"clients\": %d, \"calls\": %d, \"errors\": %d, \"qps\": %.1f, "
      "\"p50_ms\": %.3f, \"p99_ms\": %.3f, \"client_cores\": %.3f}\n",
      clients, all.size(), errors, static_cast<double>(all.size()) / seconds,
      percentile(0.5), percentile(0.99), cpu / seconds);
  if (errors > 0) std::cerr << error << "\n";
  return errors > 0 ? 1 : 0;
}

}  // namespace
}  // namespace coterie

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const auto requests = coterie::ReadRequests(absl::GetFlag(FLAGS_requests));
  if (requests.empty()) {
    std::cerr << "no requests in '" << absl::GetFlag(FLAGS_requests) << "'\n";
    return 1;
  }
  return absl::GetFlag(FLAGS_once) ? coterie::SendOnce(requests)
                                   : coterie::LoadAll(requests);
}
