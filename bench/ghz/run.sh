#!/usr/bin/env bash
# Loads a local server with ghz: closed loop, 10,000 distinct queries through
# reflection, one run for each concurrency. Prints a table; the JSON reports go
# to bench/out/.
#   CONCURRENCY="1 4 16 64 256"   SECONDS_EACH=5   K=10
#   VECTORS=FILE.npy METRIC=l2    other rows, e.g. data/large/glove-341k.npy
#   FIRST_ID=0                    queries by id, from this one on
#   RESTART=1                     restart after the import
#   COTERIE_SERVER=host:port      use a running server with collection "words"
set -euo pipefail
cd "$(dirname "$0")/../.."

concurrency=${CONCURRENCY:-1 4 16 64 256}
seconds=${SECONDS_EACH:-5}
k=${K:-10}
vectors=${VECTORS:-data/words-10k.npy}
metric=${METRIC:-cosine}
mkdir -p bench/out
work=$(mktemp -d)
pid=
finish() {
  [ -n "$pid" ] && kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
  rm -rf "$work"
}
trap finish EXIT

serve() {
  bazel-bin/server/coteried --listen=127.0.0.1:0 --http=127.0.0.1:0 \
    --data_dir="$work/data" >"$work/log" 2>&1 &
  pid=$!
  timeout 60 grep -m1 -q 'serving on' \
    <(tail -n +1 -f --pid="$pid" "$work/log") || { cat "$work/log"; exit 1; }
  COTERIE_SERVER=$(sed -n 's/.*serving on \([^,]*\),.*/\1/p' "$work/log")
  export COTERIE_SERVER
}

if [ -z "${COTERIE_SERVER:-}" ]; then
  serve
  dim=$(python3 bench/ghz/queries.py "$vectors")
  bazel-bin/client/coterie create words --dim "$dim" --metric "$metric" >/dev/null
  bazel-bin/client/coterie import words "$vectors" >/dev/null 2>&1
  if [ "${RESTART:-}" = 1 ]; then
    kill "$pid" && wait "$pid" || true
    serve
  fi
fi
python3 bench/ghz/queries.py "$vectors" 10000 "$k" "$work/queries.json" \
  ${FIRST_ID:+"$FIRST_ID"}

printf '%11s %10s %9s %9s %9s  %s\n' concurrency 'queries/s' 'p50 ms' 'p95 ms' 'p99 ms' outcomes
for c in $concurrency; do
  report=bench/out/ghz-c$c.json
  .deps/bin/ghz --insecure --call coterie.v1.SearchService/Search \
    --data-file "$work/queries.json" --concurrency "$c" --connections "$((c < 8 ? c : 8))" \
    --duration "${seconds}s" --duration-stop wait --timeout 20s \
    --format json --output "$report" "$COTERIE_SERVER"
  python3 - "$report" "$c" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
ms = {d["percentage"]: d["latency"] / 1e6 for d in r["latencyDistribution"] or []}
print("%11s %10.0f %9.2f %9.2f %9.2f  %s" % (
    sys.argv[2], r["rps"], ms.get(50, 0), ms.get(95, 0), ms.get(99, 0),
    r["statusCodeDistribution"]))
PY
done
