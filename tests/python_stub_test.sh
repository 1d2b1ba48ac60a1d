#!/usr/bin/env bash
# Stubs generated from the protos with the system's tools can search.
. tests/process_lib.sh

mkdir -p "$work/stubs"
expect "generate" protoc -I. -Iexternal/googleapis \
  --python_out="$work/stubs" \
  --plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin \
  --grpc_python_out="$work/stubs" api/v1/types.proto api/v1/collections.proto \
  api/v1/points.proto api/v1/search.proto google/rpc/status.proto
start_server
expect_code 0 "search from Python" env PYTHONDONTWRITEBYTECODE=1 \
  /usr/bin/python3 tests/python_stub_search.py "$address" "$work/stubs"
expect_text out 'orange' "prints the nearest colour"
stop_server TERM
report
