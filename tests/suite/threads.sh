#!/usr/bin/env bash
# The thread programs as they are built, on every back end that compiles here; script/test-sanitize runs them under the
# thread sanitizer.  Usage: threads.sh BUILD
set -u
build=$1 passed=0 failed=0 skipped=0
try() { if timeout 300 "$@"; then passed=$((passed+1)); else failed=$((failed+1)); echo "FAIL $*"; fi; }
try "$build/tests/thread-pool"
try "$build/tests/thread-compile" interp
if "$build/spc" doctor --json | grep -q '"what":"LLVM","found":true'; then
  try "$build/tests/thread-compile" cpu
  try env SPC_CACHE=off "$build/tests/thread-compile" cpu
else skipped=$((skipped+1)); echo "skip: background compiles for the CPU: LLVM is not in this build"; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
