#!/usr/bin/env bash
# Jobs over a process per shard and coordinators that come and go: kill -9 of a
# shard or of the coordinator in the middle shows nowhere in the clusters of
# k-means, which are those of one process, or in a model. A shard that stands
# still is named when the step's time is up.
. tests/process_lib.sh
coterie=client/coterie
kmeans=($coterie kmeans words -k 300 --seed 5 --runs 4 --tolerance 0 --json)
train=($coterie train adult --label label --workers 20 --updates 2000 --json)

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
# parameters NAME: those of that model, into a file.
parameters() {
  expect_code 0 "model $1" $coterie models adult "$1" --parameters --json
  cp "$work/out" "$work/result"
  expect "the model is JSON" /usr/bin/python3 - "$work/result" "$work/$1" <<'PY'
import json, sys
model = json.load(open(sys.argv[1]))
assert model["last"]["update"] == "2000", model["last"]
assert any(model["parameters"])
json.dump(model["parameters"], open(sys.argv[2], "w"), indent=1)
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
  launch "$1" --role=coordinator --listen=127.0.0.1:0 "${@:2}" \
    --shards="${addresses[s0]},${addresses[s1]},${addresses[s2]}"
  await_line "$1.out" 'serving on'
}
for n in 0 1 2; do shard "$n"; done
coordinator c0
coordinator c1
coordinator c2
coordinator c3 --job_step=4s
export COTERIE_SERVER=${addresses[c0]}
fill
expect "import a1a" $coterie import adult data/a1a.libsvm --create --metric l2 \
  --dim 123

# begin NAME PATTERN COMMAND...: the job in the background; returns when it is
# under way.
begin() {
  : >"$work/job.err"
  "${@:3}" --name "$1" >"$work/job.out" 2>"$work/job.err" &
  pids[job]=$!
  await_line job.err "$2"
}
begin_kmeans() { begin "$1" 'iteration 4 ' "${kmeans[@]}"; }
begin_train() { begin "$1" 'update [1-9][0-9,]+ ' "${train[@]}"; }
# ended CODE WHAT: how the job in the background has to end.
ended() {
  wait "${pids[job]}"
  expect_code 0 "$2" test $? -eq "$1"
  unset 'pids[job]'
  cp "$work/job.out" "$work/out"
}

expect_code 0 "three processes" "${kmeans[@]}"
clusters three
expect "the clusters of one process" cmp "$work/reference" "$work/three"
expect_code 0 "a model" "${train[@]}" --name whole
parameters whole

begin_kmeans killed
end s1 KILL 137
shard 1
ended 0 "a job outlives a shard"
clusters killed
expect "kill -9 of a shard shows nowhere" cmp "$work/reference" "$work/killed"

begin_train trained
end s1 KILL 137
shard 1
ended 0 "training outlives a shard"
parameters trained
expect "kill -9 of a shard shows in no model" cmp "$work/whole" "$work/trained"

begin_kmeans orphaned
end c0 KILL 137
ended 4 "the command fails"
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

begin_train left
end c1 KILL 137
ended 4 "the command fails"
export COTERIE_SERVER=${addresses[c2]}
expect_code 0 "another coordinator trains on" \
  $coterie jobs adult left --resume --json
parameters left
expect "kill -9 of a coordinator shows in no model" \
  cmp "$work/whole" "$work/left"

export COTERIE_SERVER=${addresses[c3]}
begin_train halted
kill -STOP "${pids[s1]}"
ended 4 "a shard stands still"
expect_text job.err 'update [0-9]+ of job .halted., step [0-9]+: shard 1' \
  "update, step and shard are named"
kill -CONT "${pids[s1]}"
export COTERIE_SERVER=${addresses[c2]}
expect_code 0 "it goes on" $coterie jobs adult halted --resume --json
parameters halted
expect "standing still shows in no model" cmp "$work/whole" "$work/halted"

for name in c2 c3 s0 s1 s2; do end "$name" TERM 0; done
report
