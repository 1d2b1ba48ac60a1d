#!/usr/bin/env bash
# Filtered search on GloVe-341k, one thread: beside the same search without a
# filter, and beside faiss-cpu's IndexFlat with a bitmap of the same rows; by
# turns in one process, answers compared. Writes bench/out/filtered.jsonl.
#   QUICK=1    same cases, fewer runs
#   CLOCK=cpu  CPU seconds of the process instead of the wall clock
set -euo pipefail
cd "$(dirname "$0")/../.."
. bench/harness/setup.sh
install_peers
tools/fetch_data glove
bazel build --noshow_progress //bench/filtered:libcoterie_filtered.so
BENCH_COMMAND=$(bench_command filtered) exec "$peers_python" bench/filtered/filtered.py
