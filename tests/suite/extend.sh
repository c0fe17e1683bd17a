#!/usr/bin/env bash
# The promise of docs/extending.md, kept: one row of ops.def makes an op on every back end, one file and one row a pass.
# Usage: extend.sh BUILD
set -u
cd "$(dirname "$0")/../.."
build=$(realpath "$1") tmp=$(mktemp -d) passed=0 failed=0 skipped=0
trap 'rm -rf "$tmp"' EXIT
check() { local what=$1; shift; if "$@" >"$tmp/log" 2>&1; then passed=$((passed+1)); else failed=$((failed+1)); echo "FAIL $what"; sed 's/^/     /' "$tmp/log" | tail -n 25; fi; }
refused() { local what=$1; shift; if "$@" >"$tmp/log" 2>&1; then failed=$((failed+1)); echo "FAIL $what: it passed"; elif grep -q "$saying" "$tmp/log"; then passed=$((passed+1)); else failed=$((failed+1)); echo "FAIL $what: it does not say \`$saying\`"; tail -n 15 "$tmp/log"; fi; }
skip() { skipped=$((skipped+1)); echo "skip: $*"; }
finish() { echo "$passed passed, $failed failed, $skipped skipped"; [ $failed = 0 ]; exit; }
if ! command -v ninja >/dev/null || [ ! -e "$build/build.ninja" ]; then skip "extending: the build is not Ninja's"; finish; fi

check "the rooms build with one more op and one more pass" python3 tests/extend/build.py "$build" "$tmp/x" \
  '-DSPC_EXTRA_OPS="tests/extend/softsign.def"' '-DSPC_EXTRA_PASSES="tests/extend/strength.def"' tests/extend/pass_strength.c
[ $failed = 0 ] || finish
spc=$tmp/x/spc
found() { "$spc" doctor --json | grep -q "{\"what\":\"$1\",\"found\":true"; }

# The op: its place in the tables, its self-checks, then every way of running it.
check "spc show ops has the row and its pattern" sh -c "$spc show ops | grep -E '\`softsign\` .*\| keep +\|'"
check "spc show passes has the row" sh -c "$spc show passes | grep '| 12 | \`strength\`'"
for room in ir codegen; do
  if [ -e "$tmp/x/unit-$room" ]; then check "the op table checks itself ($room)" "$tmp/x/unit-$room"; else skip "op table self-checks ($room): Criterion is not here"; fi
done
check "softsign.spx on the interpreter" "$spc" check tests/extend/softsign.spx --backend=interp
if found LLVM; then check "softsign.spx on the CPU" "$spc" check tests/extend/softsign.spx --backend=cpu; else skip "softsign on the CPU: no LLVM"; fi
loops() { # the lowered program in the interpreter prints what the program as written does
  local kernel=$1; shift
  local run="$spc run tests/extend/softsign.spx --kernel $kernel --backend=interp $*"
  "$spc" opt tests/extend/softsign.spx --kernel "$kernel" --target=cpu > "$tmp/$kernel.ir" &&
    $run > "$tmp/want" && ${run/tests\/extend\/softsign.spx/$tmp\/$kernel.ir} > "$tmp/got" && diff "$tmp/want" "$tmp/got" && grep -q '^y:' "$tmp/got"
}
check "floats in the loop interpreter" loops floats -D N=37 --bind x=rand:1
check "integers in the loop interpreter" loops integers -D N=37 --bind n=rand:2
check "sparse in the loop interpreter" loops sparse -D M=9 -D N=14 --bind S=zeros:0.2:1x1:3
check "chosen in the loop interpreter" loops chosen -D N=37 --bind x=rand:4
if found NVRTC; then check "softsign.spx through NVRTC" "$spc" compile tests/extend/softsign.spx --target=sm_90a --emit=cubin -o "$tmp/cubin/"
else check "softsign.spx to CUDA text" "$spc" compile tests/extend/softsign.spx --target=sm_90a --emit=cuda -o "$tmp/cuda/"; skip "softsign through NVRTC: it is not here"; fi

# The pass, and both in the dumps.
lit=$(ls /usr/lib/llvm-*/build/utils/lit/lit.py 2>/dev/null | head -n 1)
if [ -n "$lit" ]; then check "text tests of the op and the pass" env SPC_BUILD="$tmp/x" LD_LIBRARY_PATH= python3 "$lit" -q tests/extend
else skip "text tests of the op and the pass: lit and FileCheck are not here"; fi

# Rows that are wrong fail the table's own tests.
if [ -e "$build/tests/unit-ir" ]; then
  saying='wrong(0, 0)'
  check "the rooms build with a wrong zero rule" python3 tests/extend/build.py "$build" "$tmp/w" '-DSPC_EXTRA_OPS="tests/extend/wrong_zero.def"'
  refused "a wrong zero rule" "$tmp/w/unit-ir"
  saying='an operand that the op does not have'
  check "the rooms build with an unsound spelling" python3 tests/extend/build.py "$build" "$tmp/s" '-DSPC_EXTRA_OPS="tests/extend/wrong_spelling.def"'
  refused "an unsound spelling" "$tmp/s/unit-ir" --filter 'ir_spelling/spelled*'
fi
finish
