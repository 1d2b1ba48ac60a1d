#!/usr/bin/env bash
# The server as a process: start, signals, durability across kill -9, refusals.
. tests/process_lib.sh
coterie=client/coterie

start_server
expect "create" $coterie create words --dim 100 --metric cosine
expect "import" $coterie import words data/words-10k.npy \
  --text data/words-10k.txt --as word
expect "search" $coterie search words --near king -k 5 --json
cp "$work/out" "$work/before"

# Acknowledged means durable: no chance to flush anything.
stop_server KILL
start_server
expect_code 0 "count after kill -9" $coterie count words
expect_text out '(^|[^0-9])10,?000([^0-9]|$)' "all points are there"
expect "search after kill -9" $coterie search words --near king -k 5 --json
cp "$work/out" "$work/after"
expect "the answer is the same, byte for byte" cmp "$work/before" "$work/after"

expect_code 1 "a second server on the same data" \
  server/coteried --listen=127.0.0.1:0 --data_dir="$work/data"
expect_text err 'in use' "says that the directory is in use"
wait_for_data() {
  : >"$work/$1.err"
  server/coteried --listen=127.0.0.1:0 --http= --data_dir="$work/data" \
    --data_dir_wait=1m >"$work/$1.out" 2>"$work/$1.err" &
  pids[$1]=$!
  await_line "$1.err" 'in use .* waiting'
}
wait_for_data w0
end w0 TERM 0
expect_code 1 "a second server on the same port" \
  server/coteried --listen="$address" --data_dir="$work/other"
expect_text err "cannot listen on $address" "names the address"
expect_code 2 "unknown argument" server/coteried bogus
expect_code 2 "flag out of range" server/coteried --queue_capacity=0
expect_text err 'queue_capacity=0' "names the flag"
expect_code 1 "a host that is not here" server/coteried \
  --listen=nowhere.invalid:0 --data_dir="$work/other"

# Text that is not UTF-8 fails its call, and nobody hears of it but its caller.
lines=$(wc -l <"$work/server.err")
expect_code 0 "a request with broken text" /usr/bin/python3 -c "
import grpc
call = grpc.insecure_channel('$address').unary_unary(
    '/coterie.v1.CollectionService/GetCollection')
try:
    call(b'\\x0a\\x02\\xff\\xff', timeout=20)
except grpc.RpcError as error:
    print(error.code())"
expect_text out 'StatusCode\.' "is refused"
expect "without a word on standard error" \
  [ "$(wc -l <"$work/server.err")" = "$lines" ]

stop_server TERM
checks=$((checks + 1))
[ "$server_code" -eq 0 ] || {
  failures=$((failures + 1)); echo "FAILED: SIGTERM gave $server_code"; }
expect "says that it stopped" grep -q stopped "$work/server.out"

expect_code 1 "another number of shards" server/coteried \
  --listen=127.0.0.1:0 --data_dir="$work/data" --local_shards=3
expect_text err 'made with 4 shards' "names both numbers"

# After SIGKILL the lock is free: only a living process holds it. One that waits
# for it goes on then.
start_server --local_shards=4
expect_code 0 "count" $coterie count words
wait_for_data w1
stop_server KILL
await_line w1.out 'serving on'
end w1 TERM 0

# Loading for as long as the test likes: a log that is a pipe is read until its
# writer ends. Nothing says SERVING before, and a Watch tells the change.
grpcurl() { ./.deps/bin/grpcurl -plaintext -emit-defaults -max-time 20 "$@"; }
health() { grpcurl -d "{\"service\": \"$1\"}" "${addresses[slow]}" \
  grpc.health.v1.Health/Check; }
slow() {
  [ -p "$work/data/shard-0000/slow.log" ] ||
    mkfifo "$work/data/shard-0000/slow.log"
  launch slow --listen=127.0.0.1:0 --data_dir="$work/data" "$@"
}
slow --drain_delay=20s
: >"$work/watch.out"
./.deps/bin/grpcurl -plaintext -d '{}' "${addresses[slow]}" \
  grpc.health.v1.Health/Watch >"$work/watch.out" 2>&1 &
pids[watch]=$!
await_line watch.out 'NOT_SERVING'
for _ in 1 2 3; do
  for name in "" coterie.v1.SearchService coterie.v1.PointService shard/0; do
    expect_code 0 "health of '$name' while loading" health "$name"
    expect_text out 'NOT_SERVING' "'$name' is loading"
  done
done
expect_code 69 "health of an unknown name while loading" health nope
expect_code 4 "a call while loading" \
  $coterie --server "${addresses[slow]}" count words
expect_text err 'loading: [0-3] of 4 shards' "says that it loads, and how far"
expect_code 0 "describe while loading" \
  grpcurl "${addresses[slow]}" coterie.v1.ClusterService/Describe
expect_text out 'LOADING' "says which shard loads"
: >"$work/data/shard-0000/slow.log"
await_line slow.out 'serving on'
await_line watch.out '"SERVING"'
expect_code 0 "health after loading" health ""
expect_text out '"SERVING"' "serves"
expect_code 0 "count after loading" \
  $coterie --server "${addresses[slow]}" count words
# Asked to end: not serving, while calls are still taken.
kill -TERM "${pids[slow]}"
await_line slow.out 'draining'
expect_code 0 "health while draining" health ""
expect_text out 'NOT_SERVING' "no longer serves"
expect_code 0 "a call while draining" \
  $coterie --server "${addresses[slow]}" count words
end slow TERM 1
await_line watch.out 'NOT_SERVING' 2
kill "${pids[watch]}" 2>/dev/null
wait "${pids[watch]}" 2>/dev/null
unset 'pids[watch]'
# Asked to end while it loads.
slow
end slow TERM 0
report
