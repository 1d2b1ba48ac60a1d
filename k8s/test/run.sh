#!/usr/bin/env bash
# The chart on a real cluster: installs it, loads words, and puts it through
# what a cluster does to pods, while callers go on. Prints "N passed, N failed".
# Needs root, and what `make k8s-test` builds first.
#   k8s/test/run.sh [SCENARIO...]   only these, after installing and loading
#   KILLS=50 SEED=1                 of pods during ingest
#   QUICK=1                         shorter loads, ten kills
#   SLACK=1                         times as long may take what has a limit: where
#                                   others use the machine, 3
#   KEEP=1                          leave the cluster up, for another run of this
#                                   or testcluster/down.sh
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/k8s/testcluster/env.sh"
. "$root/k8s/test/lib.sh"
. "$root/k8s/test/scenarios_install.sh"
. "$root/k8s/test/scenarios_faults.sh"
. "$root/k8s/test/scenarios_rollouts.sh"
. "$root/k8s/test/scenarios_jobs.sh"
. "$root/k8s/test/scenarios_volumes.sh"
namespace=coterie
service=
SEED=${SEED:-1} SLACK=${SLACK:-1}
if [ "${QUICK:-}" = 1 ]; then
  KILLS=${KILLS:-10} long=20 slow=40
else
  KILLS=${KILLS:-50} long=60 slow=120
fi
line=
declare -A loads
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/k8s-test.XXXXXX")

finish() {
  local left
  mapfile -t left < <(jobs -p)
  kill "${left[@]}" 2>/dev/null
  [ "${KEEP:-}" = 1 ] || "$root/k8s/testcluster/down.sh" --purge >/dev/null
  rm -rf "$work"
}

prepare() {
  local text
  mkdir -p "$work/stubs"
  (cd "$root" && protoc -I. -I.deps/googleapis -I/usr/share/grpc-proto \
    --python_out="$work/stubs" \
    --plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin \
    --grpc_python_out="$work/stubs" \
    api/v1/{types,collections,points,search}.proto google/rpc/status.proto \
    grpc/health/v1/health.proto) || return 1
  python3 "$root/bench/ghz/queries.py" "$root/data/words-10k.npy" 2000 10 \
    "$work/queries-fail.json" || return 1
  text='"k": 10, "partial_policy": {"require": {"min_ratio": 0.5}}'
  sed "s/\"k\": 10/$text/g" "$work/queries-fail.json" >"$work/queries-require.json"
}

scenarios=(health_names load_job lost_shard draining_health kmeans_job sgd_job
  evictions scale_guard restart_coordinators restart_shards bad_image flag_change
  out_of_memory kills node_restart backup lost_volume earlier_chart probes)
[ $# -gt 0 ] && scenarios=("$@")

prepare || { echo "run: cannot prepare" >&2; exit 1; }
trap finish EXIT
trap 'exit 143' TERM INT
cluster_is_up || "$root/k8s/testcluster/up.sh" || exit 1
import_image "$root/k8s/out/coterie.tar" || exit 1
if helm status coterie >/dev/null 2>&1; then
  service=$(field svc/coterie '{.spec.clusterIP}'):7600
else
  values_accepted
  install_chart
  words
fi
for name in "${scenarios[@]}"; do
  case $name in
    restart_coordinators) restart_coordinators 25 ;;
    restart_shards) restart_shards 60 ;;
    bad_image) bad_image 30 ;;
    probes) probes "$slow" "$long" ;;
    *) "$name" ;;
  esac
done
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
