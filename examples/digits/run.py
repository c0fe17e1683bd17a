#!/usr/bin/env python3
"""Runs digits.spx through the `spc` command on the 297 images that training did not see.

Usage: run.py SPC [more options of `spc run`]; needs NumPy.  Prints accuracy and measured sparsity."""
import os, subprocess, sys, tempfile
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    images = np.load(os.path.join(HERE, "digits.npy"))[1500:]
    labels = np.load(os.path.join(HERE, "labels.npy"))[1500:]
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name + ".npy")
        np.save(path("x"), images)
        binds = ["--bind=x=" + path("x")] + ["--bind=%s=%s" % (n, os.path.join(HERE, n + ".npy")) for n in ("W1", "bias1", "W2", "bias2")]
        outs = ["--out=%s=%s" % (n, path(n)) for n in ("digit", "active")]
        subprocess.run([sys.argv[1], "run", os.path.join(HERE, "digits.spx")] + binds + outs + sys.argv[2:], check=True)
        digit, active = np.load(path("digit")), np.load(path("active"))
    print("digits: %d images, accuracy %.1f %%, active neurons %.1f of 256 (%.1f %%)" %
          (len(labels), 100 * (digit == labels).mean(), active.mean(), 100 * active.mean() / 256))


main()
