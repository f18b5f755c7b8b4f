#!/usr/bin/env bash
# Builds the libFuzzer targets (preset fuzz, clang) and runs each on its committed corpus.
#
#   tools/fuzz.sh SECONDS [NAME...]     default: every target
#
# New inputs and crashes are written under build/fuzz/found/NAME, never into the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($# < 1)) || ! [[ $1 =~ ^[1-9][0-9]*$ ]]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
seconds=$1
shift

cmake --preset fuzz --log-level=WARNING >/dev/null
cmake --build --preset fuzz -j "$(nproc)" --target fuzzers
mapfile -t names <build/fuzz/tests/fuzz/targets.txt
if (($#)); then names=("$@"); fi

# Runs one target with its log aside, and shows the log where that failed.
fuzz_one() {
  local name=$1 found=build/fuzz/found/$1
  mkdir -p "$found"
  if build/fuzz/tests/fuzz/"${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$found/" "$found" "tests/fuzz/corpus/$name" \
    >"$found.log" 2>&1; then
    echo "fuzz $name: passed, $(sed -n 's/^stat::number_of_executed_units: *//p' "$found.log") runs in $seconds s"
  else
    cat "$found.log"
    echo "fuzz $name: FAILED, its input lies in $found"
    return 1
  fi
}
export -f fuzz_one
export seconds

printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz_one {}'
