#!/usr/bin/env python3
"""The network of `examples/train` in JAX: the same pictures, initial values and steps, and the losses of each step.

  losses.py OUT      writes OUT, a line for each step: its loss in f64 and in f32

Needs numpy and jax (0.10). `examples/train/tests/train.rs` compares the program's losses with `examples/train/losses.txt`."""
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

STEPS, BATCH, SIDE, CLASSES = 300, 32, 8, 4
RATE, MOMENTUM = np.float32(0.05), np.float32(0.9)


class Random:
    """The generator of the example: a linear congruence in 32 bits."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * 1_664_525 + 1_013_904_223) % 2**32
        return self.state

    def array(self, dims, scale):
        """Numbers between -scale and scale, rounded to f32 by each operation."""
        draw = lambda: (np.float32(self.next() >> 8) / np.float32(2**23) - np.float32(1)) * np.float32(scale)
        return np.array([draw() for _ in range(np.prod(dims))], np.float32).reshape(dims)

    def below(self, n):
        return (self.next() >> 16) % n


def batch(random):
    """Pictures of stripes with noise, and which way they run."""
    classes = [random.below(CLASSES) for _ in range(BATCH)]
    pictures = np.empty((BATCH, 1, SIDE, SIDE), np.float32)
    for number, kind in enumerate(classes):
        shift = random.below(4)
        for row in range(SIDE):
            for column in range(SIDE):
                along = [row, column, row + column, row + SIDE - column][kind]
                noise = np.float32(random.below(1000)) / np.float32(2500) - np.float32(0.2)
                stripe = np.float32(1 if (along + shift) % 4 < 2 else -1)
                pictures[number, 0, row, column] = stripe + noise
    return pictures, np.eye(CLASSES, dtype=np.float32)[classes]


def loss(variables, pictures, labels):
    first, second, linear, bias = variables
    convolved = lambda x, k: jnp.maximum(lax.conv_general_dilated(x, k, (2, 2), "SAME"), 0)
    features = convolved(convolved(pictures, first), second).reshape(BATCH, 64)
    return -jnp.sum(labels * jax.nn.log_softmax(features @ linear + bias)) / BATCH


@jax.jit
def step(variables, velocities, pictures, labels):
    value, gradients = jax.value_and_grad(loss)(variables, pictures, labels)
    rate, momentum = (jnp.asarray(number, pictures.dtype) for number in (RATE, MOMENTUM))
    velocities = [momentum * v - rate * g for v, g in zip(velocities, gradients)]
    return [w + v for w, v in zip(variables, velocities)], velocities, value


def losses(dtype):
    random = Random(1)
    sizes = [((8, 1, 3, 3), 0.47), ((16, 8, 3, 3), 0.17), ((64, CLASSES), 0.18), ((CLASSES,), 0.0)]
    variables = [random.array(dims, scale).astype(dtype) for dims, scale in sizes]
    velocities = [np.zeros_like(v) for v in variables]
    random = Random(1)
    found = []
    for _ in range(STEPS):
        pictures, labels = (a.astype(dtype) for a in batch(random))
        variables, velocities, value = step(variables, velocities, pictures, labels)
        found.append(np.asarray(value))
    return found


def main():
    lines = [f"# The loss of each step in f64 and in f32, by tools/train/losses.py with jax {jax.__version__}"]
    lines += [f"{wide!r} {narrow!r}" for wide, narrow in zip(map(float, losses(np.float64)), map(float, losses(np.float32)))]
    pathlib.Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
