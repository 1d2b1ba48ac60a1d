#!/usr/bin/env bash
# A shard whose disk was lost, replaced or swapped does not join as if it had
# always been empty: it is refused by name until its loss is accepted.
. tests/process_lib.sh
coterie=client/coterie
grpcurl() { ./.deps/bin/grpcurl -plaintext -emit-defaults -max-time 20 "$@"; }

shard() {
  launch "s$1" --role=shard --shard_id="$1" --shards_total=2 --cluster=test \
    --data_dir="$work/s$1" --listen="${addresses[s$1]:-127.0.0.1:0}"
}
coordinator() {
  launch "$1" --role=coordinator --listen=127.0.0.1:0 \
    --shards="${addresses[s0]},${addresses[s1]}" "${@:2}"
}
# counted: what the coordinator counts now.
counted() { $coterie count words --json | grep -o '[0-9]\+'; }
count() { [ "$(counted)" = "$1" ]; }
fewer() { [ "$(counted)" -gt 0 ] && [ "$(counted)" -lt "$1" ]; }

shard 0
shard 1
coordinator c0
await_line c0.out 'serving on'
export COTERIE_SERVER=${addresses[c0]}
expect "create" $coterie create words --dim 100 --metric cosine
expect "import" $coterie import words data/words-10k.npy \
  --text data/words-10k.txt --as word
expect "all there" count 10000

# The disk of shard 1 is lost; it starts again on an empty one.
end s1 KILL 137
mv "$work/s1" "$work/old"
shard 1
await_line c0.err 'not serving: .* is refused .*shard 1: runs on store'
expect_code 4 "a search beside an empty disk" \
  $coterie search words --near king -k 3
expect_text err 'shard 1: .*disk was lost or replaced' "names shard and cause"
vector=$(printf '1%.0s,' {1..99})1
expect_code 0 "partial search" grpcurl -d "{\"collection\": \"words\",
  \"queries\": [{\"vector\": {\"values\": {\"values\": [$vector]}}}], \"k\": 3,
  \"partialPolicy\": {\"allow\": {}}}" "${addresses[c0]}" \
  coterie.v1.SearchService/Search
expect_text out '"shards_?[oO]k": 1' "is not taken for an answer of the shard"
coordinator c1
await_line c1.err 'not serving: .*shard 1: runs on store .* 0 points'
expect_code 3 "a coordinator that starts now" \
  $coterie --server "${addresses[c1]}" count words
expect_text err '--accept_stores=1=[0-9a-f]{32}' "says how to go on"
end c1 TERM 0

# The old disk comes back: nothing happened.
end s1 TERM 0
mv "$work/s1" "$work/empty"
mv "$work/old" "$work/s1"
shard 1
await_line c0.err 'all shards answer' 2
expect "all there again" count 10000

# Disks swapped between shards.
end s0 TERM 0
end s1 TERM 0
for side in "0 1" "1 0"; do
  read -r own other <<<"$side"
  expect_code 1 "shard $own on the directory of shard $other" \
    server/coteried --role=shard --http= --shard_id="$own" --shards_total=2 \
    --data_dir="$work/s$other" --listen=127.0.0.1:0
  expect_text err "shard_id=$other" "names the shard that the data is of"
done
mv "$work/s0/shard-0000" "$work/s1/swapped"
mv "$work/s1/shard-0001" "$work/s0/shard-0000"
mv "$work/s1/swapped" "$work/s1/shard-0001"
for n in 0 1; do
  expect_code 1 "shard $n on the store of the other" server/coteried --http= \
    --role=shard --shard_id="$n" --shards_total=2 --data_dir="$work/s$n" \
    --listen=127.0.0.1:0
  expect_text err "belongs to shard $((1 - n)) of 2" "names whose it is"
done
mv "$work/s0/shard-0000" "$work/s1/swapped"
mv "$work/s1/shard-0001" "$work/s0/shard-0000"
mv "$work/s1/swapped" "$work/s1/shard-0001"

# A store that is gone from its directory is as lost as the whole.
mv "$work/s1/shard-0001" "$work/old"
shard 0
shard 1
await_line c0.err 'not serving: .* is refused .*shard 1: runs on store' 2
end s1 TERM 0

# Given up: what shard 0 holds is served on, by the old coordinator, too.
rm -rf "$work/s1"
mv "$work/empty" "$work/s1"
shard 1
coordinator c1
await_line c1.err 'not serving: .*--accept_stores=1='
accept=$(grep -o -m1 'accept_stores=1=[0-9a-f]*' "$work/c1.err")
end c1 TERM 0
coordinator c1 "--$accept"
await_line c1.out 'serving on'
export COTERIE_SERVER=${addresses[c1]}
expect "half is there" fewer 10000
await_line c0.err 'all shards answer' 3
export COTERIE_SERVER=${addresses[c0]}
expect "for every coordinator" fewer 10000
left=$(counted)

# Shard 0 is lost: the catalogue comes back from its copy.
end c0 TERM 0
end c1 TERM 0
end s0 KILL 137
rm -rf "$work/s0"
shard 0
coordinator c0
await_line c0.err 'not serving: .*shard 0: .*--accept_stores=0='
accept=$(grep -o -m1 'accept_stores=0=[0-9a-f]*' "$work/c0.err")
end c0 TERM 0
coordinator c0 "--$accept"
await_line c0.out 'serving on'
export COTERIE_SERVER=${addresses[c0]}
expect_code 0 "the collection is known" $coterie count words
expect "import again" $coterie import words data/words-10k.npy \
  --text data/words-10k.txt --as word
expect "all there in the end" count 10000
end c0 TERM 0
coordinator c0
await_line c0.out 'serving on'
for name in c0 s0 s1; do end "$name" TERM 0; done

# In one process as well.
start_server --local_shards=2
expect "create" $coterie create words --dim 100 --metric cosine
stop_server TERM
rm -rf "$work/data/shard-0001"
expect_code 1 "a shard's store is gone" server/coteried --http= \
  --listen=127.0.0.1:0 --data_dir="$work/data"
expect_text err '--accept_stores=1=[0-9a-f]{32}' "says how to go on"
start_server "--$(grep -o 'accept_stores=1=[0-9a-f]*' "$work/err")"
expect "goes on" $coterie count words
stop_server TERM
report
