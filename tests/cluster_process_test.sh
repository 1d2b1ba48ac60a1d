#!/usr/bin/env bash
# One process per shard and two coordinators: the same answers as one process,
# any order of starting, and the truth while shards die, stop or are strangers.
. tests/process_lib.sh
coterie=client/coterie
grpcurl() { ./.deps/bin/grpcurl -plaintext -emit-defaults -max-time 20 "$@"; }
health() { grpcurl -d "{\"service\": \"$2\"}" "${addresses[$1]}" \
  grpc.health.v1.Health/Check; }

# ask FILE: what people ask, answered in JSON.
ask() {
  local word
  for word in king paris guitar; do
    expect_code 0 "search $word" $coterie search words --near "$word" -k 7 --json
    cat "$work/out" >>"$work/$1"
  done
  expect_code 0 "count" $coterie count words --json
  cat "$work/out" >>"$work/$1"
}
fill() {
  expect "create" $coterie create words --dim 100 --metric cosine
  expect "import" $coterie import words data/words-10k.npy \
    --text data/words-10k.txt --as word
}
# same NAME WHAT: this coordinator answers as one process would.
same() {
  export COTERIE_SERVER=${addresses[$1]}
  rm -f "$work/answers"
  ask answers
  expect "$2: same answers, byte for byte" cmp "$work/reference" "$work/answers"
}

# The reference: everything in one process.
start_server --local_shards=3
fill
ask reference
stop_server TERM

# shard N [FLAG...]: starts shard N, again at its address if it had one.
shard() {
  local n=$1
  shift
  launch "s$n" --role=shard --shard_id="$n" --shards_total=3 --cluster=test \
    --data_dir="$work/s$n" --listen="${addresses[s$n]:-127.0.0.1:0}" "$@"
}
coordinator() {
  launch "$1" --role=coordinator --shards="$2" --listen=127.0.0.1:0 "${@:3}"
}

# Coordinators first: no order of starting matters, nor of addresses.
for n in 0 1 2; do shard "$n"; done
end s1 TERM 0
end s2 TERM 0
coordinator c0 "${addresses[s2]},${addresses[s0]},${addresses[s1]}" \
  --http=127.0.0.1:0 --drain=1s
await_line c0.err "not serving: .*${addresses[s1]} does not answer"
expect_code 0 "health while shards are missing" health c0 ""
expect_text out 'NOT_SERVING' "not serving"
expect_code 4 "the same by the command line" \
  $coterie --server "${addresses[c0]}" health
expect_code 0 "alive while shards are missing" \
  $coterie --server "${addresses[c0]}" health alive
expect_code 4 "a call while shards are missing" \
  $coterie --server "${addresses[c0]}" count words
expect_text err "${addresses[s1]}" "says which address does not answer"
expect_code 0 "describe while shards are missing" \
  grpcurl "${addresses[c0]}" coterie.v1.ClusterService/Describe
expect_text out 'UNREACHABLE' "shows what does not answer"
shard 1
shard 2
await_line c0.out 'serving on'
launch c1 --role=coordinator --http=127.0.0.1:0 --listen=127.0.0.1:0 \
  --shards="${addresses[s0]},${addresses[s1]},${addresses[s2]}" --cluster=test
await_line c1.out 'serving on'
expect_code 0 "health of a shard, by name" health c1 "shard/2"
expect_text out '"SERVING"' "serving"
expect_code 69 "health of a name that does not exist" health c1 "shard/3"

# Written through one coordinator, read through the other.
export COTERIE_SERVER=${addresses[c0]}
fill
same c1 "three processes"

# A shard answers for its own rows, and takes no writes.
expect_code 0 "search one shard" $coterie --server "${addresses[s1]}" \
  search words --vector "$(printf '1%.0s,' {1..99})1" -k 3 --profile --json
expect_text out '"exact": ?true' "certified over its own slots"
expect_text out '"shard_?[iI]d": ?1' "under its own name"
expect_code 3 "a shard refuses writes" \
  $coterie --server "${addresses[s1]}" drop words --yes
expect_text err 'coordinator' "says where to send them"

# HTTP.
http=$(sed -n 's/.*http on //p' "$work/c1.out")
expect_code 0 "metrics" curl -sS --max-time 10 "http://$http/metrics"
expect_text out '^coterie_shard_up\{shard="2"\} 1' "a row per shard"
expect_text out 'coterie_rpc_handling_seconds_count\{.*SearchService/Search' \
  "counts RPCs"
expect_code 0 "healthz" curl -sSf --max-time 10 "http://$http/healthz"

# A shard killed: the search fails in time, naming it; partial ones say so.
export COTERIE_SERVER=${addresses[c0]}
missing="not serving: .*${addresses[s1]} does not answer"
# While the shards started they may have said so any number of times.
missed0=$(grep -E -c "$missing" "$work/c0.err")
missed1=$(grep -E -c "$missing" "$work/c1.err")
kill -9 "${pids[s1]}"
wait "${pids[s1]}" 2>/dev/null
unset 'pids[s1]'
started=$SECONDS
expect_code 4 "search without shard 1" \
  $coterie --timeout 5s search words --id 17 -k 3
took=$((SECONDS - started))
expect_text err 'shard 1' "names the shard"
expect "within its deadline" [ "$took" -le 6 ]
vector=$(printf '1%.0s,' {1..99})1
expect_code 0 "partial search" grpcurl -d "{\"collection\": \"words\",
  \"queries\": [{\"vector\": {\"values\": {\"values\": [$vector]}}}], \"k\": 3,
  \"partialPolicy\": {\"allow\": {}}}" "${addresses[c0]}" \
  coterie.v1.SearchService/Search
expect_text out '"shards_?[oO]k": 2' "says how many shards answered"
expect_text out '"shards_?[tT]otal": 3' "of how many"
expect_text out '"exact": false' "is not certified"
await_line c0.err "$missing" $((missed0 + 1))
expect_code 0 "health without shard 1" health c0 ""
expect_text out 'NOT_SERVING' "not serving"
await_line c1.err "$missing" $((missed1 + 1))
expect_code 22 "healthz without shard 1" \
  curl -sSf --max-time 10 "http://$http/healthz"
recovered=$(grep -c 'all shards answer' "$work/c0.err")
shard 1
await_line c0.err 'all shards answer' $((recovered + 1))
same c0 "after kill -9 of a shard"

# A shard that stands still: no call outlives its deadline by 2 s.
kill -STOP "${pids[s2]}"
started=$SECONDS
expect_code 4 "search beside a stopped shard" \
  $coterie --timeout 3s search words --near king -k 3
took=$((SECONDS - started))
expect "within its deadline" [ "$took" -le 5 ]
await_line c0.err 'not serving: .*DEADLINE_EXCEEDED'
recovered=$(grep -c 'all shards answer' "$work/c0.err")
kill -CONT "${pids[s2]}"
await_line c0.err 'all shards answer' $((recovered + 1))
same c0 "after a shard stood still"

# Strangers at shard 2's address: refused by name, and forgotten when gone.
end s2 TERM 0
launch x1 --role=shard --shard_id=1 --shards_total=3 --cluster=test \
  --data_dir="$work/x1" --listen="${addresses[s2]}"
await_line c0.err 'both .* and .* claim to be shard 1'
expect_code 3 "a call on an overlap" $coterie count words
expect_text err "${addresses[s2]}" "names the address"
end x1 TERM 0
launch x2 --role=shard --shard_id=2 --shards_total=3 --cluster=other \
  --data_dir="$work/x2" --listen="${addresses[s2]}"
await_line c0.err 'not serving: shard 2 at .* belongs to cluster'
end x2 TERM 0
launch x3 --role=shard --shard_id=2 --shards_total=4 --cluster=test \
  --data_dir="$work/x3" --listen="${addresses[s2]}"
await_line c0.err 'not serving: .* is of a cluster of 4 shards'
end x3 TERM 0
expect_code 1 "another shard's data" server/coteried --role=shard --http= \
  --shard_id=1 --shards_total=3 --data_dir="$work/s2" --listen=127.0.0.1:0
expect_text err 'shard_id=2' "names the shard that the data is of"
expect_code 1 "another cluster's data" server/coteried --role=shard --http= \
  --shard_id=2 --shards_total=3 --cluster=other --data_dir="$work/s2" \
  --listen=127.0.0.1:0
expect_text err 'for cluster' "names the cluster"
expect_code 1 "a new shard that knows no cluster" server/coteried --http= \
  --role=shard --shard_id=2 --shards_total=3 --data_dir="$work/s9" \
  --listen=127.0.0.1:0
expect_text err '--cluster' "says what to give"
recovered=$(grep -c 'all shards answer' "$work/c0.err")
shard 2
await_line c0.err 'all shards answer' $((recovered + 1))
same c0 "after strangers"

# Stopping is bounded, whatever callers do: a scan whose reader stands still,
# and a health watch without end.
mkfifo "$work/unread"
exec 9<>"$work/unread"
# open_call NAME: a scan under way there that will not end by itself.
open_call() {
  local http
  http=$(sed -n 's/.*http on //p' "$work/$1.out")
  ./.deps/bin/grpcurl -plaintext \
    -d '{"collection": "words", "withVectors": true}' "${addresses[$1]}" \
    coterie.v1.PointService/Scan >&9 2>/dev/null &
  pids[call-$1]=$!
  expect "a call is under way on $1" timeout 60 bash -c \
    "until curl -s --max-time 10 http://$http/metrics |
       grep -q '^coterie_inflight_request_bytes [1-9]'; do :; done"
}
open_call c0
: >"$work/watch.out"
./.deps/bin/grpcurl -plaintext -d '{}' "${addresses[c0]}" \
  grpc.health.v1.Health/Watch >"$work/watch.out" 2>&1 &
pids[watch]=$!
await_line watch.out 'SERVING'
started=$SECONDS
end c0 TERM 0
took=$((SECONDS - started))
expect "drain 1 s, and 1 s more" [ "$took" -le 3 ]
expect_text watch.out 'NOT_SERVING' "the watcher was told before it ended"
open_call c1
kill -TERM "${pids[c1]}"
await_line c1.out 'draining'
end c1 TERM 1
for name in s0 s1 s2; do end "$name" TERM 0; done

# A Unix socket belongs to the server that lives. Its path has to be short.
socket=/tmp/coterie-test-$$.sock
launch u0 --listen="unix:$socket" --data_dir="$work/u0" --local_shards=1
await_line u0.out 'serving on unix:'
expect_code 1 "a second server on the socket" server/coteried --http= \
  --listen="unix:$socket" --data_dir="$work/u1" --local_shards=1
expect_text err 'another server that lives' "says why"
expect_code 0 "the first still answers" $coterie --server "unix:$socket" \
  describe
end u0 KILL 137
launch u0 --listen="unix:$socket" --data_dir="$work/u0"
await_line u0.out 'serving on unix:'
end u0 TERM 0
rm -f "$socket" "$socket.lock"
report
