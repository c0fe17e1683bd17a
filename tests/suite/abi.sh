#!/usr/bin/env bash
# The binary interface: symbols have versions, programs of older headers run with the library of today, the header is C99
# and C++ clean.  Usage: abi.sh BUILD
set -u
cd "$(dirname "$0")/../.."
build=$1 tmp=$(mktemp -d) passed=0 failed=0 skipped=0
trap 'rm -rf "$tmp"' EXIT
check() { local what=$1; shift; if "$@" >"$tmp/log" 2>&1; then passed=$((passed+1)); else failed=$((failed+1)); echo "FAIL $what"; sed 's/^/     /' "$tmp/log" | tail -n 15; fi; }
skip() { skipped=$((skipped+1)); echo "skip: $1"; }
export LD_LIBRARY_PATH=$build
nm -D --defined-only "$build/libspc.so" | awk '$2 != "A" {print $3}' >"$tmp/symbols"
check "every symbol has a version" sh -c "! grep -vE '^spc_[a-z_]+@@SPC_[0-9.]+\$' $tmp/symbols"
check "the version is one that the library defines" sh -c "readelf -V $build/libspc.so | grep -q 'Name: SPC_0.1'"
grep -oE 'SPC_API [^;(]*\b(spc_[a-z_]+)\(' include/spc.h | grep -oE 'spc_[a-z_]+\($' | tr -d '(' | sort -u >"$tmp/declared"
cut -d@ -f1 "$tmp/symbols" | sort -u >"$tmp/exported"
check "what the header declares is what the library exports" diff "$tmp/declared" "$tmp/exported"
backends=interp
"$build/spc" doctor --json | grep -q '"what":"LLVM","found":true' && backends="interp cpu" || skip "programs of older headers on the CPU: LLVM is not in this build"
for folder in tests/abi/*/; do
  name=$(basename "$folder")
  check "a program of the header $name builds" gcc -std=c11 -Wall -Wextra -Werror -I "$folder" tests/abi/old_program.c -o "$tmp/$name" -L "$build" -lspc
  check "it asks for the version that it was linked with" sh -c "readelf -V $tmp/$name | grep -q 'Name: SPC_0.1'"
  for backend in $backends; do check "it runs with the library of today ($backend)" "$tmp/$name" $backend; done
  grep -oE 'SPC_API [^;(]*\b(spc_[a-z_]+)\(' "$folder/spc.h" | grep -oE 'spc_[a-z_]+\($' | tr -d '(' | sort -u >"$tmp/old"
  check "no function of $name is gone" sh -c "! comm -23 $tmp/old $tmp/exported | grep ."
done
printf '#include <spc.h>\nint main(void) { return SPC_OK; }\n' >"$tmp/c.c"
check "the header is C99" gcc -std=c99 -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror -I include "$tmp/c.c" -o "$tmp/c"
cp "$tmp/c.c" "$tmp/c.cpp"
check "the header is C++98" g++ -std=c++98 -Wall -Wextra -Wpedantic -Wno-long-long -Werror -I include "$tmp/c.cpp" -o "$tmp/cpp"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
