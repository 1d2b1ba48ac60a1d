#!/usr/bin/env bash
# The demo: a server with four shards, ten thousand real word vectors, exact
# neighbours with their evidence, clusters, a model, a restart. Leaves nothing
# behind.
# Expects bazel-bin/ to be built (make demo does that).
set -euo pipefail
cd "$(dirname "$0")/.."

coterie() { bazel-bin/client/coterie "$@"; }
bold() { if [ -t 1 ]; then printf '\033[1m%s\033[0m\n' "$1"; else echo "$1"; fi; }
say() { echo; bold "── $1"; }
show() { echo "\$ coterie $*"; coterie "$@"; }

work=$(mktemp -d)
pid=
finish() {
  if [ -n "$pid" ]; then kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap finish EXIT

serve() {
  : >"$work/log"  # or the line below may be that of the last server
  bazel-bin/server/coteried --listen=127.0.0.1:0 --data_dir="$work/data" \
    >"$work/log" 2>&1 &
  pid=$!
  timeout 60 grep -m1 -q 'serving on' \
    <(tail -n +1 -f --pid="$pid" "$work/log") || { cat "$work/log"; exit 1; }
  COTERIE_SERVER=$(sed -n 's/.*serving on \([^,]*\),.*/\1/p' "$work/log")
  export COTERIE_SERVER
  cat "$work/log"
}

say "A coordinator and four shards in one process"
serve

say "Ten thousand GloVe word vectors, 100 dimensions"
show create words --dim 100 --metric cosine
show import words data/words-10k.npy --text data/words-10k.txt --as word

say "Exact nearest neighbours: every row was compared or provably ruled out"
for word in king paris guitar; do
  show search words --near "$word" -k 6
done

say "The evidence: each shard accounts for all of its rows"
show search words --near king -k 3 --profile

say "Fifty clusters, found on the shards: only sums and centroids travel"
show kmeans words -k 50 --show word --clusters 8 --seed 1 --label cluster
show assign words kmeans-50 --id 17 --top 3

say "Logistic regression on the shards: of 20 workers each sends a twentieth"
show import adult data/a1a.libsvm --create --metric l2 --dim 123
show train adult --label label --workers 20 --updates 2000 --held-out 0.2
show predict adult logistic-isega --id 17 --id 18

say "Stop and start again: what was acknowledged is there"
kill "$pid"; wait "$pid" || true
serve
show count words
show search words --near king -k 3

say "Clean up"
show drop words --yes
show drop adult --yes
kill "$pid"; wait "$pid" || true
pid=
echo
echo "Done. Next: README.md, \"The first ten minutes\"."
