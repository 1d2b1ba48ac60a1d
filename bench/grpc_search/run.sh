#!/usr/bin/env bash
# Exact searches through gRPC: one coteried with 4 shards, k = 10, clients in a
# closed loop with a connection each and 10,000 distinct held-out queries, all
# on this machine; just imported and after a restart. The first 1,000 replies
# are compared with faiss. Beside them stand figures of Milvus and Weaviate that
# were recorded earlier. Writes bench/out/grpc_search.jsonl. Two minutes.
#   QUICK=1              one run each
#   CLIENTS="1 4 16"     SHARDS=4     SET=fashion-70k
#   SERVER_FLAGS="..."   further flags of coteried
set -euo pipefail
cd "$(dirname "$0")/../.."
. bench/harness/setup.sh
install_peers
tools/fetch_data glove fashion
bazel build --noshow_progress //server:coteried //client:coterie \
  //bench/grpc_search:load
BENCH_COMMAND=$(bench_command grpc_search) exec "$peers_python" \
  bench/grpc_search/grpc_search.py
