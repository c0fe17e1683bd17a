#!/usr/bin/env bash
# Faults planted in a kernel that the compiler printed: the command has to say so.  Usage: wrong_kernel.sh SPC, where an emulated
# device (or a GPU) is.
set -u
spc=$1 source=$(dirname "$0")/shifted.spx passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# NAME, the edit, what has to stand in what `spc check` says ("" where it has to pass)
planted() {
  local text status
  rm -rf "$work/edited"
  "$spc" compile "$source" --target="${SPC_GPU_TARGET:-sm_90a}" -D N=1000 --emit=cuda -o "$work/edited/" >/dev/null
  sed -i "$2" "$work"/edited/*.cuda
  text=$(SPC_OVERRIDE_DIR=$work/edited timeout 60 "$spc" check "$source" --backend=cuda 2>&1)
  status=$?
  if [ $((status != 0)) = $((${#3} > 0)) ] && grep -q "${3:-1 passed}" <<<"$text"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAIL %s: exit %d\n%s\n' "$1" $status "$text"
  fi
}

planted "a kernel that says the same in other words" 's/3.0f) + 1.0f/3.0f + 1.0f)/' ''
planted "a wrong constant" 's/+ 1.0f/+ 1.5f/' 'FAIL'
planted "a result that is not written" 's/y_vals\[i\] = /if (i != 999) y_vals[i] = /' 'FAIL'
planted "a store beyond the end" 's/y_vals\[i\] = /y_vals[i + 1] = /' 'beyond the end of an allocation'
planted "a barrier that one warp does not reach" 's/    {$/    { if (threadIdx.x < 96) asm volatile("bar.sync 1, 128;");/' 'deadlock'
echo "$passed passed, $failed failed"
[ $failed = 0 ]
