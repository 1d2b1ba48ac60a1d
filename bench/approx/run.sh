#!/usr/bin/env bash
# Tree and LSH beside nanoflann, scikit-learn and hnswlib: same rows and
# queries, one thread, one query after the other, by turns in one process.
# Recall is measured against our exact scan. Writes bench/out/approx.jsonl and
# approx.png, prints a table.
#   QUICK=1       same cases, fewer rows and runs
#   CASES=REGEX   only cases whose name matches, e.g. 'glove'
#   CLOCK=cpu     CPU seconds of the process instead of the wall clock
set -euo pipefail
cd "$(dirname "$0")/../.."
. bench/harness/setup.sh
install_peers
if ! "$peers_python" -c 'import hnswlib, sklearn' 2>/dev/null; then
  "$peers_python" -m pip install --quiet --disable-pip-version-check \
    -r bench/approx/requirements.txt
fi
tools/install_deps.sh --bench
tools/fetch_data glove
bazel build --noshow_progress //bench/approx:libcoterie_approx.so \
  //bench/approx:libnanoflann.so
export OMP_NUM_THREADS=1
BENCH_COMMAND=$(bench_command approx) exec "$peers_python" bench/approx/approx.py
