#!/usr/bin/env bash
# Ends the cluster: with process 1 of the node all daemons, shims and pods go.
#   --purge   also what it kept: volumes, logs, certificates
set -uo pipefail
. "$(dirname "$0")/env.sh"
if cluster_is_up; then
  node=$(cat "$cluster_run/node.pid")
  kill -KILL "$node"
  # Its mounts and networks are held until the last process of it is reaped.
  timeout 30 tail --pid="$node" -f /dev/null
fi
rm -f "$cluster_run"/*.pid
# The cgroups and mount points that it made on this machine, when empty.
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*/; do
  for made in kubepods k8s.io; do
    [ -d "$hierarchy/$made" ] &&
      find "$hierarchy/$made" -depth -type d -exec rmdir {} + 2>/dev/null
  done
done
rmdir /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers 2>/dev/null
[ "${1:-}" = --purge ] && rm -rf "$cluster_var" "$cluster_log" "$cluster_pki" \
  "$cluster_run" "$cluster_etc"
echo "down"
