# For benchmarks: source from the top of the tree. `peers_python` is then the
# interpreter of a virtual environment with the peers of requirements.txt, made
# outside the tracked files when absent or out of date.
peers_python=.deps/bench-peers/bin/python

install_peers() {
  local wanted=bench/harness/requirements.txt
  local have=.deps/bench-peers/requirements.txt
  cmp -s "$wanted" "$have" && return
  echo "bench: installing $(tr '\n' ' ' <"$wanted")" >&2
  [ -x "$peers_python" ] || python3 -m venv .deps/bench-peers
  "$peers_python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$have"
}

# The line to repeat this run by, for the results.
bench_command() {  # NAME
  echo "${QUICK:+QUICK=$QUICK }${CASES:+CASES=$CASES }${CLOCK:+CLOCK=$CLOCK }make bench-$1"
}
