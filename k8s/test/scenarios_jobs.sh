# Sourced by run.sh: jobs over the shards, while pods that do their work go.

kmeans_job() {
  scenario "k-means of 10,000 words"
  outlives_pods words 'iteration 4 ' \
    kmeans words -k 300 --seed 5 --runs 12 --tolerance 0
}
words_found() {
  kept "$work/$1.json" clusters inertia iterations run stop rows
}
words_into() {
  "$@" create words --dim 100 --metric cosine &&
    "$@" import words "$root/data/words-10k.npy" \
      --text "$root/data/words-10k.txt" --as word
}

sgd_job() {
  scenario "Logistic regression on 1,605 adults"
  check "they are there" adult_into coterie
  outlives_pods adult 'update ' \
    train adult --label label --workers 20 --updates 10000 --seed 5
}
adult_found() {
  "$2" --json models adult "$1" --parameters >"$work/$1.model" &&
    kept "$work/$1.model" parameters rows stop
}
adult_into() {
  "$@" import adult "$root/data/a1a.libsvm" --create --metric l2 --dim 123
}

# outlives_pods COLLECTION BEGUN COMMAND...: what the command finds is what it
# finds in one process of as many shards, bit for bit, whichever pod goes. A job
# is well under way when it has printed BEGUN.
outlives_pods() {
  local collection=$1 begun=$2 command=("${@:3}") reference reference_pid job was
  check "in one process" one_process
  alone --json "${command[@]}" --name alone >"$work/alone.json" 2>"$work/out"
  "${collection}_found" alone alone >"$work/alone.found"
  end_one_process
  coterie --json "${command[@]}" --name three >"$work/three.json" 2>"$work/out"
  as_alone "on three shards: the same" three

  was=$(uid coterie-shard-1)
  check "again" begin killed "$service"
  k delete pod coterie-shard-1 --grace-period=0 --force >/dev/null 2>&1
  check "in its midst a shard's pod goes" kill -0 "$job"
  wait "$job"
  check "the job outlives it" [ $? -eq 0 ]
  check "which was replaced" replaced coterie-shard-1 "$was"
  as_alone "the same" killed

  local pod
  pod=$(k get pods -o name -l app.kubernetes.io/component=coordinator | head -1)
  check "at one coordinator" begin orphaned "$(pod_ip "${pod#pod/}"):7600"
  k delete "$pod" --grace-period=0 --force >/dev/null 2>&1
  wait "$job"
  check "the command fails with its pod" [ $? -eq 4 ]
  check "whole again" whole
  coterie --json jobs "$collection" orphaned --resume >"$work/orphaned.json" \
    2>"$work/out"
  check "another coordinator goes on" [ $? -eq 0 ]
  as_alone "the same" orphaned
}

# begin NAME SERVER: the command in the background, well under way; its pid is in
# `job`.
begin() {
  in_network "$root/bazel-bin/client/coterie" --server "$2" --json \
    "${command[@]}" --name "$1" >"$work/$1.json" 2>"$work/$1.err" &
  job=$!
  in_time 60 grep -q "$begun" "$work/$1.err"
}

# one_process: a server beside the cluster, with the same points; sets `reference`
# to its address and `reference_pid`.
one_process() {
  "$root/bazel-bin/server/coteried" --listen=127.0.0.1:0 --http= \
    --local_shards=3 --data_dir="$work/reference" >"$work/reference.log" 2>&1 &
  reference_pid=$!
  in_time 60 grep -q 'serving on' "$work/reference.log" || return 1
  reference=$(sed -n 's/.*serving on \([^,]*\),.*/\1/p' "$work/reference.log")
  "${collection}_into" alone
}
alone() { "$root/bazel-bin/client/coterie" --server "$reference" "$@"; }
end_one_process() {
  kill "$reference_pid"
  wait "$reference_pid"
  rm -rf "$work/reference"
}

# kept FILE KEY...: of a result, what may not differ from run to run. Each
# COLLECTION_found NAME CLIENT prints that of the job of that name.
kept() {
  /usr/bin/python3 - "$@" <<'PY'
import json, sys
result = json.load(open(sys.argv[1]))
print(json.dumps({key: result[key] for key in sys.argv[2:]}, sort_keys=True))
PY
}
# as_alone WHAT NAME
as_alone() {
  "${collection}_found" "$2" coterie >"$work/$2.found"
  check "$1" same "$work/alone.found" "$work/$2.found"
}
same() { [ -s "$1" ] && cmp "$1" "$2"; }
