# Sourced by run.sh: jobs over the shards, while pods that do their work go.

KMEANS=(kmeans words -k 300 --seed 5 --runs 12 --tolerance 0 --json)

# one_process: a server of one shard beside the cluster, with the same words; sets
# `reference` to its address and `reference_pid`.
one_process() {
  "$root/bazel-bin/server/coteried" --listen=127.0.0.1:0 --http= \
    --local_shards=1 --data_dir="$work/reference" >"$work/reference.log" 2>&1 &
  reference_pid=$!
  in_time 60 grep -q 'serving on' "$work/reference.log" || return 1
  reference=$(sed -n 's/.*serving on \([^,]*\),.*/\1/p' "$work/reference.log")
  alone create words --dim 100 --metric cosine &&
    alone import words "$root/data/words-10k.npy" \
      --text "$root/data/words-10k.txt" --as word
}
alone() { "$root/bazel-bin/client/coterie" --server "$reference" "$@"; }
end_one_process() {
  kill "$reference_pid"
  wait "$reference_pid"
  rm -rf "$work/reference"
}

# found FILE: of a result, what may not differ from run to run.
found() {
  /usr/bin/python3 - "$1" <<'PY'
import json, sys
result = json.load(open(sys.argv[1]))
kept = ("clusters", "inertia", "iterations", "run", "stop", "rows")
print(json.dumps({key: result[key] for key in kept}, sort_keys=True))
PY
}
# as_alone WHAT NAME: the result in NAME.json is that of the one process, bit for
# bit.
as_alone() {
  check "$1" cmp <(found "$work/alone.json") <(found "$work/$2.json")
}
# begin NAME SERVER: a job in the background, well under way; its pid is in `job`.
begin() {
  in_network "$root/bazel-bin/client/coterie" --server "$2" "${KMEANS[@]}" \
    --name "$1" >"$work/$1.json" 2>"$work/$1.err" &
  job=$!
  in_time 60 grep -q 'iteration 4 ' "$work/$1.err"
}

kmeans_job() {
  scenario "k-means of 10,000 words"
  local reference reference_pid job was pod
  check "in one process" one_process
  alone "${KMEANS[@]}" >"$work/alone.json" 2>"$work/out"
  end_one_process
  coterie "${KMEANS[@]}" >"$work/three.json" 2>"$work/out"
  as_alone "on three shards: the same clusters" three

  was=$(uid coterie-shard-1)
  check "again" begin killed "$service"
  k delete pod coterie-shard-1 --grace-period=0 --force >/dev/null 2>&1
  check "in its midst a shard's pod goes" kill -0 "$job"
  wait "$job"
  check "the job outlives it" [ $? -eq 0 ]
  check "which was replaced" replaced coterie-shard-1 "$was"
  as_alone "the same clusters" killed

  pod=$(k get pods -o name -l app.kubernetes.io/component=coordinator | head -1)
  check "at one coordinator" begin orphaned "$(pod_ip "${pod#pod/}"):7600"
  k delete "$pod" --grace-period=0 --force >/dev/null 2>&1
  wait "$job"
  check "the command fails with its pod" [ $? -eq 4 ]
  check "whole again" whole
  coterie jobs words orphaned --resume --json >"$work/orphaned.json" \
    2>"$work/out"
  check "another coordinator goes on" [ $? -eq 0 ]
  as_alone "the same clusters" orphaned
}
