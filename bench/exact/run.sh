#!/usr/bin/env bash
# Exact search beside faiss-cpu, usearch and numpy: same rows, same queries,
# same threads, by turns in one process, answers compared. Writes
# bench/out/exact.jsonl, exact.md (a table) and exact.png. About eight minutes.
#   QUICK=1         same cases, fewer runs (under 3 minutes on 2 idle cores)
#   CASES=REGEX     only cases whose name matches, e.g. 'glove.*batch=1/'
#   MOST_SECONDS=N  starts no case after so many seconds
#   RESUME=1        keeps what bench/out/exact.jsonl has of this build already
#   CLOCK=cpu       CPU seconds of the process instead of the wall clock: for
#                   one thread on a busy machine
set -euo pipefail
cd "$(dirname "$0")/../.."
. bench/harness/setup.sh
install_peers
tools/fetch_data glove fashion
bazel build --noshow_progress //bench/exact:libcoterie_exact.so
BENCH_COMMAND=$(bench_command exact) exec "$peers_python" bench/exact/exact.py
