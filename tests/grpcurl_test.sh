#!/usr/bin/env bash
# grpcurl without any .proto: reflection lists and describes everything, and a
# search written by hand in JSON works.
. tests/process_lib.sh
grpcurl() { ./.deps/bin/grpcurl -plaintext -emit-defaults "$@"; }

start_server
expect_code 0 "list" grpcurl "$address" list
cp "$work/out" "$work/services"
for service in CollectionService PointService SearchService ClusterService; do
  expect "lists $service" grep -qx "coterie.v1.$service" "$work/services"
done
expect "lists health" grep -qx "grpc.health.v1.Health" "$work/services"
while read -r service; do
  expect_code 0 "list $service" grpcurl "$address" list "$service"
  cp "$work/out" "$work/methods"
  expect_code 0 "describe $service" grpcurl "$address" describe "$service"
  while read -r method; do
    expect_code 0 "describe $method" grpcurl "$address" describe "$method"
    for type in $(grep -oE '\.(coterie|grpc)[A-Za-z0-9_.]+' "$work/out"); do
      expect_code 0 "describe ${type#.}" grpcurl "$address" describe "${type#.}"
    done
  done <"$work/methods"
done <"$work/services"
# Messages of another .proto than the service's (grpcurl#433).
expect_code 0 "describe Filter" grpcurl "$address" describe coterie.v1.Filter

call() {
  grpcurl -d "$2" "$address" "coterie.v1.$1"
}
expect_code 0 "create" call CollectionService/CreateCollection \
  '{"collection": {"name": "points", "dimension": 2, "metric": "SQUARED_L2"}}'
expect_code 0 "upsert" call PointService/Upsert '{"collection": "points",
  "points": [
    {"id": 0, "vector": {"values": {"values": [0, 0]}}},
    {"id": "9007199254740993", "vector": {"values": {"values": [3, 4]}},
     "attributes": {"word": {"stringValue": "far"}}}]}'
expect_code 0 "search" call SearchService/Search '{"collection": "points",
  "queries": [{"vector": {"values": {"values": [0, 0]}}}], "k": 2,
  "withAttributes": {"all": true}}'
expect_text out '"id": "0"' "id 0 is shown (grpcurl#97)"
expect_text out '"distance": 0' "distance 0 is shown"
expect_text out '"id": "9007199254740993"' "all 64 bits of an id"
expect_text out '"distance": 25' "squared distance"
expect_text out '"string_?[vV]alue": "far"' "attributes"
expect_text out '"exact": true' "certified"
# Enum 0 is not a metric.
expect_code 67 "unset metric" call CollectionService/CreateCollection \
  '{"collection": {"name": "unset", "dimension": 2}}'
expect_text err 'metric' "names the field"
expect_code 0 "health" grpcurl "$address" grpc.health.v1.Health/Check
expect_text out 'SERVING' "serving"
stop_server TERM

start_server --noreflection
checks=$((checks + 1))
if grpcurl "$address" list >"$work/out" 2>&1; then
  failures=$((failures + 1)); echo "FAILED: reflection answers although it is off"
fi
stop_server TERM
report
