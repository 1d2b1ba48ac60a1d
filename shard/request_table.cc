#include "shard/request_table.h"

#include <algorithm>
#include <utility>

namespace coterie {

bool RequestTable::Applied(int32_t slot, const RequestId& request) const {
  const auto clients = slots_.find(slot);
  if (clients == slots_.end()) return false;
  const auto last = clients->second.find(request.client_id);
  return last != clients->second.end() &&
         last->second.sequence >= request.sequence;
}

std::optional<std::string> RequestTable::Note(int32_t slot,
                                              const RequestId& request,
                                              int64_t offset) {
  Clients& clients = slots_[slot];
  clients[request.client_id] = {request.sequence, offset};
  if (clients.size() <= kClientsPerSlot) return std::nullopt;
  const auto oldest = std::min_element(
      clients.begin(), clients.end(), [](const auto& a, const auto& b) {
        return a.second.offset < b.second.offset;
      });
  std::string displaced = oldest->first;
  clients.erase(oldest);
  return displaced;
}

void RequestTable::Load(int32_t slot, std::string client_id,
                        AppliedRequest last) {
  slots_[slot][std::move(client_id)] = last;
}

}  // namespace coterie
