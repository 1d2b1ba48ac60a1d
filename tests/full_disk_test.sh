#!/usr/bin/env bash
# A real disk that fills up during imports, a small tmpfs: writes are refused
# naming the cause, reads go on, and after room was made and the server was
# started again every acknowledged row is there and imports go on.
#
# Where this user may not mount, the same is tested one layer down, by a file
# system under the store that runs out of room.
if [ "${1:-}" != mounted ]; then
  if unshare -rm true 2>/dev/null &&
    unshare -rm mount -t tmpfs none /mnt 2>/dev/null; then
    exec unshare -rm bash "$0" mounted
  fi
  echo "no mounting here: the store's own tests of a full disk instead"
  exec shard/shard_power_test --gtest_filter='FullDisk.*'
fi
. tests/process_lib.sh
coterie=client/coterie

mkdir "$work/data"
mount -t tmpfs -o size=96m none "$work/data" || exit 1
head -c 60M /dev/zero >"$work/data/filler"
start_server --local_shards=1 --drain=1s
full=
last=0
for n in 1 2 3 4 5 6 7 8 9; do
  $coterie create "w$n" --dim 100 --metric cosine >"$work/out" 2>"$work/err" &&
    $coterie import "w$n" data/words-10k.npy >"$work/out" 2>"$work/err" || {
    full=$n
    break
  }
  last=$n
done
expect "a few imports had room" [ "$last" -ge 1 ]
expect "then the disk was full" [ -n "$full" ]
expect_text err 'o space left' "the import names the cause"
for n in $(seq 1 "$last"); do
  expect_code 0 "reads go on ($n)" $coterie count "w$n"
  expect_text out '^10,?000' "all of w$n is there"
done
expect_code 0 "searches go on" $coterie search w1 --id 17 -k 3
before=$($coterie count "w$full" 2>/dev/null | tr -dc 0-9)
stop_server TERM
expect "it ends in order" [ "$server_code" -eq 0 ]

rm "$work/data/filler"
start_server --local_shards=1
for n in $(seq 1 "$last"); do
  expect_code 0 "count after the restart ($n)" $coterie count "w$n"
  expect_text out '^10,?000' "all of w$n is there"
done
after=$($coterie count "w$full" 2>/dev/null | tr -dc 0-9)
expect "what was visible of the last import is there" \
  [ "${after:-0}" -ge "${before:-0}" ]
$coterie create "w$full" --dim 100 --metric cosine >"$work/out" 2>&1 || true
expect "imports go on" $coterie import "w$full" data/words-10k.npy
expect_code 0 "count in the end" $coterie count "w$full"
expect_text out '^10,?000' "all of it"
stop_server TERM
umount "$work/data"
report
