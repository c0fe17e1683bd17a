#!/usr/bin/env bash
# Kernels, whole plans, examples and a part of the matrix on an emulated device (tests/emulator), where there is no GPU.
# Usage: emulated.sh BUILD
set -u
cd "$(dirname "$0")/../.."
if "$1/spc" doctor --json | grep -q '"what":"GPU","found":true'; then
  echo "skip: kernels on an emulated device: a GPU is here"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
SPC_GPU_BUILD=$1 OUT=$1/emulated script/test-emulated quick
