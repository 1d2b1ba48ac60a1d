#include "server/health.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

constexpr const char* kProcessNames[] = {"", "coterie.v1.SearchService",
                                         "coterie.v1.PointService",
                                         "coterie.v1.CollectionService"};
constexpr char kAlive[] = "alive";

}  // namespace

Health::Health() {
  for (const char* name : kProcessNames) {
    serving_[name] = false;
  }
  serving_[kAlive] = true;
}

void Health::SetProcess(bool serving, std::string reason) {
  MutexLock lock(&mu_);
  if (draining_) {
    return;
  }
  reason_ = serving ? "" : std::move(reason);
  for (const char* name : kProcessNames) {
    Set(name, serving);
  }
}

void Health::SetShard(int32_t shard_id, bool serving) {
  MutexLock lock(&mu_);
  if (!draining_) {
    Set(absl::StrCat("shard/", shard_id), serving);
  }
}

void Health::Drain() {
  MutexLock lock(&mu_);
  draining_ = true;
  reason_ = "draining: the process is about to stop";
  for (const auto& entry : std::map<std::string, bool>(serving_)) {
    Set(entry.first, entry.first == kAlive);
  }
}

void Health::Set(const std::string& name, bool serving) {
  auto [it, added] = serving_.emplace(name, serving);
  if (!added && it->second == serving) {
    return;
  }
  it->second = serving;
  for (const auto& [id, entry] : watches_) {
    if (entry.name == name) {
      entry.watcher(serving);
    }
  }
}

bool Health::serving() const { return Check("").value_or(false); }

std::string Health::reason() const {
  MutexLock lock(&mu_);
  return reason_;
}

std::optional<bool> Health::Check(const std::string& name) const {
  MutexLock lock(&mu_);
  const auto it = serving_.find(name);
  if (it == serving_.end()) {
    return std::nullopt;
  }
  return it->second;
}

int64_t Health::Watch(const std::string& name, Watcher watcher) {
  MutexLock lock(&mu_);
  const auto it = serving_.find(name);
  watcher(it == serving_.end() ? std::nullopt
                               : std::optional<bool>(it->second));
  watches_[next_watch_] = {name, std::move(watcher)};
  return next_watch_++;
}

void Health::Unwatch(int64_t watch) {
  MutexLock lock(&mu_);
  watches_.erase(watch);
}

}  // namespace coterie
