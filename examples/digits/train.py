#!/usr/bin/env python3
"""Trains the network of this example: 64 -> 256 ReLU -> 10, with an L1 penalty on the hidden activations.

Needs NumPy only.  Reads digits.npy and labels.npy beside it, writes W1, bias1, W2, bias2 as float32 .npy files.
The penalty is what makes the hidden layer sparse: without it about half of the neurons are active."""
import os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
HIDDEN, EPOCHS, BATCH, RATE, PENALTY = 256, 60, 64, 2e-3, 1.2e-3


def load():
    images = np.load(os.path.join(HERE, "digits.npy")).astype(np.float32) / 16
    labels = np.load(os.path.join(HERE, "labels.npy")).astype(np.int64)
    return images[:1500], labels[:1500], images[1500:], labels[1500:]


def forward(x, p):
    h = np.maximum(x @ p["W1"] + p["bias1"], 0)
    return h, h @ p["W2"] + p["bias2"]


def gradients(x, y, p):
    h, logits = forward(x, p)
    e = np.exp(logits - logits.max(1, keepdims=True))
    d = e / e.sum(1, keepdims=True)
    d[np.arange(len(y)), y] -= 1
    d /= len(y)
    dh = (d @ p["W2"].T + PENALTY / len(y) * np.sign(h) * 10) * (h > 0)
    return {"W1": x.T @ dh, "bias1": dh.sum(0), "W2": h.T @ d, "bias2": d.sum(0)}


def main():
    rng = np.random.default_rng(0)
    x, y, x_test, y_test = load()
    p = {"W1": rng.normal(0, 0.15, (64, HIDDEN)), "bias1": np.zeros(HIDDEN),
         "W2": rng.normal(0, 0.08, (HIDDEN, 10)), "bias2": np.zeros(10)}
    m = {k: np.zeros_like(v) for k, v in p.items()}
    v = {k: np.zeros_like(q) for k, q in p.items()}
    step = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(x))
        for begin in range(0, len(x), BATCH):
            rows = order[begin:begin + BATCH]
            step += 1
            for k, g in gradients(x[rows], y[rows], p).items():  # Adam
                m[k] = 0.9 * m[k] + 0.1 * g
                v[k] = 0.999 * v[k] + 0.001 * g * g
                p[k] -= RATE * (m[k] / (1 - 0.9 ** step)) / (np.sqrt(v[k] / (1 - 0.999 ** step)) + 1e-8)
    h, logits = forward(x_test, p)
    print("test accuracy %.1f %%, active neurons %.1f %%" %
          (100 * (logits.argmax(1) == y_test).mean(), 100 * (h > 0).mean()))
    for name, value in p.items():
        np.save(os.path.join(HERE, name + ".npy"), value.astype(np.float32))


main()
