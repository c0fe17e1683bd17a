#!/usr/bin/env bash
# What only a GPU can tell: kernels, whole plans, compute-sanitizer.  Examples, matrix and the other suites run on it anyway.
# Usage: gpu.sh BUILD
set -u
cd "$(dirname "$0")/../.."
if ! "$1/spc" doctor --json | grep -q '"what":"GPU","found":true'; then
  echo "skip: kernels, plans and compute-sanitizer on a GPU: no GPU here"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
SPC_GPU_BUILD=$1 OUT=$1/gpu script/test-gpu parts plan check sanitize
