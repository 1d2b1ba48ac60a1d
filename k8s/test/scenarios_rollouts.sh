# Sourced by run.sh: changes while callers go on.

restart_coordinators() {
  scenario "Rolling restart of coordinators under load"
  load coordinators "$1" fail
  k rollout restart deploy/coterie >/dev/null
  check "done" rolled_out deploy/coterie
  await_load coordinators
  check "no read failed" [ "$(outcome "$line" failed)" = 0 ]
}

restart_shards() {
  scenario "Shards are rolled under load"
  load require "$1" require:0.5
  load fail "$1" fail
  # More memory for each; the volumes cannot follow by themselves.
  check "for a larger estimate" helm upgrade coterie "$root/k8s/chart" \
    --reuse-values --set estimate.vectors=2000000
  check "done" rolled_out sts/coterie-shard 300s
  check "whole again" whole
  await_load require
  check "REQUIRE: none failed" [ "$(outcome "$line" failed)" = 0 ]
  await_load fail
  check "FAIL: some were refused" [ "$(outcome "$line" failed)" -gt 0 ]
  check "FAIL: with UNAVAILABLE only" \
    [ "$(outcome "$line" codes)" = Unavailable ]
  check "FAIL: once for each shard at most" [ "$(outcome "$line" windows)" -le 3 ]
  within "FAIL: the longest time" 15 "$(outcome "$line" longest)"
}

answers_in_part() { ask policy require:0.5 | grep '^OK shards [23]/3'; }

bad_image() {
  scenario "An image that is not there"
  load bad "$1" require:0.5
  check "rolled out" helm upgrade coterie "$root/k8s/chart" --reuse-values \
    --set image.tag=none
  never_ready() { k get pods | grep -qE 'ErrImage|ImagePull'; }
  check "pods cannot be made of it" in_time 60 never_ready
  check "two shards at least still answer" answers_in_part
  check "undone" helm rollback coterie
  # As after any pod that never got ready.
  k delete pod coterie-shard-2 --grace-period=0 --force >/dev/null 2>&1
  check "whole again" whole
  await_load bad
  check "no partial read failed" [ "$(outcome "$line" failed)" = 0 ]
  check "the same answers" exact
}

# A change of coordinators' flags is none of shards'.
flag_change() {
  scenario "A flag of coordinators"
  local was
  was=$(uid coterie-shard-0)
  check "changed" helm upgrade coterie "$root/k8s/chart" --reuse-values \
    --set coordinators.flags.max_k=500 --wait --timeout 90s
  check "describe" coterie describe
  says "is in force" '^k +500$'
  check "shards stayed" [ "$(uid coterie-shard-0)" = "$was" ]
}

# Probes restart nothing: neither a pod whose load takes longer than their
# patience, nor those that are kept busy meanwhile.
probes() {
  scenario "A load of $1 s, and full CPU for $2 s of them"
  local was began
  was=$(restarts)
  gcc -shared -fPIC -O2 -o "$work/slow_load.so" "$root/k8s/test/slow_load.c" -ldl
  "$root/k8s/test/slow_image.py" "$work/slow.tar" "$work/slow_load.so" "$1" \
    "$root/bazel-bin/server/coteried" "$root/bazel-bin/client/coterie" >/dev/null
  import_image "$work/slow.tar"
  began=$SECONDS
  check "installed beside it" helm install slow "$root/k8s/chart" \
    --values "$root/k8s/test/values.yaml" --set image.repository=k8s.local/slow \
    --set-string image.tag=1 --set shards.count=1 \
    --set coordinators.replicas=1
  check "runs" in_time 120 slow_pods_run
  watch_load shard "$(pod_ip slow-coterie-shard-0)" "$1" shard/0
  watch_load coordinator "$(field \
    "$(k get pods -o name -l "$slow_release,app.kubernetes.io/component=coordinator")" \
    '{.status.podIP}')" "$1"
  check "not ready while it loads" \
    [ "$(field sts/slow-coterie-shard '{.status.readyReplicas}')" = "" ]
  busy "$2"
  check "ready when it has loaded" rolled_out sts/slow-coterie-shard "$(($1 + 120))s"
  check "not before ($((SECONDS - began)) s)" [ $((SECONDS - began)) -ge "$1" ]
  check "its coordinator too" rolled_out deploy/slow-coterie
  load_watched shard
  load_watched coordinator
  check "nothing restarted" [ "$(restarts)" -eq "$was" ]
  check "whole" whole
  helm uninstall slow --wait >/dev/null
  k delete pvc data-slow-coterie-shard-0 >/dev/null
}
slow_release=app.kubernetes.io/instance=slow
slow_pods_run() {
  [ "$(k get pods -l "$slow_release" -o 'jsonpath={.items[*].status.phase}')" = \
    "Running Running" ]
}
# watch_load ROLE ADDRESS SECONDS [SERVICE...]: in the background, what a pod says
# of itself until it serves; load_watched ROLE: that it was true.
watch_load() {
  python "$root/k8s/test/health.py" "$2:7600" loading "$(($3 + 120))" \
    coterie.v1.SearchService coterie.v1.PointService \
    coterie.v1.CollectionService "${@:4}" >"$work/loading-$1" 2>&1 &
  loads[health-$1]=$!
}
load_watched() {
  wait "${loads[health-$1]}"
  check "the $1's health was true" [ $? -eq 0 ]
  sed 's/^/          /' "$work/loading-$1"
}

# busy SECONDS: as many searches as there are answers to.
busy() {
  in_network "$root/.deps/bin/ghz" --insecure \
    --call coterie.v1.SearchService/Search \
    --data-file "$work/queries-fail.json" --concurrency 64 --connections 8 \
    --duration "$1s" --duration-stop wait --timeout 10s --format json \
    --output "$work/busy.json" "$service" >"$work/busy.log" 2>&1
  line=$("$root/k8s/test/outcomes.py" "$work/busy.json")
  echo "          $line"
  check "busy: searches are answered" [ "$(outcome "$line" failed)" = 0 ]
}
