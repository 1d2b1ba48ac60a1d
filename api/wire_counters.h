// What went over the wire, counted where RPCs are made and served.
//
// Thread-safe. Counted of each message is its serialised size and the five
// bytes with which gRPC frames it (FramedBytes). Not counted, because no layer
// of ours sees them: HTTP/2 frames and headers, status and error details, TLS,
// TCP/IP and pings. Messages are never compressed. A message counts as sent
// when it is handed to gRPC, also when it does not arrive.

#ifndef COTERIE_API_WIRE_COUNTERS_H_
#define COTERIE_API_WIRE_COUNTERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace coterie {

// Bytes of a message of this serialised size in gRPC's framing: a flag and a
// length of four bytes go ahead of it.
inline int64_t FramedBytes(size_t serialised_bytes) {
  return static_cast<int64_t>(serialised_bytes) + 5;
}

class WireCounters {
 public:
  struct Totals {
    int64_t messages_sent = 0;
    int64_t bytes_sent = 0;
    int64_t messages_received = 0;
    int64_t bytes_received = 0;
  };

  void CountSent(int64_t framed_bytes) {
    messages_sent_.fetch_add(1, std::memory_order_relaxed);
    bytes_sent_.fetch_add(framed_bytes, std::memory_order_relaxed);
  }
  void CountReceived(int64_t framed_bytes) {
    messages_received_.fetch_add(1, std::memory_order_relaxed);
    bytes_received_.fetch_add(framed_bytes, std::memory_order_relaxed);
  }

  // Each total is exact; together they are not of one instant.
  Totals totals() const {
    return {messages_sent_.load(std::memory_order_relaxed),
            bytes_sent_.load(std::memory_order_relaxed),
            messages_received_.load(std::memory_order_relaxed),
            bytes_received_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<int64_t> messages_sent_{0};
  std::atomic<int64_t> bytes_sent_{0};
  std::atomic<int64_t> messages_received_{0};
  std::atomic<int64_t> bytes_received_{0};
};

}  // namespace coterie

#endif  // COTERIE_API_WIRE_COUNTERS_H_
