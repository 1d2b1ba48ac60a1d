#include "tests/kill9_history.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "api/placement.h"

namespace coterie {
namespace {

std::string NameOf(StoredVersion version) {
  return version.has_value() ? absl::StrCat("version ", *version) : "nothing";
}

}  // namespace

std::string Kill9History::client_id() const {
  return absl::StrCat("writer ", writer_);
}

std::vector<PointId> Kill9History::ids() const {
  std::vector<PointId> ids;
  for (int64_t i = 0; i < kIdsPerWriter; ++i) {
    ids.push_back(IdOf(static_cast<uint64_t>(i)));
  }
  return ids;
}

PointId Kill9History::IdOf(uint64_t index) const {
  // Scattered, but each writer's own: the hash is a bijection.
  return SplitMix64(static_cast<uint64_t>(writer_) * 1000003 + index);
}

const Kill9History::Write& Kill9History::Next(std::mt19937_64* random) {
  Write write;
  write.version = ++version_;
  write.is_delete = (*random)() % 4 == 0;
  std::set<uint64_t> indices;
  for (uint64_t n = 1 + (*random)() % 20; n > 0; --n) {
    indices.insert((*random)() % static_cast<uint64_t>(kIdsPerWriter));
  }
  for (const uint64_t index : indices) write.ids.push_back(IdOf(index));
  pending_ = std::move(write);
  return *pending_;
}

void Kill9History::Acknowledge() {
  for (const PointId id : pending_->ids) {
    if (pending_->is_delete) {
      stored_.erase(id);
    } else {
      stored_[id] = pending_->version;
    }
  }
  pending_.reset();
}

std::string Kill9History::Adopt(const std::map<PointId, int64_t>& stored) {
  std::set<PointId> in_doubt;
  if (pending_.has_value()) {
    in_doubt.insert(pending_->ids.begin(), pending_->ids.end());
  }
  std::map<PointId, int64_t> found;
  for (int64_t i = 0; i < kIdsPerWriter; ++i) {
    const PointId id = IdOf(static_cast<uint64_t>(i));
    const auto now = stored.find(id);
    const auto before = stored_.find(id);
    const StoredVersion is =
        now == stored.end() ? StoredVersion() : now->second;
    const StoredVersion was =
        before == stored_.end() ? StoredVersion() : before->second;
    StoredVersion may_be = was;
    if (in_doubt.count(id) == 1) {
      may_be = pending_->is_delete ? StoredVersion() : pending_->version;
    }
    if (is != was && is != may_be) {
      return absl::StrCat("point ", id, " of ", client_id(), ": ", NameOf(was),
                          " was acknowledged, ", NameOf(may_be),
                          " may have been stored, but ", NameOf(is), " is");
    }
    if (is.has_value()) found[id] = *is;
  }
  stored_ = std::move(found);
  return "";
}

std::vector<float> Kill9History::VectorOf(PointId id, int64_t version) {
  return {static_cast<float>(version), static_cast<float>(id % 1000),
          static_cast<float>(SplitMix64(id + static_cast<uint64_t>(version)) %
                             1000),
          1};
}

v1::RequestId Kill9History::RequestOf(const Write& write) const {
  v1::RequestId request;
  request.set_client_id(client_id());
  request.set_sequence(write.version);
  return request;
}

v1::UpsertRequest Kill9History::UpsertOf(const Write& write) const {
  v1::UpsertRequest request;
  request.set_collection("c");
  *request.mutable_request_id() = RequestOf(write);
  for (const PointId id : write.ids) {
    v1::Point* point = request.add_points();
    point->set_id(id);
    const std::vector<float> vector = VectorOf(id, write.version);
    point->mutable_vector()->mutable_values()->mutable_values()->Add(
        vector.begin(), vector.end());
    (*point->mutable_attributes())["version"].set_int_value(write.version);
  }
  return request;
}

v1::DeleteRequest Kill9History::DeleteOf(const Write& write) const {
  v1::DeleteRequest request;
  request.set_collection("c");
  *request.mutable_request_id() = RequestOf(write);
  request.mutable_ids()->Add(write.ids.begin(), write.ids.end());
  return request;
}

}  // namespace coterie
