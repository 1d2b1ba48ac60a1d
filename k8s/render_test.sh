#!/usr/bin/env bash
# The chart renders as golden/ and manifests/ say, is refused where values make
# no sense, and starts servers: its flags are flags of coteried.
. tests/process_lib.sh
export HELM_CACHE_HOME=$work HELM_CONFIG_HOME=$work HELM_DATA_HOME=$work
helm() { .deps/bin/helm "$@"; }
render() { helm template coterie k8s/chart --kube-version 1.34.0 "$@"; }

expect "renders as in golden/ and manifests/" k8s/render.sh
for values in k8s/chart/ci/*-values.yaml; do
  name=$(basename "$values" -values.yaml)
  expect "lints: $name" helm lint --strict --quiet k8s/chart --values "$values"
  # Of each object: what it is, and its name.
  expect "whole objects: $name" awk '
    /^---/ { if (lines && !(kind && named)) { print "before line " NR; bad = 1 }
             lines = kind = named = 0 }
    /^[a-zA-Z]/ { ++lines } /^kind: ./ { kind = 1 }
    last ~ /^metadata:/ && /^  name: ./ { named = 1 }
    { last = $0 } END { exit bad || !kind || !named }' "k8s/golden/$name.yaml"
done

# VALUE PATTERN: refused, saying so.
while read -r value pattern; do
  expect_code 1 "refuses $value" render --set "$value"
  expect_text err "$pattern" "names it"
done <<'REFUSED'
shards.count=0 shards\.count
shards.count=1025 shards\.count
shard.count=3 shard
shards.cpu=half shards\.cpu
shards.antiAffinity=maybe shards\.antiAffinity
shards.flags.data_dir=/tmp shards\.flags
coordinators.flags.Role=all coordinators\.flags
coordinators.acceptStores.one=two coordinators\.acceptStores
estimate.dimension=0 estimate\.dimension
image.digest=sha256:12 image\.digest
service.type=Open service\.type
REFUSED
# The table of sizes in the README is what the chart computes.
rows=0
while IFS='|' read -r _ size attributes shards memory disk _; do
  size=${size//[, ]/} memory=${memory//[, ]/} disk=${disk// /}
  expect_code 0 "renders $size" render --set "estimate.vectors=${size%x*}" \
    --set "estimate.dimension=${size#*x},shards.count=${shards// /}" \
    --set "estimate.attributeBytes=${attributes// /}"
  cp "$work/out" "$work/sized"  # expect writes to out
  expect "a shard's memory is ${memory%B}" \
    [ "$(grep -c "^ *memory: ${memory%B}\$" "$work/sized")" -eq 2 ]
  expect "its disk ${disk%B}" grep -q "^ *storage: ${disk%B}\$" \
    "$work/sized"
  rows=$((rows + 1))
done < <(grep -E '^\| [0-9,]+ x ' k8s/README.md)
expect "three sizes" [ "$rows" -eq 3 ]

expect_code 1 "refuses an old Kubernetes" helm template coterie k8s/chart \
  --kube-version 1.27.0
expect_code 0 "before 1.30 there is no guard of the number" render
expect "and nothing of its kind" [ "$(grep -c Admission "$work/out")" -eq 0 ]
version=$(server/coteried --version | sed 's/^coteried //')
expect "the chart is of this release" grep -qx "appVersion: \"$version\"" \
  k8s/chart/Chart.yaml

# flags_of NAME ROLE: the flag file in a golden rendering.
flags_of() {
  sed -n "/^  $2.flags: |/,/^  [a-z]*.flags: |\$\|^---/p" "k8s/golden/$1.yaml" |
    sed -n 's/^    //p'
}
for name in default large provided; do
  for role in shard coordinator; do
    flags_of "$name" "$role" >"$work/$name-$role.flags"
    own=()
    [ "$role" = shard ] && own=(--shard_id=0 --data_dir="$work/$name")
    launch "$name-$role" --flagfile="$work/$name-$role.flags" \
      --listen=127.0.0.1:0 --http= --drain_delay=0s "${own[@]}"
    end "$name-$role" TERM 0
  done
done
report
