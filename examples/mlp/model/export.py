#!/usr/bin/env python3
"""Writes mlp.hlo, input.txt and expected.txt beside this file: a small multilayer perceptron as JAX exports it, an
input, and what XLA:CPU makes of it. Needs `pip install jax` (0.10.2 was used).

The weights are constants of the module, so that the compiled object holds the whole model."""
import pathlib
import jax
import jax.numpy as jnp
import numpy as np

HERE = pathlib.Path(__file__).parent
SIZES = [8, 32, 32, 3]
BATCH = 4

rng = np.random.default_rng(2026)
layers = [
    ((rng.standard_normal((m, n)) / np.sqrt(m)).astype(np.float32), (0.1 * rng.standard_normal(n)).astype(np.float32))
    for m, n in zip(SIZES, SIZES[1:])
]


def mlp(x):
    for w, b in layers[:-1]:
        x = jax.nn.gelu(x @ w + b)
    w, b = layers[-1]
    return jax.nn.softmax(x @ w + b)


x = rng.standard_normal((BATCH, SIZES[0])).astype(np.float32)
lowered = jax.jit(mlp).lower(jnp.asarray(x))
(HERE / "mlp.hlo").write_text(lowered.compiler_ir(dialect="hlo").as_hlo_text(print_large_constants=True))


def write(name, a):
    (HERE / name).write_text("".join(" ".join(f"{v:.9g}" for v in row) + "\n" for row in np.asarray(a)))


write("input.txt", x)
write("expected.txt", lowered.compile()(jnp.asarray(x)))
