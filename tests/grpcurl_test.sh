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
# Every message and enum of every .proto (grpcurl#433).
expect_code 0 "names in the protos" /usr/bin/python3 -c '
import re, sys
for path in sys.argv[1:]:
    scope = ["coterie.v1"]
    for line in open(path):
        line = line.split("//")[0]
        named = re.match(r"\s*(?:message|enum)\s+(\w+)", line)
        if named:
            print(".".join([x for x in scope if x] + [named.group(1)]))
        for brace in re.findall("[{}]", line):
            if brace == "{":
                scope.append(named.group(1) if named else "")
            else:
                scope.pop()' api/v1/*.proto
cp "$work/out" "$work/types"
expect "there are many" [ "$(wc -l <"$work/types")" -gt 60 ]
expect "nested ones too" grep -q '^coterie\.v1\.[A-Z].*\.[A-Z]' "$work/types"
while read -r type; do
  expect_code 0 "describe $type" grpcurl "$address" describe "$type"
done <"$work/types"

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
# A reader that leaves zeros out: what is absent is 0.
expect_code 0 "search without defaults" ./.deps/bin/grpcurl -plaintext -d \
  '{"collection": "points", "k": 1,
    "queries": [{"vector": {"values": {"values": [0, 0]}}}]}' \
  "$address" coterie.v1.SearchService/Search
cp "$work/out" "$work/absent"
expect "absent is 0" /usr/bin/python3 -c '
import json, sys
hit = json.load(open(sys.argv[1]))["results"][0]["hits"][0]
assert int(hit.get("id", 0)) == 0 and hit.get("distance", 0) == 0, hit' \
  "$work/absent"
# Enum 0 is not a metric.
expect_code 67 "unset metric" call CollectionService/CreateCollection \
  '{"collection": {"name": "unset", "dimension": 2}}'
expect_text err 'metric' "names the field"
expect_code 0 "health" grpcurl "$address" grpc.health.v1.Health/Check
expect_text out 'SERVING' "serving"
stop_server TERM

start_server --noreflection
expect_code 1 "list without reflection" grpcurl "$address" list
expect_text err 'does not support the reflection API' "is UNIMPLEMENTED"
stop_server TERM
report
