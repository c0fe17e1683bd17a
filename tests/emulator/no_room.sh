#!/usr/bin/env bash
# Blocks that wait for one another and do not find room together: they say dense, and the result is right.  Usage: no_room.sh SPC, where an emulated device is.
set -u
spc=$1 source=$(dirname "$0")/no_room.spx passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lists="$work/lists.profile" # strips of 64 in pairs are faster than anything else
printf '%s_us = 0.01\n' launch start sample skipped move pair_list pair_tile >"$lists"
printf 'floor_odds = 0\nwgmma16_tflops = 1\nmma16_tflops = 1\n' >>"$lists"
for rate in tma_128x256 tma_128x128 tma_128x224 tma_128x192 tma_128x176 tma_128x160 kpack_tma_128 kblock_tma_128 rblock_tma_128; do printf 'rate %s = 1\n' "$rate" >>"$lists"; done
options=("--profile=$lists" --force-guard=sparse)

# NAME, multiprocessors, what ran of the two branches; SPC_OVERRIDE_DIR: kernels that take fewer looks
runs() {
  local checked text
  checked=$(SPC_EMULATED_UNITS=$2 timeout 60 "$spc" check "$source" --backend=cuda "${options[@]}" 2>&1)
  text=$(SPC_EMULATED_UNITS=$2 timeout 60 "$spc" run "$source" --backend=cuda "${options[@]}" --bind h=rand:1 --bind W=rand:2 --out "y=$work/y.npy" "--stats=$work/stats.json" 2>&1; cat "$work/stats.json")
  if grep -q '^1 passed' <<<"$checked" && grep -q "\"kernel\":\"gemm_kpackpair_tma_128x256x64\",\"ran\":$3" <<<"$text"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAIL %s\n%s\n%s\n' "$1" "$checked" "$text"
  fi
}

runs "blocks that find room" 16 true
"$spc" compile "$source" --target=sm_90a "--profile=$lists" --emit=cuda -o "$work/edited/" >/dev/null
sed -i '1i #define SPC_MOST_LOOKS 256' "$work"/edited/k.detect.h-*.cuda
export SPC_OVERRIDE_DIR=$work/edited
runs "blocks that do not, on two multiprocessors" 2 false
echo "$passed passed, $failed failed"
[ $failed = 0 ]
