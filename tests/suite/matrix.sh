#!/usr/bin/env bash
# Expression x format x dtype x shape class x pipeline against the interpreter; on the GPU too where there is one.
# Usage: matrix.sh BUILD [GROUPS]
set -u
build=$1 groups=${2:-${SPC_MATRIX_GROUPS:-1400}} passed=0 failed=0 skipped=0
for target in cpu sm_90a; do
  [ $target = sm_90a ] && groups=$((groups / 4))
  out=$("$build/tests/matrix" --groups "$groups" --target $target)
  echo "$out" | sed '$d'
  read -r p f s < <(echo "$out" | tail -n 1 | sed -E 's/([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?/\1 \2 \4/')
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${s:-0}))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
