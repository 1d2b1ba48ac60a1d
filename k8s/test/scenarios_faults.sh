# Sourced by run.sh: pods that go, and what callers see of it.

# evict POD: as a drain of its node would.
evict() {
  k create --raw "/api/v1/namespaces/$namespace/pods/$1/eviction" -f - <<JSON
{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "$1"}}
JSON
}
unavailable() { ask policy fail | grep -q '^UNAVAILABLE'; }

lost_shard() {
  scenario "A shard's pod is deleted"
  local was ip began took claim
  was=$(uid coterie-shard-1)
  ip=$(pod_ip coterie-shard-1)
  claim=$(field pvc/data-coterie-shard-1 '{.spec.volumeName}')
  began=$(date +%s.%N)
  k delete pod coterie-shard-1 --wait=false >/dev/null
  check "FAIL: searches fail" in_time 10 unavailable
  ask policy fail >"$work/out"
  # It may be back by now.
  says "naming the shard" 'shard 1|^OK shards 3/3'
  ask policy allow >"$work/out"
  says "ALLOW: they go on, and say how much they speak for" \
    '^OK shards (2/3 exact=False|3/3 exact=True)'
  ask policy require:0.5 >"$work/out"
  says "REQUIRE half: they go on" '^OK shards [23]/3'
  ask policy require:0.9 >"$work/out"
  says "REQUIRE nine tenths: they fail" '^UNAVAILABLE|^OK shards 3/3'
  check "full coverage again" ask await fail 60
  took=$(awk "BEGIN { printf \"%.1f\", $(date +%s.%N) - $began }")
  check "within 15 s ($took s)" awk "BEGIN { exit $took > 15 }"
  check "in another pod" replaced coterie-shard-1 "$was"
  check "at another address" [ "$(pod_ip coterie-shard-1)" != "$ip" ]
  check "with its volume" [ "$(field pvc/data-coterie-shard-1 \
    '{.spec.volumeName}')" = "$claim" ]
  check "the same answers" exact
  check "coordinators stayed" [ "$(restarts)" -eq 0 ]
}

draining_health() {
  scenario "Draining"
  local pod ip
  pod=$(k get pods -o name -l app.kubernetes.io/component=coordinator | head -1)
  ip=$(pod_ip "${pod#pod/}")
  k delete "$pod" --wait=false >/dev/null
  not_serving() {
    local said
    said=$(in_network "$root/bazel-bin/client/coterie" --server "$ip:7600" \
      --timeout 2s health 2>/dev/null)
    [ "$said" = NOT_SERVING ]
  }
  check "a pod that stops says so before it stops listening" in_time 5 not_serving
  check "and is alive meanwhile" in_network "$root/bazel-bin/client/coterie" \
    --server "$ip:7600" --timeout 2s health alive
  check "whole again" whole
}

evictions() {
  scenario "Evictions"
  local was
  was=$(uid coterie-shard-0)
  check "one shard may be evicted" evict coterie-shard-0
  refused "not another before it is back" 'disruption budget' \
    evict coterie-shard-1
  check "it comes back" in_time 60 replaced coterie-shard-0 "$was"
  check "whole again" whole
  local pods
  mapfile -t pods < <(k get pods -o name \
    -l app.kubernetes.io/component=coordinator)
  check "one coordinator may be evicted" evict "${pods[0]#pod/}"
  refused "not the last" 'disruption budget' evict "${pods[1]#pod/}"
  check "whole again" whole
}

scale_guard() {
  scenario "Another number of shards"
  refused "scaling in" 'each of its 3 owns slots' \
    k scale sts/coterie-shard --replicas=2
  refused "scaling out" 'each of its 3 owns slots' \
    k scale sts/coterie-shard --replicas=4
  refused "by helm" 'was installed with 3 shards' \
    helm upgrade coterie "$root/k8s/chart" --reuse-values --set shards.count=2
  check "coordinators scale" k scale deploy/coterie --replicas=3
  check "out" rolled_out deploy/coterie
  check "and in" k scale deploy/coterie --replicas=2
  # Start order, and new addresses of all: coordinators run while no shard does.
  check "all shards stop" k scale sts/coterie-shard --replicas=0
  check "none is left" k wait --for=delete pod/coterie-shard-0 \
    pod/coterie-shard-1 pod/coterie-shard-2 --timeout=60s
  none_ready() {
    [ -z "$(field deploy/coterie '{.status.readyReplicas}')" ]
  }
  check "coordinators leave the Service" in_time 30 none_ready
  check "all shards start" k scale sts/coterie-shard --replicas=3
  check "whole again" whole
  check "the same answers" exact
  check "nothing restarted" [ "$(restarts)" -eq 0 ]
}

# Writers that repeat until they are acknowledged, while pods are killed.
kills() {
  scenario "$KILLS kills of pods during ingest (SEED=$SEED)"
  rm -f "$work/stop"
  python "$root/k8s/test/ingest.py" "$service" "$SEED" "$work/stop" \
    >"$work/ingest" 2>&1 &
  local writers=$! n shard was
  RANDOM=$SEED
  for n in $(seq "$KILLS"); do
    shard=coterie-shard-$((RANDOM % 3))
    was=$(uid "$shard")
    k delete pod "$shard" --grace-period=0 --force >/dev/null 2>&1
    in_time 60 replaced "$shard" "$was" || break
  done
  touch "$work/stop"
  wait "$writers"
  check "nothing acknowledged is lost" grep -q ' 0 lost$' "$work/ingest"
  echo "  $(tail -n 1 "$work/ingest")"
  check "$KILLS were killed" [ "$n" -eq "$KILLS" ]
  check "whole again" whole
}

# A limit of memory under what writes need, and back.
out_of_memory() {
  scenario "Out of memory"
  local was importer
  was=$(uid coterie-shard-2)
  oom_killed() {
    k get pods -o 'jsonpath={..lastState.terminated.reason}{..state.terminated.reason}' |
      grep -q OOMKilled
  }
  check "a limit too small" helm upgrade coterie "$root/k8s/chart" \
    --reuse-values --set shards.resources.limits.memory=12Mi
  check "is that of a new pod" in_time 60 replaced coterie-shard-2 "$was"
  # A copy: an import keeps its checkpoint beside what it reads.
  cp "$root/data/words-10k.npy" "$work/bulk.npy"
  coterie import bulk "$work/bulk.npy" --create --metric l2 \
    >"$work/import.log" 2>&1 &
  importer=$!
  check "writes have it killed" in_time 60 oom_killed
  ask policy require:0.5 >"$work/out"
  says "the others answer" '^OK shards'
  check "undone" helm rollback coterie
  # A StatefulSet replaces a pod that never got ready only when told to.
  k delete pod coterie-shard-2 --grace-period=0 --force >/dev/null 2>&1
  check "whole again" whole
  check "the same answers" exact
  # The import may have gone on by itself; if not, again is safe.
  wait "$importer" || check "the import again" coterie import bulk \
    "$work/bulk.npy"
  check "and all of it is there" [ "$(coterie count bulk)" = 10000 ]
}

# All processes of the node die at once; etcd and volumes stay.
node_restart() {
  scenario "The node restarts"
  "$root/k8s/testcluster/down.sh" >/dev/null
  check "it comes up" "$root/k8s/testcluster/up.sh" --again
  check "whole again" in_time 120 whole
  check "the same answers" exact
  check "all words are there" [ "$(coterie count words)" = 10000 ]
}
