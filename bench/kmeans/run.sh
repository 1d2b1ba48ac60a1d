#!/usr/bin/env bash
# k-means on one shard beside scikit-learn and faiss-cpu, one thread: same rows,
# same start, same number of iterations or same rule to stop, by turns in one
# process. Writes bench/out/kmeans.jsonl, kmeans.md (a table), kmeans.png and
# kmeans_curve.png (inertia against bytes). About 15 minutes.
#   QUICK=1             same cases, fewer runs
#   CASES=REGEX         only cases whose name matches: SET/k=K/KIND, where KIND
#                       is pass (assign: the first, and iteration: a later
#                       one), fit/lloyd, fit/elkan, fit/faiss, batch or curve
#   MOST_SECONDS=N      starts no case after so many seconds
#   MOST_FIT_SECONDS=N  leaves out fits of peers that would take longer (100)
#   TOLERANCE=X         when fits end, as scikit-learn's tol (1e-4)
#   RESUME=1            keeps what bench/out/kmeans.jsonl has of this build
#   CLOCK=cpu           CPU seconds of the process instead of the wall clock
set -euo pipefail
cd "$(dirname "$0")/../.."
. bench/harness/setup.sh
install_peers
tools/fetch_data glove fashion
bazel build --noshow_progress //bench/kmeans:libcoterie_kmeans.so
BENCH_COMMAND=$(bench_command kmeans) exec "$peers_python" bench/kmeans/kmeans.py
