#!/usr/bin/env bash
# Replays what the fuzz targets and the random programs once found: tests/fuzz/corpus/TARGET/*, one process a target,
# and one a file where the whole fails, to name it.  Usage: tests/suite/corpus.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
passed=0; failed=0; skipped=0
flags=(-std=c11 -O1 -D_POSIX_C_SOURCE=200809L -I. -Iinclude)
grep -q "SPC_SANITIZE:BOOL=ON" "$build/CMakeCache.txt" && flags+=(-fsanitize=address,undefined)

for source in tests/fuzz/fuzz_*.c; do
  target=$(basename "$source" .c); target=${target#fuzz_}
  mapfile -t files < <(find "tests/fuzz/corpus/$target" -type f 2>/dev/null | sort)
  [ ${#files[@]} -gt 0 ] || { echo "skip: fuzz target $target has no corpus"; skipped=$((skipped + 1)); continue; }
  if ! gcc "${flags[@]}" "$source" tests/fuzz/run_small.c tests/fuzz/replay.c -o "$work/$target" -L"$build" -lspc-rooms -lz -lm -Wl,-rpath,"$(realpath "$build")" 2>"$work/log"; then
    head -n 20 "$work/log"; failed=$((failed + 1)); continue
  fi
  if timeout 60 "$work/$target" "${files[@]}" >"$work/log" 2>&1; then passed=$((passed + ${#files[@]})); continue; fi
  for file in "${files[@]}"; do
    if timeout 20 "$work/$target" "$file" >"$work/log" 2>&1; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "FAIL $file"; tail -n 8 "$work/log"; fi
  done
done

if "$build/tests/random-programs" tests/fuzz/corpus/random/*.spx >"$work/log" 2>&1; then :; else grep -v passed "$work/log"; fi
counts=$(grep -oE '^[0-9]+ passed, [0-9]+ failed' "$work/log" | tail -n 1)
[ -n "$counts" ] || { echo "FAIL random-programs did not finish"; counts="0 passed, 1 failed"; }
read -r p _ f _ <<<"$counts"
echo "$((passed + p)) passed, $((failed + f)) failed, $skipped skipped"
