#!/usr/bin/env bash
# Tree, LSH and FAISS kinds beside nanoflann, scikit-learn, hnswlib, faiss-cpu,
# scann and annoy: same rows and queries, one thread, by turns in one process.
# Recall is measured against our exact scan. Writes bench/out/approx.jsonl,
# approx-curves.jsonl and PNGs, prints a table. Graphs take minutes to build, so
# indexes of peers are kept in bench/out/peers.
#   QUICK=1       same cases, fewer rows and runs
#   RESUME=1      cases that an earlier run has measured stay
#   CASES=REGEX   only cases whose name matches, e.g. 'glove'
#   PEERS=REGEX   of hnswlib, faiss-hnsw, faiss-ivf, scann, annoy
#   FACTORIES=... of our FAISS indexes, with semicolons between
#   CLOCK=cpu     CPU seconds of the process instead of the wall clock
set -euo pipefail
cd "$(dirname "$0")/../.."
. bench/harness/setup.sh
install_peers
if ! "$peers_python" -c 'import annoy, hnswlib, scann, sklearn' 2>/dev/null
then
  "$peers_python" -m pip install --quiet --disable-pip-version-check \
    -r bench/approx/requirements.txt
fi
tools/install_deps.sh --bench
tools/fetch_data glove
tools/fetch_data fashion
bazel build --noshow_progress //bench/approx:libcoterie_approx.so \
  //bench/approx:libnanoflann.so
export OMP_NUM_THREADS=1
BENCH_COMMAND=$(bench_command approx) exec "$peers_python" bench/approx/approx.py
