#!/usr/bin/env bash
# Installs what building, testing and the demo need on Debian 12, as root or
# through sudo. Idempotent; takes well under a second when nothing is missing.
#
#   tools/install_deps.sh            packages and google.rpc protos
#   tools/install_deps.sh --tests    also grpcurl and helm, which tests call
#   tools/install_deps.sh --loadtest also ghz
#   tools/install_deps.sh --bench    also nanoflann, a peer of bench/approx
#   tools/install_deps.sh --check    only says what is missing (exit 1 if any)
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  bazel-bootstrap bazel-rules-java bazel-rules-proto bazel-platforms
  g++ git clang libclang-rt-dev clang-format clang-tidy pkg-config ca-certificates make
  libgrpc++-dev libgrpc-dev grpc-proto protobuf-compiler protobuf-compiler-grpc
  libprotobuf-dev libabsl-dev librocksdb-dev libroaring-dev libcli11-dev zlib1g-dev
  libfaiss-dev libopenblas-dev libeigen3-dev libgomp1
  prometheus-cpp-dev libcivetweb-dev curl
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-pip python3-grpcio python3-protobuf
)
[ "${1:-}" = --bench ] && packages+=(libnanoflann-dev)
googleapis_version=1.63.2
# The newest of each that Debian's Go 1.19 builds.
grpcurl_version=v1.8.7
ghz_version=v0.117.0

missing=()
for p in "${packages[@]}"; do
  [ -f "/var/lib/dpkg/info/$p.list" ] || [ -f "/var/lib/dpkg/info/$p:amd64.list" ] \
    || missing+=("$p")
done
have_protos() { [ -f .deps/googleapis/google/rpc/error_details.proto ]; }

if [ "${1:-}" = --check ]; then
  have_protos || missing+=("google.rpc protos")
  [ -x .deps/bin/grpcurl ] || missing+=("grpcurl (--tests)")
  [ -x .deps/bin/helm ] || missing+=("helm (--tests)")
  [ ${#missing[@]} -eq 0 ] && { echo "nothing is missing"; exit 0; }
  printf 'missing: %s\n' "${missing[@]}"
  exit 1
fi

if [ ${#missing[@]} -gt 0 ]; then
  sudo=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "install_deps: these packages need root, and sudo is not here: ${missing[*]}" >&2
      exit 1
    }
    sudo=sudo
  fi
  echo "install_deps: installing ${#missing[@]} Debian packages"
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update -qq
  $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if ! have_protos; then
  echo "install_deps: fetching google.rpc protos (PyPI googleapis-common-protos)"
  tmp=$(mktemp -d)
  python3 -m pip download --quiet --disable-pip-version-check --no-deps \
    -d "$tmp" "googleapis-common-protos==$googleapis_version"
  rm -rf .deps/googleapis
  mkdir -p .deps/googleapis
  python3 -m zipfile -e "$tmp"/*.whl .deps/googleapis
  rm -rf "$tmp"
fi

# go_build NAME COMMAND...: makes .deps/bin/NAME by a command of go, unless it is
# there.
go_build() {
  [ -x ".deps/bin/$1" ] && return
  echo "install_deps: building $1 (Go modules)"
  if ! command -v go >/dev/null; then
    local sudo=; [ "$(id -u)" -eq 0 ] || sudo=sudo
    $sudo apt-get install -y -qq --no-install-recommends golang-go >/dev/null
  fi
  mkdir -p .deps/bin
  local log
  log=$(mktemp)
  "${@:2}" >"$log" 2>&1 || {
    cat "$log" >&2
    echo "install_deps: cannot build $1; is the Go module proxy reached?" >&2
    exit 1
  }
  rm -f "$log"
}
# go_tool NAME MODULE@VERSION
go_tool() { go_build "$1" env GOBIN="$PWD/.deps/bin" go install "$2"; }
# Helm: its versions are those of k8s/helm/go.mod. Two minutes the first time,
# seconds from Go's cache.
helm_tool() {
  go_build helm env --chdir=k8s/helm CGO_ENABLED=0 GOBIN="$PWD/.deps/bin" \
    GOFLAGS="-mod=readonly -trimpath" \
    go install -ldflags "-s -w" helm.sh/helm/v3/cmd/helm
}
case "${1:-}" in
  --tests) go_tool grpcurl \
    "github.com/fullstorydev/grpcurl/cmd/grpcurl@$grpcurl_version"; helm_tool ;;
  --loadtest) go_tool ghz "github.com/bojand/ghz/cmd/ghz@$ghz_version" ;;
esac
