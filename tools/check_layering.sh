#!/usr/bin/env bash
# The layers of docs/ARCHITECTURE.md, checked over the build graph: who may see
# gRPC, protobuf, FAISS and RocksDB, and who may not see whom.
set -euo pipefail
cd "$(dirname "$0")/.."

failures=0
# none WHAT QUERY: the query has to be empty.
none() {
  local found
  found=$(bazel query --noshow_progress --output=label "$2" 2>/dev/null) || {
    echo "layering: the query failed: $2" >&2
    bazel query --noshow_progress "$2" >&2 || true
    exit 2
  }
  if [ -n "$found" ]; then
    echo "layering: $1:" >&2
    printf '  %s\n' $found >&2
    failures=$((failures + 1))
  fi
}
wire='(@system//:grpc + @system//:protobuf)'
# Targets of a package other than its tests and test-only helpers.
code() { echo "(kind('cc_(library|binary)', $1) except attr(testonly, 1, $1))"; }
index=$(code //index/...)
api=$(code //api:all)
shard=$(code //shard/...)
coordinator=$(code //coordinator/...)

none "index reaches beyond Abseil" \
  "deps($index) intersect ($wire + @system//:rocksdb + //api/... + //shard/... + //coordinator/...)"
none "api:domain sees gRPC or protobuf" "deps(//api:domain) intersect $wire"
none "shard:shard sees gRPC or protobuf" "deps(//shard:shard) intersect $wire"
none "coordinator:core sees gRPC or protobuf" \
  "deps(//coordinator:core) intersect $wire"
none "coordinator reaches shard" "deps(//coordinator/...) intersect //shard/..."
none "shard reaches coordinator" "deps(//shard/...) intersect //coordinator/..."
none "api reaches upward" \
  "deps($api) intersect (//shard/... + //coordinator/... + //server/... + //client/...)"
none "client reaches the server's side" \
  "deps($(code //client/...)) intersect (//shard/... + //coordinator/... + //server/...)"
none "client/rows sees gRPC or protobuf" \
  "deps($(code //client/rows/...)) intersect $wire"
none "FAISS is used outside index:faiss_index and faiss_flat" \
  "rdeps(//..., @system//:faiss, 1) except (@system//:faiss + //index:faiss_index + //index:faiss_flat)"
none "RocksDB is used outside shard:record_store and its faulty disk" \
  "rdeps(//..., @system//:rocksdb, 1) except (@system//:rocksdb + //shard:record_store + //shard:faulty_disk)"
none "CRoaring is used outside shard:attribute_columns" \
  "rdeps(//..., @system//:roaring, 1) except (@system//:roaring + //shard:attribute_columns)"
none "gRPC or protobuf is used outside the edges" \
  "(rdeps(//..., $wire, 1) except $wire) intersect ($index + ($shard except //shard:service) + //coordinator:core)"

# index/ and training/ know no clock, thread or disk.
if grep -nE 'absl::Now|std::chrono|<(thread|mutex|fstream|filesystem|ctime)>|fopen\(' \
  index/*.h index/*.cc training/*.h training/*.cc 2>/dev/null |
  grep -vE '_(test|bench|fuzz|replay|testing)[^:]*:|^index/(fuzz_replay|test_)' >&2; then
  echo "layering: index/ or training/ uses a clock, thread or file" >&2
  failures=$((failures + 1))
fi

[ "$failures" -eq 0 ] || exit 1
echo "layering: ok"
