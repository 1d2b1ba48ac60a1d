#!/usr/bin/env bash
# Machines without IPv6, and with nothing else: what can be listened on is
# served, what cannot is said, and addresses of either family reach it.
#
# Each is a network of its own. Where this user may not make one, the machine's
# own network has to do either.
. tests/process_lib.sh
coterie=client/coterie

# lo ADDRESS: brings the loopback device up with this IPv4 address; 0.0.0.0:
# with none.
lo() {
  /usr/bin/python3 -c "
import fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, 0x8914, struct.pack('16sH22x', b'lo', 0x49))  # up, running
fcntl.ioctl(s, 0x8916, struct.pack('16sHH4s16x', b'lo', socket.AF_INET, 0,
                                   socket.inet_aton('$1')))"
}

# serves HOST TARGET: a server that listens on HOST can be called at TARGET.
serves() {
  start_server --local_shards=1 --listen="$1:0"
  local port=${address##*:}
  expect "a collection through $2" \
    $coterie --server "$2:$port" create "w$checks" --dim 2 --metric l2
  stop_server TERM
  expect "the server on $1 ends in order" [ "$server_code" -eq 0 ]
}

# refuses HOST PATTERN: no server can listen there, and it says why.
refuses() {
  expect_code 1 "$1" timeout 20 server/coteried --listen="$1:0" --http= \
    --data_dir="$work/refused"
  expect_text err "$2" "says why not $1"
}

case "${1:-}" in
  no_ipv6)
    lo 127.0.0.1
    [ ! -e /proc/net/if_inet6 ] ||
      echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
    serves 0.0.0.0 127.0.0.1
    refuses '[::]' 'cannot listen on \[::\]:0: IPv6 is off'
    refuses '[::1]' 'cannot listen on \[::1\]:0: IPv6 is off'
    ;;
  no_ipv4)
    lo 0.0.0.0
    serves '[::1]' '[::1]'
    serves '[::]' '[::1]'
    refuses 127.0.0.1 'cannot listen on 127\.0\.0\.1:0'
    launch shard --role=shard --shard_id=0 --shards_total=1 --cluster=six \
      --data_dir="$work/shard" --listen='[::1]:0'
    launch coordinator --role=coordinator --listen='[::1]:0' \
      --shards="${addresses[shard]}"
    await_line coordinator.out 'serving on \[::1\]:'
    expect "a cluster" $coterie --server "${addresses[coordinator]}" \
      create words --dim 2 --metric l2
    end coordinator TERM 0
    end shard TERM 0
    ;;
  *)
    if unshare -rn true 2>/dev/null; then
      expect "without IPv6" unshare -rn bash "$0" no_ipv6
      [ ! -e /proc/net/if_inet6 ] ||
        expect "without IPv4" unshare -rn bash "$0" no_ipv4
    else
      serves 0.0.0.0 127.0.0.1
      if grep -q ' lo$' /proc/net/if_inet6 2>/dev/null; then
        serves '[::1]' '[::1]'
      else
        refuses '[::1]' 'IPv6 is off'
      fi
    fi
    ;;
esac
report
