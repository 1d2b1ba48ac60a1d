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
  scenario "Rolling restart of shards under load"
  load require "$1" require:0.5
  load fail "$1" fail
  k rollout restart sts/coterie-shard >/dev/null
  check "done" rolled_out sts/coterie-shard 180s
  check "whole again" whole
  await_load require
  check "REQUIRE: none failed" [ "$(outcome "$line" failed)" = 0 ]
  await_load fail
  check "FAIL: some were refused" [ "$(outcome "$line" failed)" -gt 0 ]
  check "FAIL: with UNAVAILABLE only" \
    [ "$(outcome "$line" codes)" = Unavailable ]
  check "FAIL: once for each shard at most" [ "$(outcome "$line" windows)" -le 3 ]
  check "FAIL: for 15 s at most" awk "BEGIN { exit $(outcome "$line" longest) > 15 }"
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

# The same image, whose load takes longer than any probe's patience.
slow_load() {
  scenario "A load of $1 s"
  gcc -shared -fPIC -O2 -o "$work/slow_load.so" "$root/k8s/test/slow_load.c" -ldl
  "$root/k8s/test/slow_image.py" "$work/slow.tar" "$work/slow_load.so" "$1" \
    "$root/bazel-bin/server/coteried" "$root/bazel-bin/client/coterie" >/dev/null
  import_image "$work/slow.tar"
  local began=$SECONDS
  check "installed beside it" helm install slow "$root/k8s/chart" \
    --values "$root/k8s/test/values.yaml" --set image.repository=k8s.local/slow \
    --set-string image.tag=1 --set shards.count=1 \
    --set coordinators.replicas=1
  pod_is_alive() {
    in_network "$root/bazel-bin/client/coterie" --timeout 1s \
      --server "$(pod_ip slow-coterie-shard-0):7600" health alive
  }
  check "alive while it loads" in_time 30 pod_is_alive
  check "but not ready" [ "$(field sts/slow-coterie-shard '{.status.readyReplicas}')" = "" ]
  check "ready when it has loaded" rolled_out sts/slow-coterie-shard "$(($1 + 60))s"
  check "not before ($((SECONDS - began)) s)" [ $((SECONDS - began)) -ge "$1" ]
  check "its coordinator too" rolled_out deploy/slow-coterie
  check "nothing restarted" [ "$(k get pods -l app.kubernetes.io/instance=slow \
    -o 'jsonpath={..restartCount}' | tr ' ' '\n' | sort -u)" = 0 ]
  helm uninstall slow --wait >/dev/null
  k delete pvc data-slow-coterie-shard-0 >/dev/null
}

busy() {
  scenario "Full CPU for $1 s"
  local was
  was=$(restarts)
  in_network "$root/.deps/bin/ghz" --insecure \
    --call coterie.v1.SearchService/Search \
    --data-file "$work/queries-fail.json" --concurrency 64 --connections 8 \
    --duration "$1s" --duration-stop wait --timeout 10s --format json \
    --output "$work/busy.json" "$service" >"$work/busy.log" 2>&1
  echo "  $("$root/k8s/test/outcomes.py" "$work/busy.json")"
  check "nothing restarted" [ "$(restarts)" -eq "$was" ]
  check "whole" whole
}
