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
  within "since it was deleted" 15 "$took"
  check "in another pod" replaced coterie-shard-1 "$was"
  check "at another address" [ "$(pod_ip coterie-shard-1)" != "$ip" ]
  check "with its volume" [ "$(field pvc/data-coterie-shard-1 \
    '{.spec.volumeName}')" = "$claim" ]
  check "the same answers" exact
  check "coordinators stayed" [ "$(restarts)" -eq 0 ]
}

draining_health() {
  scenario "Draining"
  local pod watcher
  pod=$(k get pods -o name -l app.kubernetes.io/component=coordinator | head -1)
  python "$root/k8s/test/health.py" "$(pod_ip "${pod#pod/}"):7600" draining 60 \
    coterie.v1.SearchService coterie.v1.PointService \
    coterie.v1.CollectionService >"$work/draining" 2>&1 &
  watcher=$!
  check "a pod that serves" in_time 20 grep -q SERVING "$work/draining"
  k delete "$pod" --wait=false >/dev/null
  wait "$watcher"
  check "says NOT_SERVING, and answers until it is gone" [ $? -eq 0 ]
  sed 's/^/          /' "$work/draining"
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
  refused "nor another size of volumes" 'the claims of .* were made for' \
    helm upgrade coterie "$root/k8s/chart" --reuse-values \
    --set shards.storage.size=50Gi
  audited() {
    grep '"verb":"\(patch\|update\)"' "$cluster_log/audit.log" |
      grep coterie-shard/scale | grep -q 'validation_failure.*owns slots'
  }
  check "the audit log has who asked" in_time 20 audited
  refusal_event() {
    k get events --field-selector reason=FailedRescale -o 'jsonpath={..message}' |
      grep 'each of its 3 owns slots'
  }
  check "an autoscaler of shards" k apply -f "$root/k8s/test/shard-autoscaler.yaml"
  check "has the refusal as an Event" in_time 90 refusal_event
  k delete -f "$root/k8s/test/shard-autoscaler.yaml" >/dev/null
  # As where a StatefulSet is made anew, for larger volumes.
  check "the StatefulSet goes without its pods" \
    k delete sts coterie-shard --cascade=orphan
  helm template coterie "$root/k8s/chart" --values "$root/k8s/test/values.yaml" \
    --kube-version 1.34.0 --set shards.count=2 \
    --show-only templates/shards.yaml >"$work/rendered"
  refused "and comes back with no fewer" 'each of its 3 owns slots' \
    k create -f "$work/rendered"
  check "but with as many" helm upgrade coterie "$root/k8s/chart" --reuse-values
  check "whole again" whole
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
    --reuse-values --set shards.resources.limits.memory=48Mi \
    --set shards.resources.requests.memory=48Mi
  check "is that of a new pod" in_time 60 replaced coterie-shard-2 "$was"
  "$root/k8s/test/repeat_rows.py" "$root/data/words-10k.npy" 20 "$work/bulk.npy"
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
  check "and all of it is there" [ "$(coterie count bulk)" = 200000 ]
  coterie drop bulk --yes >/dev/null
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
