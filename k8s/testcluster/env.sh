# Settings of the test cluster; to be sourced. K8S_HOME moves everything.
testcluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cluster_home=${K8S_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/coterie-k8s}
cluster_bin=$cluster_home/bin         # built once, kept
cluster_images=$cluster_home/images   # imported when the cluster comes up
cluster_pki=$cluster_home/pki         # made anew each time, as all below
cluster_var=$cluster_home/var
cluster_etc=$cluster_home/etc
cluster_log=$cluster_home/log
cluster_run=$cluster_home/run
kubernetes_version=1.34.4
node_ip=10.200.0.1
pod_network=10.201.0.0/24
service_network=10.96.0.0/16
dns_ip=10.96.0.10
containerd_socket=/run/containerd/containerd.sock
export KUBECONFIG=$cluster_pki/admin.kubeconfig

# in_node COMMAND...: inside all of the node's namespaces.
in_node() {
  nsenter -t "$(cat "$cluster_run/node.pid")" -m -n -p -i -u -- "$@"
}
# in_network COMMAND...: with this machine's files and the node's network.
in_network() { nsenter -t "$(cat "$cluster_run/node.pid")" -n -- "$@"; }
kc() { in_network "$cluster_bin/kubectl" "$@"; }
# import_image TAR: under the name that the archive gives it.
import_image() {
  in_node ctr -a "$containerd_socket" -n k8s.io images import "$1" \
    >>"$cluster_log/import.log" 2>&1
}
cluster_is_up() {
  [ -s "$cluster_run/node.pid" ] && kill -0 "$(cat "$cluster_run/node.pid")" \
    2>/dev/null
}
# What build.sh builds from, as one checksum; kept beside what it has built.
cluster_sources() {
  (cd "$testcluster" && sha256sum build.sh make_image.py pause.c go.mod go.sum \
    main.go coredns/main.go | sha256sum | cut -d' ' -f1)
}
cluster_is_built() {
  [ "$(cat "$cluster_bin/built-from" 2>/dev/null)" = "$(cluster_sources)" ]
}
