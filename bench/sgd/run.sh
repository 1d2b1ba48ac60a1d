#!/usr/bin/env bash
# Updates and bytes that block-sparsified SGD needs beside gradient descent, on
# the paper's problems; a gradient pass beside what memory gives; then through
# the service: bytes counted at the RPC layer, one slow shard of eight, and time
# beside scikit-learn. Writes bench/out/sgd.jsonl and, beside the paper's claim,
# sgd.png (updates over n tau), sgd_bytes.png, sgd_stragglers.png and
# sgd_loss.png; prints a table. Counts do not depend on the machine. Eight
# minutes.
#   QUICK=1   each time once, without Fashion-MNIST
set -euo pipefail
cd "$(dirname "$0")/../.."
. bench/harness/setup.sh
install_peers
[ -n "${QUICK:-}" ] || tools/fetch_data fashion
bazel build --noshow_progress //bench/sgd:all //server:coteried //client:coterie
BENCH_COMMAND=$(bench_command sgd) exec "$peers_python" bench/sgd/sgd.py
