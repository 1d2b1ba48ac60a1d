#!/usr/bin/env bash
# Brings up a real one-node Kubernetes inside namespaces of its own (network,
# mounts, processes): nothing in it reaches this machine's network. Takes about
# 15 s after build.sh, needs root. down.sh ends it.
#   up.sh --again          after down.sh: with etcd, volumes and certificates as
#                          they were, as when a node restarts
#   CONTROL_PLANE_ONLY=1   etcd and API server only: for kubectl --dry-run=server
set -euo pipefail
. "$(dirname "$0")/env.sh"
cluster_is_up && { echo "up: it is already" >&2; exit 1; }
cluster_is_built || { echo "up: run build.sh first" >&2; exit 1; }
say() { echo "[$SECONDS s] $*"; }

again=
[ "${1:-}" = --again ] && again=1

# The node: namespaces that live as long as our "pause", their process 1.
start_node() {
  [ -n "$again" ] || rm -rf "$cluster_run" "$cluster_log" "$cluster_var" \
    "$cluster_pki" "$cluster_etc"
  mkdir -p "$cluster_run" "$cluster_log" "$cluster_pki" "$cluster_etc/cni" \
    "$cluster_var"/{etcd,kubelet,containerd,volumes,cni,pod-logs,container-logs}
  : >"$cluster_etc/resolv.conf"
  unshare --net --mount --pid --ipc --uts --fork --kill-child --mount-proc \
    --propagation private "$cluster_bin/pause" </dev/null >/dev/null 2>&1 &
  local unshare=$! node=
  for _ in $(seq 100); do
    node=$(tr -d ' ' <"/proc/$unshare/task/$unshare/children" 2>/dev/null)
    # Until it has become what unshare runs.
    [ -n "$node" ] && [ "$(cat "/proc/$node/comm" 2>/dev/null)" = pause ] && break
    sleep 0.1
  done
  echo "$node" >"$cluster_run/node.pid"
  in_node bash -euc "
    hostname node
    mount --make-rshared /
    own() { mkdir -p \$1; mount --bind $cluster_var/\$2 \$1; }
    own /var/lib/kubelet kubelet
    own /var/lib/cni cni
    own /var/log/pods pod-logs
    own /var/log/containers container-logs
    mount -t tmpfs tmpfs /run
    mkdir -p /run/containerd /run/netns /run/lock /run/xtables
    # Kernel settings that kubelet would change: it sees what it wants there.
    show() {
      mkdir -p $cluster_var/sysctl
      echo \$2 >$cluster_var/sysctl/\$(basename \$1)
      mount --bind $cluster_var/sysctl/\$(basename \$1) /proc/sys/\$1
    }
    show vm/overcommit_memory 1
    show vm/panic_on_oom 0
    show kernel/panic 10
    show kernel/panic_on_oops 1
    show kernel/keys/root_maxkeys 1000000
    show kernel/keys/root_maxbytes 25000000
    # No link to the outside: a pair of its own carries the node's address.
    ip link set lo up
    ip link add node0 type veth peer name node0p
    ip link set node0 up
    ip link set node0p up
    ip addr add $node_ip/24 dev node0
    ip route add default dev node0
    sysctl -qw net.ipv4.ip_forward=1
  "
  say "namespaces"
}

# certificate NAME SUBJECT ALTERNATIVE-NAMES USAGE: NAME.key and NAME.crt.
certificate() {
  openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
  openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
  printf 'extendedKeyUsage=%s\n%s\n' "$4" "${3:+subjectAltName=$3}" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial \
    -days 30 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
}

# kubeconfig NAME: for the certificate of that name.
kubeconfig() {
  cat >"$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
current-context: test
clusters:
- name: test
  cluster:
    server: https://127.0.0.1:6443
    certificate-authority: $cluster_pki/ca.crt
users:
- name: $1
  user:
    client-certificate: $cluster_pki/$1.crt
    client-key: $cluster_pki/$1.key
contexts:
- name: test
  context: {cluster: test, user: $1}
YAML
}

make_certificates() (
  umask 077
  cd "$cluster_pki"
  openssl ecparam -name prime256v1 -genkey -noout -out ca.key
  openssl req -x509 -new -key ca.key -subj /CN=test-ca -days 30 -out ca.crt
  openssl genrsa -out tokens.key 2048 2>/dev/null
  openssl rsa -in tokens.key -pubout -out tokens.pub 2>/dev/null
  local service=kubernetes.default.svc.cluster.local
  certificate apiserver /CN=kube-apiserver "DNS:$service,DNS:kubernetes.default.svc,\
DNS:localhost,IP:127.0.0.1,IP:$node_ip,IP:${service_network%0/*}1" serverAuth
  certificate to-kubelet /O=system:masters/CN=apiserver "" clientAuth
  certificate admin /O=system:masters/CN=admin "" clientAuth
  certificate kubelet /O=system:nodes/CN=system:node:node "" clientAuth
  certificate manager /CN=system:kube-controller-manager "" clientAuth
  certificate scheduler /CN=system:kube-scheduler "" clientAuth
  certificate proxy /CN=system:kube-proxy "" clientAuth
  local name
  for name in admin kubelet manager scheduler proxy; do kubeconfig "$name"; done
)

# daemon NAME COMMAND...: in the node, its output in the log folder.
daemon() {
  local name=$1
  shift
  in_node setsid env PATH="$cluster_bin:$PATH" "$@" </dev/null \
    >>"$cluster_log/$name.log" 2>&1 &
}

# await WHAT SECONDS COMMAND...
await() {
  local what=$1 until=$((SECONDS + $2))
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$until" ] || {
      echo "up: not in time: $what; see $cluster_log" >&2
      exit 1
    }
    sleep 0.3
  done
  say "$what"
}

start_control_plane() {
  local etcd=http://127.0.0.1:2379
  # Requests that were made of StatefulSets, and what admission said to them.
  cat >"$cluster_etc/audit.yaml" <<YAML
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch]
  resources: [{group: apps, resources: [statefulsets, statefulsets/scale]}]
- level: None
YAML
  daemon etcd etcd --name node --data-dir "$cluster_var/etcd" \
    --listen-client-urls $etcd --advertise-client-urls $etcd \
    --listen-peer-urls http://127.0.0.1:2380 \
    --initial-advertise-peer-urls http://127.0.0.1:2380 \
    --initial-cluster node=http://127.0.0.1:2380
  daemon kube-apiserver kube-apiserver --etcd-servers=$etcd \
    --service-cluster-ip-range=$service_network --advertise-address=$node_ip \
    --secure-port=6443 --tls-cert-file="$cluster_pki/apiserver.crt" \
    --tls-private-key-file="$cluster_pki/apiserver.key" \
    --client-ca-file="$cluster_pki/ca.crt" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$cluster_pki/tokens.pub" \
    --service-account-signing-key-file="$cluster_pki/tokens.key" \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --allow-privileged=true --audit-policy-file="$cluster_etc/audit.yaml" \
    --audit-log-path="$cluster_log/audit.log" \
    --kubelet-client-certificate="$cluster_pki/to-kubelet.crt" \
    --kubelet-client-key="$cluster_pki/to-kubelet.key" \
    --kubelet-preferred-address-types=InternalIP
  await "API server" 60 kc get --raw /readyz
  [ -z "${CONTROL_PLANE_ONLY:-}" ] || exit 0
  daemon kube-controller-manager kube-controller-manager \
    --kubeconfig="$cluster_pki/manager.kubeconfig" --leader-elect=false \
    --use-service-account-credentials=true \
    --service-account-private-key-file="$cluster_pki/tokens.key" \
    --root-ca-file="$cluster_pki/ca.crt" \
    --flex-volume-plugin-dir="$cluster_var/flex"
  daemon kube-scheduler kube-scheduler \
    --kubeconfig="$cluster_pki/scheduler.kubeconfig" --leader-elect=false
}

configure_runtime() {
  # Root here may lack CAP_SYS_RESOURCE, so runc cannot lower OOM scores.
  cat >"$cluster_etc/containerd.toml" <<TOML
version = 2
root = "$cluster_var/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt"]
[grpc]
  address = "$containerd_socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "k8s.local/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$cluster_etc/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
TOML
  cat >"$cluster_etc/cni/10-pod.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "pod", "plugins": [
  {"type": "ptp", "ipMasq": false, "mtu": 1500, "ipam": {"type": "host-local",
    "dataDir": "/var/lib/cni/networks", "ranges": [[{"subnet": "$pod_network"}]],
    "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
  cat >"$cluster_etc/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
failSwapOn: false
volumePluginDir: $cluster_var/flex
oomScoreAdj: 0
containerRuntimeEndpoint: unix://$containerd_socket
clusterDomain: cluster.local
clusterDNS: [$dns_ip]
resolvConf: $cluster_etc/resolv.conf
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $cluster_pki/ca.crt}
authorization: {mode: Webhook}
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
YAML
  cat >"$cluster_etc/kube-proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $cluster_pki/proxy.kubeconfig}
mode: iptables
clusterCIDR: $pod_network
hostnameOverride: node
nodePortAddresses: [primary]
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
YAML
}

start_runtime() {
  configure_runtime
  daemon containerd containerd --config "$cluster_etc/containerd.toml"
  await "containerd" 30 in_node ctr -a "$containerd_socket" version
  local image
  for image in "$cluster_images"/*.tar; do import_image "$image"; done
  say "images"
  daemon kubelet kubelet --config="$cluster_etc/kubelet.yaml" \
    --kubeconfig="$cluster_pki/kubelet.kubeconfig" --root-dir=/var/lib/kubelet \
    --node-ip=$node_ip --hostname-override=node
  daemon kube-proxy kube-proxy --config="$cluster_etc/kube-proxy.yaml"
  await "node" 60 kc get node node
  await "node is ready" 60 kc wait --for=condition=Ready node/node --timeout=1s
}

# Local volumes, which honour fsGroup; base.yaml has their class.
make_volumes() {
  local n
  for n in $(seq 0 15); do
    mkdir -p "$cluster_var/volumes/local$n"
    cat <<YAML
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: local$n}
spec:
  capacity: {storage: 20Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: standard
  local: {path: $cluster_var/volumes/local$n}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - {key: kubernetes.io/hostname, operator: In, values: [node]}
YAML
  done >"$cluster_etc/volumes.yaml"
  kc apply -f "$testcluster/base.yaml" -f "$cluster_etc/volumes.yaml" \
    >>"$cluster_log/apply.log"
}

start_node
[ -n "$again" ] || { make_certificates; say "certificates"; }
start_control_plane
start_runtime
make_volumes
await "DNS" 90 kc -n kube-system rollout status deployment/coredns --timeout=1s
