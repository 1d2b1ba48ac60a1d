#!/usr/bin/env bash
# libFuzzer over every fuzz target, SECONDS each, starting from its committed
# corpus. New inputs stay in a temporary folder; a crash is printed and kept in
# the working folder as crash-*. Needs clang with its runtime.
#   tools/fuzz.sh [SECONDS] [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(bazel query \
  --noshow_progress 'filter("_fuzz_test$", tests(//...))' 2>/dev/null)
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: no targets"; exit 1; }

bazel build --noshow_progress --config=fuzz "${targets[@]}"
for target in "${targets[@]}"; do
  package=${target#//}
  package=${package%%:*}
  name=${target##*:}
  corpus=$(find "$package" -type d -path "*corpus*" -name "*${name%_fuzz_test}*" | head -1)
  fresh=$(mktemp -d)
  echo "== $target: ${seconds}s, corpus ${corpus:-none}"
  binary=$(bazel cquery --noshow_progress --config=fuzz --output=files "$target" 2>/dev/null | head -1)
  "$binary" -max_total_time="$seconds" -print_final_stats=1 "$fresh" ${corpus:+"$corpus"} 2>&1 |
    grep -E 'ERROR|SUMMARY|stat::number_of_executed_units|stat::new_units' || true
  rm -rf "$fresh"
done
