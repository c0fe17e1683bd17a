#!/usr/bin/env bash
# Installs into an empty folder; a C and a C++ program find the library by pkg-config and CMake and use it; the library
# needs nothing but libc, libm, libz and the loader.  Usage: install.sh BUILD
set -u
cd "$(dirname "$0")/../.."
build=$1 tmp=$(mktemp -d) passed=0 failed=0 skipped=0
trap 'rm -rf "$tmp"' EXIT
check() { local what=$1; shift; if "$@" >"$tmp/log" 2>&1; then passed=$((passed+1)); else failed=$((failed+1)); echo "FAIL $what"; sed 's/^/     /' "$tmp/log" | tail -n 15; fi; }
check "cmake --install" cmake --install "$build" --prefix "$tmp/usr"
lib=$(dirname "$(find "$tmp/usr" -name 'libspc.so' | head -n 1)")
cat > "$tmp/use.c" <<'C'
#include <spc.h>
#include <stdio.h>
#include <string.h>
int main(void) {
  const char *text = "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = 2 * x[i]; }";
  spc_context *c = 0; spc_program *p = 0; spc_plan *plan = 0; spc_error err = SPC_ERROR_INIT;
  float x[3] = {1, 2, 3}, y[3] = {0, 0, 0};
  spc_tensor t[2];
  memset(t, 0, sizeof t);
  for (int i = 0; i < 2; i++) { t[i].struct_size = sizeof t[i]; t[i].dtype = "f32"; t[i].rank = 1; t[i].shape[0] = 3; t[i].value_count = 3; }
  t[0].name = "x"; t[0].values = x; t[1].name = "y"; t[1].values = y;
  if (spc_context_new(0, &c, &err) || spc_program_from_text(c, text, strlen(text), 0, &p, &err) ||
      spc_plan_new(p, 0, 0, 0, &plan, &err) || spc_run(plan, t, 2, &err)) { puts(err.message); puts(err.diagnostics); return 1; }
  spc_plan_free(plan); spc_program_free(p); spc_context_free(c);
  return !(y[0] == 2 && y[1] == 4 && y[2] == 6);
}
C
cp "$tmp/use.c" "$tmp/use.cpp"
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib
if command -v pkg-config >/dev/null; then
  check "a C99 program builds by pkg-config" sh -c "gcc -std=c99 -Wall -Wextra -Wpedantic -Werror $tmp/use.c -o $tmp/use \$(pkg-config --cflags --libs spc)"
  check "and runs" "$tmp/use"
  check "a C++ program builds" sh -c "g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror $tmp/use.cpp -o $tmp/usepp \$(pkg-config --cflags --libs spc)"
  check "and runs" "$tmp/usepp"
  for standard in 11 17 20; do
    check "the C++ wrapper builds as C++$standard" sh -c "g++ -std=c++$standard -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror examples/cpp/scores.cpp -o $tmp/scores \$(pkg-config --cflags --libs spc)"
    check "and runs" sh -c "$tmp/scores interp | tee $tmp/log | grep -q 'interp: 201 0 0' && grep -q 'error.E0201' $tmp/log"
  done
  if command -v clang++ >/dev/null; then
    check "the C++ wrapper builds with clang" sh -c "clang++ -std=c++11 -Wall -Wextra -Wpedantic -Werror examples/cpp/scores.cpp -o $tmp/scores \$(pkg-config --cflags --libs spc)"
  fi
  check "every part of the C++ wrapper builds" sh -c "g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror tests/unit/wrapper.cpp -o $tmp/wrapper \$(pkg-config --cflags --libs spc)"
  check "and does what it says" "$tmp/wrapper"
  check "the engine of the examples builds" sh -c "gcc -std=c11 -Wall -Wextra -Wpedantic -Werror examples/engine/engine.c -o $tmp/engine \$(pkg-config --cflags --libs spc)"
  if "$tmp/usr/bin/spc" doctor --json | grep -q '"what":"LLVM","found":true'; then
    check "and serves batches that change" sh -c "$tmp/engine examples/ffn.spx | tee $tmp/log | grep -q '33 tokens: 8448 of 8448'"
  else skipped=$((skipped+1)); echo "skip: the engine runs on the CPU, and LLVM is not in this build"; fi
else skipped=$((skipped+1)); echo "skip: pkg-config is not here"; fi
printf 'cmake_minimum_required(VERSION 3.16)\nproject(u C CXX)\nfind_package(spc REQUIRED)\nadd_executable(u use.c)\ntarget_link_libraries(u spc::spc)\n' > "$tmp/CMakeLists.txt"
check "find_package(spc)" sh -c "cmake -S $tmp -B $tmp/b $(command -v make >/dev/null || echo -G Ninja) -DCMAKE_PREFIX_PATH=$tmp/usr && cmake --build $tmp/b && $tmp/b/u"
check "the installed command runs" "$tmp/usr/bin/spc" --version
if grep -q 'SPC_LLVM_MODE=.*SHARED\|LLVM: .*SHARED' "$build.log" 2>/dev/null || [ -n "$(find "$build" -maxdepth 1 -name 'libspc.so' -exec ldd {} + 2>/dev/null | grep -i 'libLLVM\|asan')" ]; then
  skipped=$((skipped+1)); echo "skip: library dependencies: this build links a shared LLVM or a sanitizer"
else
  check "libspc.so needs only the system's libraries" sh -c "! ldd $lib/libspc.so | grep -viE 'linux-vdso|libc\.so|libm\.so|libz\.so|libdl|libpthread|ld-linux|librt|libgcc_s|libstdc'"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
