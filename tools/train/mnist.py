#!/usr/bin/env python3
"""A training step of a convolutional network for MNIST, as JAX derives it and as Brolga does, for `tools/peers/peers.py`.

  mnist.py OUT [--training-step target/release/training-step]

Writes a folder of workloads: `mnist_jax.hlo` is the step that `jax.value_and_grad` derives, `mnist_brolga.hlo` the one that
the program `training-step` makes of the loss alone (`mnist_loss.hlo`). Both take the parameters, 32 pictures and their labels,
and give the loss and the parameters after one step along the gradient. Needs numpy and jax (0.10)."""
import argparse
import json
import os
import pathlib
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")

RATE = 0.01
# The kernels and offsets of two convolutions, then of two dense layers: sizes and the deviation of the initial values.
PARAMETERS = [
    ((5, 5, 1, 32), 0.1), ((32,), 0.1), ((5, 5, 32, 64), 0.03), ((64,), 0.1),
    ((3136, 128), 0.02), ((128,), 0.1), ((128, 10), 0.1), ((10,), 0.1),
]


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def loss(parameters, pictures, labels):
    k1, b1, k2, b2, w3, b3, w4, b4 = parameters
    conv = lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    h = pool(jax.nn.relu(conv(pictures, k1) + b1))
    h = pool(jax.nn.relu(conv(h, k2) + b2))
    h = jax.nn.relu(h.reshape(h.shape[0], -1) @ w3 + b3)
    return -jnp.mean(jnp.sum(labels * jax.nn.log_softmax(h @ w4 + b4), axis=1))


def step(parameters, pictures, labels):
    value, gradients = jax.value_and_grad(loss)(parameters, pictures, labels)
    return value, [p - RATE * g for p, g in zip(parameters, gradients)]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out", type=pathlib.Path)
    ap.add_argument("--training-step", default="target/release/training-step")
    a = ap.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(28)
    parameters = [(rng.standard_normal(dims) * scale).astype(np.float32) for dims, scale in PARAMETERS]
    pictures = rng.standard_normal((32, 28, 28, 1)).astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 32)]
    inputs = (parameters, pictures, labels)
    lowered = {name: jax.jit(f, keep_unused=True).lower(*inputs) for name, f in [("loss", loss), ("jax", step)]}
    for name, program in lowered.items():
        text = program.compiler_ir(dialect="hlo").as_hlo_text(print_large_constants=True)
        (a.out / f"mnist_{name}.hlo").write_text(text)
    derive = [a.training_step, a.out / "mnist_loss.hlo", "--parameters", str(len(parameters)), "--rate", str(RATE)]
    (a.out / "mnist_brolga.hlo").write_bytes(subprocess.run(derive, check=True, stdout=subprocess.PIPE).stdout)

    arrays = {"in": jax.tree.leaves(inputs), "out": [np.asarray(o) for o in jax.tree.leaves(lowered["jax"].compile()(*inputs))]}
    describe = lambda kind: [{"shape": list(array.shape), "dtype": "f32"} for array in arrays[kind]]
    entry = {"inputs": describe("in"), "outputs": describe("out")}
    for kind, values in arrays.items():
        for i, array in enumerate(values):
            for name in ("mnist_jax", "mnist_brolga"):
                np.save(a.out / f"{name}.{kind}{i}.npy", array)
    (a.out / "manifest.json").write_text(json.dumps({"mnist_brolga": entry, "mnist_jax": entry}, indent=1) + os.linesep)


if __name__ == "__main__":
    main()
