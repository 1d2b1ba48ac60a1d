#!/usr/bin/env bash
# Updates and bytes that block-sparsified SGD needs beside gradient descent, on
# the paper's problems, and a gradient pass beside what memory gives. Writes
# bench/out/sgd.jsonl and sgd.png, prints a table. Counts do not depend on the
# machine; QUICK=1 changes nothing (under 3 minutes on 2 idle cores).
set -euo pipefail
cd "$(dirname "$0")/../.."
. bench/harness/setup.sh
install_peers
bazel build --noshow_progress //bench/sgd:sgd_bench //bench/sgd:gradient_bench
BENCH_COMMAND=$(bench_command sgd) exec "$peers_python" bench/sgd/sgd.py
