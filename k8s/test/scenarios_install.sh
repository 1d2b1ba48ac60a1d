# Sourced by run.sh: from nothing to answers.

install_chart() {
  scenario "Installing"
  local began=$SECONDS
  check "helm install" helm install coterie "$root/k8s/chart" \
    --values "$root/k8s/test/values.yaml" --wait --timeout 180s
  within "until it serves" 30 $((SECONDS - began))
  check "helm test" helm test coterie
  service=$(field svc/coterie '{.spec.clusterIP}'):7600
  check "describe" coterie describe
  says "shards are where their ids say" '^ *2 +[0-9.]+:7600 +serving'
  local pods='{.items[*].spec'
  check "no pod has a token" [ "$(k get pods -o "jsonpath=$pods.automountServiceAccountToken}" |
    tr ' ' '\n' | sort -u)" = false ]
  check "no root, nothing to write to" [ "$(k get pods -o \
    "jsonpath=$pods.containers[*].securityContext.readOnlyRootFilesystem}" |
    tr ' ' '\n' | sort -u)" = true ]
}

# Health by name (what probes ask).
health_names() {
  scenario "Health"
  check "the process" coterie health
  check "a service" coterie health coterie.v1.SearchService
  check "a shard" coterie health shard/1
  check "alive" coterie health alive
  refused "no other name" NOT_FOUND coterie health nope
  check "of a shard's own pod" in_network "$root/bazel-bin/client/coterie" \
    --server "$(pod_ip coterie-shard-2):7600" health
}

# Every documented combination of values, before the API server itself.
values_accepted() {
  scenario "Values"
  check "the plain manifests, where there is nothing" \
    kc apply --validate=strict -f "$root/k8s/manifests"
  check "make pods" in_time 60 k get pod/coterie-shard-0
  kc delete -f "$root/k8s/manifests" --timeout=120s >/dev/null
  check "and go" kc wait --for=delete "namespace/$namespace" --timeout=120s
  check "a namespace that takes restricted pods only" \
    kc apply -f "$root/k8s/manifests/00-namespace.yaml"
  check "and knows ServiceMonitors" \
    kc apply -f "$root/k8s/test/servicemonitors.yaml"
  kc wait --for=condition=Established --timeout=30s \
    crd/servicemonitors.monitoring.coreos.com >/dev/null
  local values name
  for values in "$root"/k8s/chart/ci/*-values.yaml; do
    name=$(basename "$values" -values.yaml)
    helm template other "$root/k8s/chart" --values "$values" --skip-tests \
      --kube-version 1.34.0 --api-versions \
      admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy >"$work/rendered"
    check "the API server takes: $name" k apply --dry-run=server \
      --validate=strict -f "$work/rendered"
  done
}

words() {
  scenario "Words"
  kc -n "$namespace" port-forward --address 127.0.0.1 svc/coterie 17600:7600 \
    >"$work/forward.log" 2>&1 &
  local forward=$!
  check "port-forward" in_time 20 grep -q Forwarding "$work/forward.log"
  local through=(in_network "$root/bazel-bin/client/coterie"
    --server 127.0.0.1:17600)
  check "create" "${through[@]}" create words --dim 100 --metric cosine
  check "import of 10,000 words" "${through[@]}" import words \
    "$root/data/words-10k.npy" --text "$root/data/words-10k.txt" --as word
  kill "$forward"
  check "all are there" [ "$(coterie count words)" = 10000 ]
  check "answers are those of a plain scan" exact
}

# ghz where users run it.
load_job() {
  scenario "Load from within"
  cp "$work/queries-fail.json" "$work/queries.json"
  "$root/k8s/testcluster/make_image.py" k8s.local/ghz:1 "$work/ghz.tar" \
    --add "$root/.deps/bin/ghz:usr/bin/ghz" --add "$work/queries.json:queries.json" \
    -- /usr/bin/ghz >/dev/null
  import_image "$work/ghz.tar"
  check "a Job" k apply -f "$root/k8s/test/load-job.yaml"
  check "is done" k wait --for=condition=Complete job/load --timeout=60s
  k logs job/load >"$work/job.json"
  local line
  line=$("$root/k8s/test/outcomes.py" "$work/job.json")
  echo "  $line, $(python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
ms = {d["percentage"]: d["latency"] / 1e6 for d in r["latencyDistribution"]}
print("%.0f searches/s, p50 %.1f ms, p99 %.1f ms" % (r["rps"], ms[50], ms[99]))' \
    "$work/job.json")"
  check "every call was answered" [ "$(outcome "$line" failed)" = 0 ]
  k delete job load >/dev/null
}
