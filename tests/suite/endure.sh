#!/usr/bin/env bash
# What an engine does to the library for months, in seconds: tests/suite/endure.c, and its allocator: allocator.c.
# Usage: endure.sh BUILD
# `script/test-sanitize` runs its threads under the thread sanitizer.
set -u
cd "$(dirname "$0")/../.."
build=$(cd "$1" && pwd) tmp=$(mktemp -d) passed=0 failed=0 skipped=0
trap 'rm -rf "$tmp"' EXIT
export LD_LIBRARY_PATH=$build
check() {
  local what=$1; shift
  if timeout 300 "$@" >"$tmp/log" 2>&1; then passed=$((passed+1)); echo "$what: $(tail -n 1 "$tmp/log")"
  else failed=$((failed+1)); echo "FAIL $what"; tail -n 10 "$tmp/log"; fi
}
gcc -std=gnu11 -O1 -Iinclude tests/suite/endure.c -o "$tmp/endure" -L "$build" -lspc -ldl -lpthread || exit 1
backends=interp
if "$build/spc" doctor --json | grep -q '"what":"LLVM","found":true'; then backends="interp cpu"
else skipped=$((skipped+1)); echo "skip: on the CPU: LLVM is not in this build"; fi
if "$build/spc" doctor --json | grep -q '"what":"GPU","found":true'; then echo "note: a GPU is here; this part runs on the CPU"; fi
for backend in $backends; do
  for what in runs contexts fork threads; do check "$what ($backend)" "$tmp/endure" $what $backend; done
  check "reload ($backend)" "$tmp/endure" reload $backend "$build/libspc.so"
done
check "memory (interp)" "$tmp/endure" memory interp
gcc -std=gnu11 -O1 -Iinclude tests/suite/allocator.c -o "$tmp/allocator" -L "$build" -lspc || exit 1
for backend in $backends; do check "allocator ($backend)" "$tmp/allocator" $backend; done
if "$build/spc" doctor --json | grep -q '"what":"NVRTC","found":true'; then
  gcc -std=gnu11 -O1 -shared -fPIC -I. -Iinclude tests/suite/fake_driver.c -o "$tmp/libfake_driver.so" || exit 1
  check "allocator (cuda, a driver without memory)" env SPC_CUDA_LIB="$tmp/libfake_driver.so" FAKE_MEMORY=none "$tmp/allocator" cuda
else skipped=$((skipped+1)); echo "skip: the allocator's device memory: NVRTC is not here"; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
