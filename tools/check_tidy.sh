#!/usr/bin/env bash
# clang-tidy with the allow-list of .clang-tidy. Arguments: files (default: all).
set -euo pipefail
cd "$(dirname "$0")/.."
bazel build --noshow_progress //api/v1/... @googleapis//... >/dev/null 2>&1
files=("$@")
[ ${#files[@]} -gt 0 ] ||
  mapfile -t files < <(git ls-files 'api/*.cc' 'index/*.cc' 'shard/*.cc' \
    'coordinator/*.cc' 'server/*.cc' 'client/*.cc' | grep -vE '_(test|fuzz)\.cc$')
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy --quiet \
  --extra-arg=-Wno-unknown-warning-option -- -std=c++20 -I. \
  -isystem bazel-bin -isystem bazel-bin/external/googleapis 2>/dev/null
echo "tidy: ok (${#files[@]} files)"
