# Sourced by process tests: starts servers, counts checks, ends what it began.
set -uo pipefail

work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/process.XXXXXX")
server_pid=
address=
checks=0
failures=0

declare -A pids addresses

finish() {
  [ -n "$server_pid" ] && kill -9 "$server_pid" 2>/dev/null
  local pid
  for pid in "${pids[@]}"; do
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
  done
  rm -rf "$work"
}
trap finish EXIT

# start_server [FLAG...]: waits until it serves; sets server_pid and address.
start_server() {
  : >"$work/server.out"
  server/coteried --listen=127.0.0.1:0 --http= --data_dir="$work/data" "$@" \
    >"$work/server.out" 2>"$work/server.err" &
  server_pid=$!
  # The line appears when the port is bound; tail -f follows without polling.
  if ! timeout 60 grep -m1 -q 'serving on' \
      <(tail -n +1 -f --pid="$server_pid" "$work/server.out"); then
    echo "server did not start:"; cat "$work/server.out" "$work/server.err"
    exit 1
  fi
  address=$(sed -n 's/.*serving on \([^,]*\),.*/\1/p' "$work/server.out")
  export COTERIE_SERVER=$address
}

# stop_server SIGNAL: sets server_code to the exit code.
stop_server() {
  kill "-$1" "$server_pid"
  wait "$server_pid"
  server_code=$?
  server_pid=
}

# await_line FILE PATTERN [COUNT]: waits, a minute at most, until that many lines
# of $work/FILE match. FILE is NAME.out or NAME.err of a process launched; tail
# follows it, without polling, for as long as the process lives.
await_line() {
  local count=${3:-1}
  checks=$((checks + 1))
  if [ "$(timeout 60 grep -E -m "$count" -c -- "$2" \
      <(tail -n +1 -f --pid="${pids[${1%.*}]}" "$work/$1"))" != "$count" ]; then
    failures=$((failures + 1))
    echo "FAILED: $1 never said '$2' $count times:"
    tail -n 20 "$work/$1" | sed 's/^/  | /'
  fi
}

# launch NAME FLAG...: a coteried of that name, with its output in NAME.out and
# NAME.err; waits until it listens; sets pids[NAME] and addresses[NAME].
launch() {
  local name=$1
  shift
  : >"$work/$name.out"
  server/coteried --http= "$@" >"$work/$name.out" 2>"$work/$name.err" &
  pids[$name]=$!
  await_line "$name.out" 'listening on'
  addresses[$name]=$(sed -n 's/.*listening on \([^,]*\),.*/\1/p' \
    "$work/$name.out")
}

# end NAME SIGNAL CODE: the process has to end with this code.
end() {
  local got
  kill "-$2" "${pids[$1]}"
  wait "${pids[$1]}" 2>/dev/null
  got=$?
  unset "pids[$1]"
  checks=$((checks + 1))
  if [ "$got" -ne "$3" ]; then
    failures=$((failures + 1))
    echo "FAILED: $1 ended with $got after SIG$2, expected $3"
    tail -n 5 "$work/$1.out" "$work/$1.err" | sed 's/^/  | /'
  fi
}

# expect WHAT COMMAND...: the command has to succeed.
expect() {
  local what=$1
  shift
  checks=$((checks + 1))
  if ! "$@" >"$work/out" 2>&1; then
    failures=$((failures + 1))
    echo "FAILED: $what"
    echo "  command: $*"
    sed 's/^/  | /' "$work/out" | head -30
  fi
}

# expect_code CODE WHAT COMMAND...: the command has to end with this code.
expect_code() {
  local code=$1 what=$2 got
  shift 2
  checks=$((checks + 1))
  "$@" >"$work/out" 2>"$work/err"
  got=$?
  if [ "$got" -ne "$code" ]; then
    failures=$((failures + 1))
    echo "FAILED: $what: exit code $got, expected $code"
    echo "  command: $*"
    sed 's/^/  | /' "$work/out" "$work/err" | head -30
  fi
}

# expect_text FILE PATTERN WHAT: the last command printed it (out or err).
expect_text() {
  checks=$((checks + 1))
  if ! grep -qE -- "$2" "$work/$1"; then
    failures=$((failures + 1))
    echo "FAILED: $3: nothing matches '$2' in:"
    sed 's/^/  | /' "$work/$1" | head -30
  fi
}

report() {
  [ "$checks" -gt 0 ] || { echo "no check ran"; exit 1; }
  echo "$((checks - failures)) of $checks checks hold"
  [ "$failures" -eq 0 ] || exit 1
}
