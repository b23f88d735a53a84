#!/usr/bin/env python3
"""Writes block.jax and expected.txt beside this file: a transformer block with sines as `jax.export` serializes it, and the last row of
what XLA:CPU makes of the numbers that every host fills its arrays with. Needs jax (0.10.2 was used)."""
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
HERE = pathlib.Path(__file__).parent
ROWS, WIDTH, HIDDEN, HEADS = 128, 96, 384, 4


def norm(v, scale, shift):
    centred = v - jnp.mean(v, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5) * (1 + scale) + shift


def block(p, x):
    place = jnp.arange(ROWS, dtype=jnp.float32)[:, None]
    h = x + jnp.sin(place * p["frequency"])
    qkv = norm(h, p["scale"][0], p["shift"][0]) @ p["qkv"]
    q, k, v = jnp.split(qkv.reshape(ROWS, 3 * HEADS, WIDTH // HEADS).swapaxes(0, 1), 3)
    weights = jax.nn.softmax(q @ k.swapaxes(1, 2) / np.sqrt(np.float32(WIDTH // HEADS)))
    h = h + (weights @ v).swapaxes(0, 1).reshape(ROWS, WIDTH) @ p["out"]
    return h + jnp.sin(norm(h, p["scale"][1], p["shift"][1]) @ p["up"]) @ p["down"]


shapes = {
    "frequency": (WIDTH,),
    "scale": (2, WIDTH),
    "shift": (2, WIDTH),
    "qkv": (WIDTH, 3 * WIDTH),
    "out": (WIDTH, WIDTH),
    "up": (WIDTH, HIDDEN),
    "down": (HIDDEN, WIDTH),
}
arguments = {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in shapes.items()}, jax.ShapeDtypeStruct((ROWS, WIDTH), "float32")
exported = export.export(jax.jit(block), platforms=["cpu"])(*arguments)
(HERE / "block.jax").write_bytes(exported.serialize())

# Element n of all arguments, in the order of the program's parameters: 24 bits of a multiple of n, in [-1/8, 1/8).
leaves, tree = jax.tree.flatten(arguments)
ends = np.cumsum([leaf.size for leaf in leaves])
numbers = (np.arange(ends[-1], dtype=np.uint32) * np.uint32(2654435761) >> 8).astype(np.float32) / np.float32(2**26) - np.float32(0.125)
arrays = [part.reshape(leaf.shape) for part, leaf in zip(np.split(numbers, ends[:-1]), leaves)]
y = jax.jit(block)(*jax.tree.unflatten(tree, arrays))
(HERE / "expected.txt").write_text("".join(f"{value:.9g}\n" for value in np.asarray(y)[-1]))
