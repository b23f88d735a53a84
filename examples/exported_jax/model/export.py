#!/usr/bin/env python3
"""Writes attention.jax, input.txt and expected.txt beside this file: a layer of causal self-attention with a symbolic batch as
`jax.export` serializes it, an input, and what XLA:CPU makes of it. Needs jax (0.10.2 was used).

The weights are constants of the artifact, so that the compiled object holds the whole layer."""
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

# Files are named without their folders.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
HERE = pathlib.Path(__file__).parent
ROWS, WIDTH, BATCH = 4, 8, 5

random = np.random.default_rng(14)
q, k, v, o = (0.5 * random.standard_normal((4, WIDTH, WIDTH))).astype(np.float32)


def attention(x):
    scores = jnp.einsum("bqd,bkd->bqk", x @ q, x @ k) / np.sqrt(np.float32(WIDTH))
    mask = jnp.tril(jnp.ones((ROWS, ROWS), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf))
    y = x + jnp.einsum("bqk,bkd->bqd", weights, x @ v) @ o
    centred = y - jnp.mean(y, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5)


x = random.standard_normal((BATCH, ROWS, WIDTH)).astype(np.float32)
shape = jax.ShapeDtypeStruct(export.symbolic_shape(f"b,{ROWS},{WIDTH}"), x.dtype)
(HERE / "attention.jax").write_bytes(export.export(jax.jit(attention), platforms=["cpu"])(shape).serialize())


def write(name, a):
    rows = np.asarray(a).reshape(-1, WIDTH)
    (HERE / name).write_text("".join(" ".join(f"{value:.9g}" for value in row) + "\n" for row in rows))


write("input.txt", x)
write("expected.txt", jax.jit(attention)(x))
