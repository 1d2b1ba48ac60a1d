#!/usr/bin/env bash
# k-means over a process per shard and two coordinators: kill -9 of a shard or
# of the coordinator in the middle, and the same clusters as in one process.
. tests/process_lib.sh
coterie=client/coterie
kmeans=($coterie kmeans words -k 300 --seed 5 --runs 4 --tolerance 0 --json)

# clusters NAME: what the last command found, without what differs from run to
# run.
clusters() {
  cp "$work/out" "$work/result"  # expect writes to out
  expect "the result is JSON" /usr/bin/python3 - "$work/result" "$work/$1" <<'PY'
import json, sys
result = json.load(open(sys.argv[1]))
kept = {key: result[key] for key in ("clusters", "inertia", "iterations", "run",
                                     "stop", "rows")}
json.dump(kept, open(sys.argv[2], "w"), indent=1, sort_keys=True)
PY
}
fill() {
  expect "create" $coterie create words --dim 100 --metric cosine
  expect "import" $coterie import words data/words-10k.npy \
    --text data/words-10k.txt --as word
}

# The reference: one shard, in one process.
start_server --local_shards=1
fill
expect_code 0 "the reference" "${kmeans[@]}"
clusters reference
stop_server TERM

shard() {
  launch "s$1" --role=shard --shard_id="$1" --shards_total=3 --cluster=test \
    --data_dir="$work/s$1" --listen="${addresses[s$1]:-127.0.0.1:0}"
}
coordinator() {
  launch "$1" --role=coordinator --listen=127.0.0.1:0 \
    --shards="${addresses[s0]},${addresses[s1]},${addresses[s2]}"
  await_line "$1.out" 'serving on'
}
for n in 0 1 2; do shard "$n"; done
coordinator c0
coordinator c1
export COTERIE_SERVER=${addresses[c0]}
fill

# begin NAME: the job in the background; returns when it is under way.
begin() {
  : >"$work/job.err"
  "${kmeans[@]}" --name "$1" >"$work/job.out" 2>"$work/job.err" &
  pids[job]=$!
  await_line job.err 'iteration 4 '
}

expect_code 0 "three processes" "${kmeans[@]}"
clusters three
expect "the clusters of one process" cmp "$work/reference" "$work/three"

begin killed
end s1 KILL 137
shard 1
wait "${pids[job]}"
expect_code 0 "a job outlives a shard" test $? -eq 0
unset 'pids[job]'
cp "$work/job.out" "$work/out"
clusters killed
expect "kill -9 of a shard shows nowhere" cmp "$work/reference" "$work/killed"

begin orphaned
end c0 KILL 137
wait "${pids[job]}"
expect_code 0 "the command fails" test $? -eq 4
unset 'pids[job]'
export COTERIE_SERVER=${addresses[c1]}
expect_code 0 "jobs" $coterie jobs words
expect_text out 'orphaned +(RUNNING|INTERRUPTED)' "knows the job"
expect_code 0 "another coordinator goes on" \
  $coterie jobs words orphaned --resume --json
clusters orphaned
expect "kill -9 of a coordinator shows nowhere" \
  cmp "$work/reference" "$work/orphaned"
expect_code 0 "jobs" $coterie jobs words
expect_text out 'orphaned +DONE' "it is done"

for name in c1 s0 s1 s2; do end "$name" TERM 0; done
report
