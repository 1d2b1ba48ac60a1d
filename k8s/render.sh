#!/usr/bin/env bash
# Renders the chart for every file of chart/ci/ and compares with golden/, and
# the default with manifests/.
#   k8s/render.sh           compare; the difference is printed
#   k8s/render.sh --update  write what is rendered now
#   k8s/render.sh --print NAME   of chart/ci/NAME-values.yaml
set -euo pipefail
cd "$(dirname "$0")"
helm=$PWD/../.deps/bin/helm
[ -x "$helm" ] || {
  echo "render: no $helm; tools/install_deps.sh --tests builds it, with Go and" \
    "its module proxy" >&2
  exit 1
}
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/render.XXXXXX")
trap 'rm -rf "$work"' EXIT
export HELM_CACHE_HOME=$work HELM_CONFIG_HOME=$work HELM_DATA_HOME=$work

# Of the API server that it would meet, what the chart asks for.
render() {
  "$helm" template coterie chart --namespace coterie --kube-version 1.34.0 \
    --api-versions admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy "$@"
}
# For kubectl, which knows no hooks.
manifests() {
  echo "# Made from k8s/chart by k8s/render.sh --update; what helm template" \
    "coterie prints."
  render --skip-tests
}

case "${1:-}" in
  --print) render --values "chart/ci/$2-values.yaml" ;;
  --update)
    rm -f golden/*.yaml
    for values in chart/ci/*-values.yaml; do
      render --values "$values" >"golden/$(basename "$values" -values.yaml).yaml"
    done
    manifests >manifests/coterie.yaml ;;
  "")
    failures=0
    for values in chart/ci/*-values.yaml; do
      name=$(basename "$values" -values.yaml)
      render --values "$values" >"$work/$name.yaml"
      diff -u "golden/$name.yaml" "$work/$name.yaml" || failures=$((failures + 1))
    done
    for golden in golden/*.yaml; do
      [ -f "chart/ci/$(basename "$golden" .yaml)-values.yaml" ] && continue
      echo "render: $golden is of no file in chart/ci" >&2
      failures=$((failures + 1))
    done
    manifests >"$work/manifests"
    diff -u manifests/coterie.yaml "$work/manifests" || failures=$((failures + 1))
    [ "$failures" -eq 0 ] || {
      echo "render: $failures renderings differ; look, then" \
        "k8s/render.sh --update" >&2
      exit 1
    } ;;
  *) echo "usage: k8s/render.sh [--update | --print NAME]" >&2; exit 2 ;;
esac
