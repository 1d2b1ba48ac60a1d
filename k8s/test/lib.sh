# Sourced by run.sh: counts checks, and reaches the cluster.

passed=0
failed=0

# verdict HOLDS WHAT COMMAND...: HOLDS is an exit code; the output so far is in
# $work/out.
verdict() {
  if [ "$1" -eq 0 ]; then
    passed=$((passed + 1))
    echo "  ok      $2"
  else
    failed=$((failed + 1))
    echo "  FAILED  $2: ${*:3}"
    tail -n 15 "$work/out" | sed 's/^/          | /'
  fi
}
# check WHAT COMMAND...: it has to succeed.
check() {
  "${@:2}" >"$work/out" 2>&1
  verdict $? "$@"
}
# refused WHAT PATTERN COMMAND...: it has to fail, and say so.
refused() {
  "${@:3}" >"$work/out" 2>&1 && { verdict 1 "$1" "${@:3}"; return; }
  says "$1" "$2"
}
# says WHAT PATTERN: the last command did.
says() {
  grep -qE -- "$2" "$work/out"
  verdict $? "$1" "says '$2'"
}
# within WHAT LIMIT TOOK: in seconds.
within() {
  echo "took $3 s" >"$work/out"
  awk "BEGIN { exit !($3 <= $2 * $SLACK) }"
  verdict $? "$1: $3 s, at most $(($2 * SLACK)) s" "that is too long"
}
scenario() { printf '\n%s (%d s)\n' "$1" "$SECONDS"; }
# in_time SECONDS COMMAND...: polls until it succeeds.
in_time() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$until" ] || return 1
    sleep 0.2
  done
}

helm() {
  HELM_CACHE_HOME=$work/helm HELM_CONFIG_HOME=$work/helm HELM_DATA_HOME=$work/helm \
    in_network "$root/.deps/bin/helm" -n "$namespace" "$@"
}
k() { kc -n "$namespace" "$@"; }
coterie() { in_network "$root/bazel-bin/client/coterie" --server "$service" "$@"; }
python() {
  in_network env PYTHONDONTWRITEBYTECODE=1 COTERIE_STUBS="$work/stubs" \
    /usr/bin/python3 "$@"
}
ask() { python "$root/k8s/test/ask.py" "$service" "$@"; }

field() { k get "$1" -o "jsonpath=$2"; }
pod_ip() { field "pod/$1" '{.status.podIP}'; }
# Restarts of every container of the namespace, added up.
restarts() {
  k get pods -o 'jsonpath={range .items[*]}{.status.containerStatuses[*].restartCount}{"\n"}{end}' |
    awk '{ for (i = 1; i <= NF; ++i) n += $i } END { print n + 0 }'
}
rolled_out() { k rollout status "$1" --timeout="${2:-180s}"; }
# Whole again: every pod ready, and a search certified over all shards.
whole() { rolled_out sts/coterie-shard && rolled_out deploy/coterie &&
  ask await fail 60; }
exact() { ask exact "$root/data/words-10k.npy"; }
uid() { field "pod/$1" '{.metadata.uid}'; }
# replaced POD UID: another pod of the name is ready.
replaced() {
  [ "$(uid "$1" 2>/dev/null)" != "$2" ] &&
    [ "$(field "pod/$1" '{.status.conditions[?(@.type=="Ready")].status}')" = True ]
}

# load NAME SECONDS POLICY: ghz from the node at 50 searches a second, in the
# background; await_load NAME waits for it and sets `line` to what became of the
# calls (outcomes.py).
load() {
  local queries=$work/queries-${3%%:*}.json
  in_network "$root/.deps/bin/ghz" --insecure \
    --call coterie.v1.SearchService/Search \
    --data-file "$queries" --rps 50 --concurrency 8 --connections 4 \
    --duration "$2s" --duration-stop wait --timeout 10s --format json \
    --output "$work/$1.json" "$service" >"$work/$1.log" 2>&1 &
  loads[$1]=$!
}
await_load() {
  wait "${loads[$1]}"
  line=$("$root/k8s/test/outcomes.py" "$work/$1.json") || cat "$work/$1.log"
  echo "  $1: $line"
}
# outcome LINE KEY: the value after the key.
outcome() { sed -n "s/.*\b$2 \([^ ]*\).*/\1/p" <<<"$1"; }
