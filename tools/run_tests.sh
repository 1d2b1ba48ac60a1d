#!/usr/bin/env bash
# Runs the test suite and closes with "N passed, N failed".
#   --long          the long tier (targets tagged "long")
#   --config=asan   AddressSanitizer and UBSan
#   --config=tsan   ThreadSanitizer, over tests with threads (of code that locks,
#                   or named below), without gRPC and protobuf: the prebuilt
#                   libraries are not instrumented
set -uo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  --long) mapfile -t targets < <(bazel query --noshow_progress \
    'attr(tags, "\blong\b", tests(//...))' 2>/dev/null); flags=() ;;
  --config=tsan) mapfile -t targets < <(bazel query --noshow_progress \
    'tests(//...)
     intersect (rdeps(//..., //sync:mutex) union set(
       //api:byte_budget_test //api:call_test //index:certified_scanner_test
       //index:exact_scan_test //index:lsh_test //index:tree_test
       //training:kmeans_test //training:sgd_update_test))
     except attr(tags, manual, //...)
     except rdeps(//..., @system//:grpc + @system//:protobuf)' \
    2>/dev/null); flags=(--config=tsan --build_tests_only) ;;
  --config=*) targets=(//...); flags=("$1" --build_tests_only) ;;
  *) targets=(//...); flags=() ;;
esac

log=$(mktemp)
bazel test --noshow_progress --keep_going "${flags[@]}" "${targets[@]}" 2>&1 | tee "$log"
code=${PIPESTATUS[0]}
passed=$(grep -cE '^//\S+ .*PASSED' "$log")
failed=$(grep -cE '^//\S+ .*(FAILED|TIMEOUT|NO STATUS)' "$log")
rm -f "$log"
[ "$code" -ne 0 ] && [ "$failed" -eq 0 ] && failed=1
[ "$((passed + failed))" -eq 0 ] && { echo "no test ran"; exit 1; }
echo "$passed passed, $failed failed"
exit "$code"
