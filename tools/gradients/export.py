#!/usr/bin/env python3
"""Writes the golden cases of gradients: scalar functions as JAX exports them, with inputs, values and JAX's gradients.

  export.py OUT      writes OUT/NAME.hlo and OUT/NAME.json

Needs numpy and jax (0.10). The program of a case computes the function alone; its gradient is Brolga's to derive. NAME.json
is {"inputs": [array], "variables": [number of a parameter], "value": number, "gradients": [array]}; an array is {"type",
"dims", "values"}, row-major, a complex number as its two parts one after the other. Values are written with all their digits.

Programs are lowered for TPUs, which have the operations of linear algebra, of order and of Fourier transforms that CPUs call
libraries for; where the two lower otherwise, there is a case of each. JAX computes the numbers on the CPU."""
import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

CASES = []


def case(*inputs, platform="tpu"):
    def add(f):
        CASES.append((f.__name__, f, [np.asarray(i) for i in inputs], platform))
        return f

    return add


rng = np.random.default_rng(12)
n = rng.standard_normal


def weigh(x):
    """The sum of all elements, each with a weight of its own, so that no symmetry hides a mistake."""
    w = np.cos(np.arange(x.size, dtype=np.float64)).reshape(x.shape)
    return jnp.sum(jnp.real(x) * w) + (jnp.sum(jnp.imag(x) * np.sin(w)) if jnp.iscomplexobj(x) else 0.0)


@case(n((5, 7)), n((7, 6)), n(6), n((6, 4)), n(4), np.array([0, 3, 1, 1, 2]))
def dense_network(x, w1, b1, w2, b2, labels):
    h = jnp.tanh(x @ w1 + b1)
    logits = jax.nn.log_softmax(jax.nn.gelu(h, approximate=False) @ w2 + b2)
    return -jnp.mean(jnp.take_along_axis(logits, labels[:, None], axis=1))


@case(n((3, 8)), n(8), n(8))
def layer_norm(x, scale, offset):
    mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return weigh((x - mean) * lax.rsqrt(var + 1e-5) * scale + offset)


@case(n((2, 3, 5, 4)), n((2, 3, 5, 4)), n((2, 3, 5, 4)))
def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 2.0
    scores = jnp.where(jnp.tril(jnp.ones((5, 5), bool)), scores, -1e9)
    return weigh(jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v))


def conv(x, k, **options):
    options = {"window_strides": (1,), "padding": [(0, 0)]} | options
    return weigh(lax.conv_general_dilated(x, k, **options))


@case(n((2, 3, 9)), n((4, 3, 3)))
def convolution_strided(x, k):
    return conv(x, k, window_strides=(2,), padding=[(2, 1)])


@case(n((2, 3, 9)), n((4, 3, 3)))
def convolution_cut(x, k):
    return conv(x, k, window_strides=(2,), padding=[(-1, -2)])


@case(n((2, 3, 5)), n((4, 3, 3)))
def convolution_dilated(x, k):
    return conv(x, k, padding=[(2, 3)], lhs_dilation=(2,), rhs_dilation=(3,))


@case(n((2, 4, 6)), n((6, 2, 3)))
def convolution_feature_groups(x, k):
    return conv(x, k, padding=[(1, 1)], feature_group_count=2)


@case(n((4, 3, 6)), n((6, 3, 3)))
def convolution_batch_groups(x, k):
    return conv(x, k, padding=[(1, 0)], batch_group_count=2)


@case(n((2, 8, 8, 2)), n((3, 3, 2, 4)), n(4), n((4, 3)))
def convolutional_network(x, k, b, w):
    y = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + b
    y = jax.nn.relu(y)
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    y = lax.reduce_window(y, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / 9
    return weigh(jnp.mean(y, (1, 2)) @ w)


@case(n((6, 3, 4)), n(3), n(3))
def batch_norm(x, scale, offset):
    mean, var = jnp.mean(x, (0, 2)), jnp.var(x, (0, 2))
    at = lambda v: v[None, :, None]
    return weigh((x - at(mean)) / jnp.sqrt(at(var) + 1e-3) * at(scale) + at(offset)) + weigh(var)


@case(n((6, 3)), np.array([[0, 5, 2], [2, 2, 9]]))
def embedding(table, ids):
    return weigh(jnp.take(table, ids, axis=0, mode="clip") ** 2)


@case(n((6, 3)), np.array([[0, 5, 2], [2, -2, 9]]))
def embedding_fill(table, ids):
    return weigh(jnp.take(table, ids, axis=0, mode="fill", fill_value=2.0) ** 2)


@case(n((3, 6)), np.array([[0, 5], [2, 2], [1, 4]]))
def gather_batched(x, ids):
    return weigh(jax.vmap(lambda r, i: jnp.sin(r)[i])(x, ids))


@case(n((5, 2)), n((3, 2)), np.array([1, 1, 4]))
def scatter_add(x, u, i):
    return weigh((x * x).at[i].add(jnp.sin(u)))


@case(n((5, 2)), n((4, 2)), np.array([1, 1, 4, 7]))
def scatter_set(x, u, i):
    return weigh((x * x).at[i].set(jnp.sin(u)))


@case(n((5, 2)), n((3, 2)), np.array([1, 3, 4]))
def scatter_set_unique(x, u, i):
    return weigh((x * x).at[i].set(jnp.sin(u), unique_indices=True))


@case(n((5, 2)), n((3, 2)), np.array([1, 3, 4]))
def scatter_multiply(x, u, i):
    return weigh((x * x).at[i].multiply(jnp.sin(u), unique_indices=True))


@case(n((5, 4)), n((2, 2)), np.int32(9), np.int32(1))
def dynamic_slices(x, u, i, j):
    y = lax.dynamic_update_slice(x * x, jnp.sin(u), (i, j))
    return weigh(lax.dynamic_slice(y * x, (j, i), (3, 2)))


@case(n((4, 5)))
def sort(x):
    return weigh(jnp.sort(x, axis=0) ** 2)


@case(n((3, 6)), n((3, 6)))
def sort_with_values(k, v):
    a, b = lax.sort((jnp.sin(k), v * k), dimension=1, num_keys=1)
    return weigh(a * b)


@case(n((3, 6)))
def median(x):
    return weigh(jnp.median(x, axis=1))


@case(n((4, 4)))
def cholesky(x):
    return weigh(jnp.linalg.cholesky(x @ x.T + 4 * jnp.eye(4)))


@case(n((2, 3, 3)), n((2, 3)))
def gaussian_likelihood(x, y):
    cov = x @ jnp.swapaxes(x, 1, 2) + 2 * jnp.eye(3)
    l = lax.linalg.cholesky(cov)
    z = jax.vmap(lambda l, y: jsl.solve_triangular(l, y, lower=True))(l, y)
    return jnp.sum(z * z) + jnp.sum(jnp.log(jnp.diagonal(l, axis1=1, axis2=2)))


def solve(a, b, **options):
    return weigh(lax.linalg.triangular_solve(a + 3 * jnp.eye(3), b, **options))


@case(n((3, 3)), n((3, 2)))
def triangular_solve_left(a, b):
    return solve(a, b, left_side=True, lower=True)


@case(n((3, 3)), n((2, 3)))
def triangular_solve_right(a, b):
    return solve(a, b, left_side=False, lower=False, transpose_a=True)


@case(n((3, 3)), n((2, 3)))
def triangular_solve_unit(a, b):
    return solve(a, b, left_side=False, lower=True, unit_diagonal=True)


@case(n(4), n((4, 4)), n((6, 4)))
def recurrent_network(h, w, xs):
    step = lambda h, x: (jnp.tanh(w @ h + x), jnp.sum(h * h))
    h, ys = lax.scan(step, h, xs)
    return weigh(h) + weigh(ys)


@case(n(4), n((4, 4)), n((6, 4)))
def scan_reversed(h, w, xs):
    step = lambda h, x: (jnp.sin(w @ h) * x, h)
    h, ys = lax.scan(step, h, xs, reverse=True)
    return weigh(h) + weigh(ys)


@case(n(3))
def counted_loop(x):
    return weigh(lax.fori_loop(2, 7, lambda i, v: jnp.sin(v) * x + i, x))


@case(n((3, 3)), n(3))
def loop_in_loop(m, v):
    inner = lambda v: lax.fori_loop(0, 3, lambda i, u: jnp.cos(m @ u), v)
    return weigh(lax.scan(lambda c, _: (inner(c) + v, c * c), v, None, length=4)[1])


@case(n(3), n(3), np.float64(0.5))
def condition(x, y, t):
    return weigh(lax.cond(t > 0, lambda a, b: a * b, lambda a, b: a - b, x, jnp.sin(y)))


@case(n(3), n(3), np.int32(1))
def switch(x, y, i):
    return weigh(lax.switch(i, [lambda a, b: a, lambda a, b: jnp.exp(a) * b, lambda a, b: b * b], x, y))


@case(n((3, 7)))
def cumulative_tpu(x):
    return weigh(jnp.cumsum(x * x, 1)) + weigh(lax.cummax(x, 0))


@case(n((3, 7)), platform="cpu")
def cumulative(x):
    return weigh(jnp.cumsum(x * x, 1)) + weigh(lax.cummax(x, 0)) + weigh(lax.cummin(x, 1, reverse=True))


@case(np.array([[1.5, 0.0, -2.0, 3.0], [0.0, 2.0, 0.0, 1.0], [1.0, -1.0, 2.0, 0.5]]))
def products_with_zeros(x):
    return weigh(jnp.prod(x, 1)) + weigh(jnp.prod(x, 0)) + jnp.prod(x + 1.25)


@case(np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [-1.0, 0.0, -1.0]]))
def ties_of_reductions(x):
    return weigh(jnp.max(x, 1)) + weigh(jnp.min(x, 0)) + 3 * jnp.max(x)


@case(np.array([1.0, 2.0, 3.0, -1.0]), np.array([1.0, 3.0, 2.0, -1.0]))
def ties_of_two(x, y):
    return weigh(jnp.maximum(x, y)) + 2 * weigh(jnp.minimum(x, y))


@case(np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]))
def clamps(x):
    return weigh(lax.clamp(-1.0, x, 1.0)) + weigh(jnp.abs(x)) + weigh(jnp.sign(x) * x)


@case(np.array([[1.0, 1.0, 2.0, 2.0, 0.0, 3.0]]))
def ties_of_windows(x):
    return weigh(lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 1), "SAME"))


@case(0.1 + 0.8 * rng.random(6))
def functions(x):
    fs = [jnp.exp, jnp.expm1, jnp.log, jnp.log1p, jnp.sqrt, lax.rsqrt, jnp.cbrt, jnp.sin, jnp.cos, jnp.tan, jnp.tanh,
          jnp.sinh, jnp.cosh, jnp.arcsin, jnp.arccos, jnp.arctan, jnp.arcsinh, jnp.arctanh, jax.nn.sigmoid, lax.erf, jnp.floor,
          jnp.ceil, jnp.round, lambda v: jnp.arccosh(v + 1), lambda v: lax.reduce_precision(v, 11, 52), jnp.reciprocal]
    return sum((i + 1) * weigh(f(x)) for i, f in enumerate(fs))


@case(0.5 + rng.random(6), n(6))
def functions_of_two(x, y):
    fs = [jnp.power, jnp.arctan2, jnp.divide, lambda a, b: lax.rem(b, a), jnp.hypot, jnp.logaddexp, lambda a, b: a ** 3 - b ** -2]
    return sum((i + 1) * weigh(f(x, y)) for i, f in enumerate(fs))


@case(n((3, 5)), np.float64(0.7))
def movements(x, v):
    y = lax.pad(x, v, [(-1, 2, 1), (1, -2, 0)])
    y = jnp.concatenate([y, y[::-1] * y], axis=1)
    y = lax.rev(y, (1,))[1:6:2]
    return weigh(jnp.broadcast_to(y.T.reshape(2, -1)[:, None], (2, 3, y.size // 2)) ** 2)


@case(n((2, 4)) + 1j * n((2, 4)), n((4, 3)) + 1j * n((4, 3)))
def complex_numbers(x, y):
    z = jnp.exp(x / 2) @ y
    return weigh(jnp.abs(z)) + weigh(jnp.conj(z) * z * 1j) + weigh(jnp.sqrt(z)) + weigh(jnp.real(z) * jnp.sin(z))


@case(n((2, 8)), n((2, 5)) + 1j * n((2, 5)))
def fourier(x, z):
    return weigh(jnp.fft.rfft(x) * z) + weigh(jnp.fft.irfft(z * z, 8)) + weigh(jnp.fft.ifft(jnp.fft.fft(z) ** 2))


@case(n((2, 3)), n((2, 3)))
def mixed_types(x, y):
    return weigh((x * y).astype(jnp.complex128) ** 2) + jnp.sum(jnp.where(x > y, x, 0.0).astype(int) * x)


@case(n((3, 7)), platform="cpu")
def cumulative_products(x):
    return weigh(jnp.cumprod(x, 1)) + weigh(lax.cumprod(x * x, 0, reverse=True))


@case(n((3, 7)), platform="cpu")
def cumulative_log_sums(x):
    return weigh(lax.cumlogsumexp(x, 1)) + weigh(lax.cumlogsumexp(jnp.sin(x), 0, reverse=True))


@case(n((3, 7)))
def cumulative_others_tpu(x):
    return weigh(jnp.cumprod(x, 1)) + weigh(lax.cumlogsumexp(x, 0))


@case(n((3, 7)))
def reduction_by_a_computation(x):
    length = lambda a, b: jnp.sqrt(a * a + b * b)
    return weigh(lax.reduce(x, np.float64(-np.inf), jnp.logaddexp, (1,))) + lax.reduce(x, np.float64(0), length, (0, 1))


@case(n((5, 3)), n((5, 3)))
def reduction_of_two(x, y):
    multiply = lambda p, q: (p[0] * q[0] - p[1] * q[1], p[0] * q[1] + p[1] * q[0])
    real, imaginary = lax.reduce((x, y), (np.float64(1), np.float64(0)), multiply, (0,))
    return weigh(real * real) + weigh(imaginary)


@case(n((1, 6, 6, 2)), n((3, 3, 2, 2)))
def pooling_twice(x, k):
    def inner(x):
        y = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        pooled = lax.reduce_window(jnp.sin(y), -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return weigh(pooled**2)

    return weigh(jax.grad(inner)(x) ** 2)


@case(n((3, 3)) + 1j * n((3, 3)), n((3, 2)) + 1j * n((3, 2)))
def complex_factors(x, y):
    l = jnp.linalg.cholesky(x @ jnp.conj(x.T) + 4 * jnp.eye(3))
    z = lax.linalg.triangular_solve(l, y, left_side=True, lower=True, transpose_a=True, conjugate_a=True)
    return weigh(l) + weigh(z)


@case(n((3, 6)))
def largest(x):
    values, places = lax.top_k(jnp.sin(x), 3)
    return weigh(values**2) + weigh(jnp.take_along_axis(x, places, axis=1))


@case(n((7, 4)), n((3, 4, 2)), np.array([2, 0, 3], np.int32))
def ragged_products(x, w, sizes):
    return weigh(jnp.tanh(lax.ragged_dot(x, w, sizes)))


# The second row is the greatest three times, the first update row of the third place is beaten.
@case(n((5, 3)), np.array([1, 1, 4, 2, 2, 9]))
def scatter_extremes(x, i):
    u = jnp.stack([x[1], x[1], 2 * x[0], x[2] - 1, x[2] + 1, x[3]])
    return weigh(x.at[i].max(u) ** 2) + weigh(jnp.cos(x).at[i].min(u))


@case(n((6, 2)), np.array([1, 1, 4, 0, 4, 4]))
def segments(x, i):
    largest = jax.ops.segment_max(x, i, 5)
    shifted = jnp.exp(x - largest[i])
    return weigh((shifted / jax.ops.segment_sum(shifted, i, 5)[i]) ** 2)


@case(n((5, 2)), np.array([1, 1, 4]))
def scatter_multiply_twice(x, i):
    return weigh((x * x).at[i].multiply(np.array([[0.5, 2.0], [0.0, 3.0], [-1.0, 0.25]])))


@case(n((2, 3, 3)), n((2, 3)), platform="cpu")
def gaussian_likelihood_cpu(x, y):
    return gaussian_likelihood(x, y)


@case(n((3, 3)) + 1j * n((3, 3)), n((3, 2)) + 1j * n((3, 2)), platform="cpu")
def complex_factors_cpu(x, y):
    return complex_factors(x, y)


@case(n((3, 3)), n((2, 3)), platform="cpu")
def triangular_solve_cpu(a, b):
    return triangular_solve_right(a, b) + triangular_solve_unit(a, b)


NAMES = {"float64": "f64", "complex128": "c128", "int64": "s64", "int32": "s32"}


def array(a):
    a = np.asarray(a)
    flat = a.ravel()
    if np.iscomplexobj(a):
        flat = np.stack([flat.real, flat.imag], -1).ravel()
    return {"type": NAMES[a.dtype.name], "dims": list(a.shape), "values": [v.item() for v in flat]}


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, f, inputs, platform in CASES:
        variables = [i for i, a in enumerate(inputs) if np.issubdtype(a.dtype, np.inexact)]
        value, gradients = jax.jit(jax.value_and_grad(f, argnums=variables))(*inputs)
        lowered = jax.jit(f, keep_unused=True).trace(*inputs).lower(lowering_platforms=(platform,))
        text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
        (out / f"{name}.hlo").write_text(text)
        record = {
            "inputs": [array(i) for i in inputs],
            "variables": variables,
            "value": float(value),
            "gradients": [array(g) for g in gradients],
        }
        (out / f"{name}.json").write_text(json.dumps(record) + "\n")
    print(len(CASES), "cases")


if __name__ == "__main__":
    main()
