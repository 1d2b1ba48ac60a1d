# Sourced by run.sh: volumes that outlive what was made with them.

# copy_volume FROM TO: claim FROM's data on a volume of its own, which claim TO
# will have; as a snapshot of a stopped pod's volume, and a claim made of it.
copy_volume() {
  local volume
  volume=$(kc get pv -o 'jsonpath={range .items[?(@.status.phase=="Available")]}{.metadata.name}{"\n"}{end}' |
    head -n 1)
  [ -n "$volume" ] || return 1
  cp -a "$cluster_var/volumes/$(field "pvc/$1" '{.spec.volumeName}')/." \
    "$cluster_var/volumes/$volume/" || return 1
  k apply -f - <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $2}
spec:
  accessModes: [ReadWriteOnce]
  volumeName: $volume
  resources: {requests: {storage: $(field "pvc/$1" '{.spec.resources.requests.storage}')}}
YAML
}
# at RELEASE: what follows talks to that one.
at() { service=$(field "svc/$1" '{.spec.clusterIP}'):7600; }
stopped() {
  k scale sts/coterie-shard --replicas=0 &&
    k wait --for=delete pod/coterie-shard-{0,1,2} --timeout=120s
}

backup() {
  scenario "Volumes are copied, and another release made of the copies"
  local n
  check "all shards stop" stopped
  for n in 0 1 2; do
    check "a copy of volume $n" copy_volume "data-coterie-shard-$n" \
      "data-restored-coterie-shard-$n"
  done
  check "all shards start" k scale sts/coterie-shard --replicas=3
  check "another release has the copies" helm install restored \
    "$root/k8s/chart" --values "$root/k8s/test/values.yaml" \
    --set clusterName=coterie/coterie --set coordinators.replicas=1 --wait \
    --timeout 180s
  at restored-coterie
  check "whole" ask await fail 60
  check "the same answers" exact
  check "all words are there" [ "$(coterie count words)" = 10000 ]
  check "it is written to" coterie delete words 0
  check "and has one less" [ "$(coterie count words)" = 9999 ]
  at coterie
  check "the first is whole" whole
  check "and has them all" [ "$(coterie count words)" = 10000 ]
  helm uninstall restored --wait >/dev/null
  k delete pvc data-restored-coterie-shard-{0,1,2} >/dev/null
}

lost_volume() {
  scenario "A volume is lost"
  local was
  was=$(uid coterie-shard-1)
  k delete pvc data-coterie-shard-1 --wait=false >/dev/null
  k delete pod coterie-shard-1 >/dev/null
  check "its pod comes back with another" in_time 120 replaced coterie-shard-1 "$was"
  refused_by_name() { ask policy fail | grep '^UNAVAILABLE.*lost or replaced'; }
  check "and searches say so" in_time 60 refused_by_name
  way_out() {
    accepted=$(k logs deploy/coterie | grep -o 'accept_stores=1=[0-9a-f]*' | tail -n 1)
    [ -n "$accepted" ]
  }
  local accepted=
  check "a coordinator's log has why, and the way out" in_time 60 way_out
  check "its points are given up" helm upgrade coterie "$root/k8s/chart" \
    --reuse-values --set-string "coordinators.acceptStores.1=${accepted##*=}"
  check "whole" whole
  check "without them" [ "$(coterie count words)" -lt 10000 ]
  check "they are imported again" coterie import words \
    "$root/data/words-10k.npy" --text "$root/data/words-10k.txt" --as word
  check "the same answers" exact
}

# k8s/test/coterie-0.1.0.tgz is the chart as it was at first.
earlier_chart() {
  scenario "From an earlier chart"
  check "which is installed" helm install earlier \
    "$root/k8s/test/coterie-0.1.0.tgz" --values "$root/k8s/test/values.yaml" \
    --set shards.count=1 --set coordinators.replicas=1 --wait --timeout 180s
  at earlier-coterie
  check "and filled" coterie create words --dim 100 --metric cosine
  check "with words" coterie import words "$root/data/words-10k.npy"
  check "upgraded" helm upgrade earlier "$root/k8s/chart" --reuse-values --wait \
    --timeout 180s
  check "whole" ask await fail 60
  check "the same answers" exact
  check "all words are there" [ "$(coterie count words)" = 10000 ]
  check "rolled back" helm rollback earlier --wait --timeout 180s
  check "whole again" ask await fail 60
  check "the same answers still" exact
  at coterie
  helm uninstall earlier --wait >/dev/null
  k delete pvc data-earlier-coterie-shard-0 >/dev/null
}
