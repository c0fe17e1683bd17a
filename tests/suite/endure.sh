#!/usr/bin/env bash
# What an engine does to the library for months, in seconds: tests/suite/endure.c; its allocator: allocator.c; without memory: nomemory.c; tiers on CUDA: tiers.c; captures beside it: captures.c.
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
# With LLVM: what our own sources ask for, by the places that call (the library's line table tells).
gcc -std=gnu11 -O1 -Iinclude tests/suite/nomemory.c -o "$tmp/nomemory" -L "$build" -lspc -ldl || exit 1
own_sites() { # of what a life asks for
  SPC_CACHE_DIR=$tmp/cache "$tmp/nomemory" "$1" sites | sort -u >"$tmp/sites"
  xargs addr2line -e "$build/libspc.so" <"$tmp/sites" | paste "$tmp/sites" - | grep -E '/(ir|frontend|passes|codegen|runtime|driver)/[a-z0-9_]+\.c' | cut -f1
}
for backend in ${backends#interp}; do
  SPC_CACHE=off own_sites $backend >"$tmp/own"; own_sites $backend >>"$tmp/own"; sites=$(sort -u "$tmp/own")
  if [ -z "$sites" ]; then skipped=$((skipped+1)); echo "skip: memory ($backend): the library has no line table"; continue; fi
  check "memory ($backend), compiling" env SPC_CACHE=off "$tmp/nomemory" $backend $sites
  check "memory ($backend), from the cache" env SPC_CACHE_DIR="$tmp/cache" "$tmp/nomemory" $backend $sites
done
gcc -std=gnu11 -O1 -Iinclude tests/suite/allocator.c -o "$tmp/allocator" -L "$build" -lspc || exit 1
for backend in $backends; do check "allocator ($backend)" "$tmp/allocator" $backend; done
if "$build/spc" doctor --json | grep -q '"what":"NVRTC","found":true'; then
  gcc -std=gnu11 -O1 -shared -fPIC -I. -Iinclude tests/suite/fake_driver.c -o "$tmp/libfake_driver.so" || exit 1
  check "allocator (cuda, a driver without memory)" env SPC_CUDA_LIB="$tmp/libfake_driver.so" FAKE_MEMORY=none "$tmp/allocator" cuda
  gcc -std=gnu11 -O1 -Iinclude tests/suite/tiers.c -o "$tmp/tiers" -L "$build" -lspc -lpthread || exit 1
  check "tiers (cuda, a driver that does nothing)" env SPC_CUDA_LIB="$tmp/libfake_driver.so" SPC_CACHE=on SPC_CACHE_DIR="$tmp/tiers.cache" "$tmp/tiers"
  check "tiers, without cuBLASLt" env SPC_CUDA_LIB="$tmp/libfake_driver.so" SPC_CUBLASLT_LIB=/none SPC_CACHE=on SPC_CACHE_DIR="$tmp/tiers.cache2" "$tmp/tiers"
  gcc -std=gnu11 -O1 -Iinclude tests/suite/captures.c -o "$tmp/captures" -L "$build" -lspc -lpthread -ldl || exit 1
  check "captures beside plans (cuda, a driver that does nothing)" env SPC_CUDA_LIB="$tmp/libfake_driver.so" SPC_CUBLASLT_LIB=/none "$tmp/captures"
else skipped=$((skipped+1)); echo "skip: the allocator's device memory, tiers and captures on CUDA: NVRTC is not here"; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
