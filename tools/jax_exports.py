"""Exports functions of public JAX, plain and with symbolic dimensions, with inputs and what XLA:CPU makes of them.

    python3 tools/jax_exports.py FOLDER [NAME...]

writes, for each function, NAME.jax (`jax.export(...).serialize()`) and, where JAX exports it so, NAME.symbolic.jax; the
arrays in NAME.inK.npy and NAME.outK.npy; and cases.json, which names them with the bounds of the comparison: a float passes
within atol + rtol * |expected|. `tests/tests/jax_exports.rs` runs all of it in three engines. Needs jax; numpy comes with it.
"""

import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import export, lax

RTOL, ATOL = 1e-4, 1e-5
random = np.random.default_rng(20240613)


def array(*shape):
    return random.standard_normal(shape).astype(np.float32)


def positive(*shape):
    return (np.abs(array(*shape)) + 0.1).astype(np.float32)


def definite(n, *batch):
    x = array(*batch, n, n)
    return (x @ np.swapaxes(x, -1, -2) + n * np.eye(n)).astype(np.float32)


def ints(high, *shape):
    return random.integers(0, high, shape).astype(np.int32)


def key(*words):
    return np.array(words, np.uint32)


def newton(x):
    return lax.fori_loop(0, 6, lambda i, y: y - (y * y - x) / (2 * y), x + 1)


def mlp(params, x):
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return x


PARAMS = [(array(8, 16), array(16)), (array(16, 4), array(4))]


def layer_norm(x, g):
    m = jnp.mean(x, -1, keepdims=True)
    return (x - m) * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * g


def attention(q, k, v):
    s = jnp.einsum("bqd,bkd->bqk", q, k) / jnp.sqrt(jnp.float32(q.shape[-1]))
    mask = jnp.tril(jnp.ones(s.shape[-2:], bool))
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(jnp.where(mask, s, -jnp.inf)), v)


def sgd(w, x, y):
    loss = lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2)
    value, gradient = jax.value_and_grad(loss)(w)
    return value, w - 0.1 * gradient


def gru(x, h, w, u):
    def step(h, x):
        z = jax.nn.sigmoid(x @ w + h @ u)
        h = z * h + (1 - z) * jnp.tanh(x @ w)
        return h, h

    return lax.scan(step, h, x)


def power_iteration(x):
    def step(carry):
        v, _, n = carry
        w = x @ v
        return w / jnp.linalg.norm(w), v, n + 1

    start = jnp.ones(x.shape[0]) / jnp.sqrt(jnp.float32(x.shape[0]))
    v, _, n = lax.while_loop(lambda c: c[2] < 20, step, (start, jnp.zeros(x.shape[0]), 0))
    return v @ (x @ v), n


def key_of(words):
    return jax.random.wrap_key_data(words)


def polynomial(x):
    return jax.jvp(lambda x: jnp.polyval(jnp.array([1.0, -2.0, 3.0]), x), (x,), (jnp.ones_like(x),))


def segment(x, i):
    return jax.ops.segment_sum(x, i, num_segments=4)


# The name; the function; its arguments; how the sizes of each argument are called where they are symbolic (None: not
# exported so). Results that are not unique (signs of vectors) are brought into a form that is.
CASES = {
    # transforms
    "grad": (jax.grad(lambda x: jnp.sum(jnp.sin(x) * x)), [array(6)], ["n"]),
    "hessian": (jax.hessian(lambda x: jnp.sum(x**3) + x[0] * x[1]), [array(4)], None),
    "jvp": (polynomial, [array(5)], ["n"]),
    "vjp": (lambda x, t: jax.vjp(jax.nn.gelu, x)[1](t)[0], [array(3, 4), array(3, 4)], ["n,m", "n,m"]),
    "vmap": (jax.vmap(lambda a, b: a @ b), [array(3, 4, 5), array(3, 5, 2)], ["b,4,5", "b,5,2"]),
    "jacfwd": (jax.jacfwd(lambda x: jnp.sin(x) * jnp.sum(x)), [array(4)], None),
    "value_and_grad": (sgd, [array(5), array(7, 5), array(7)], ["5", "b,5", "b"]),
    "checkpoint": (jax.grad(lambda x: jnp.sum(jax.checkpoint(jnp.tanh)(x) ** 2)), [array(3, 3)], ["n,m"]),
    # control flow
    "cond": (lambda x: lax.cond(x[0] > 0, lambda v: v + 1, lambda v: v * 2, x), [array(4)], ["n"]),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x), [np.int32(1), array(4)], ["", "n"]),
    "while": (lambda x: lax.while_loop(lambda c: jnp.sum(c) < 100, lambda c: c * 2 + 1, x), [positive(3)], ["n"]),
    "fori": (newton, [positive(5)], ["n"]),
    "scan": (lambda x: lax.scan(lambda c, y: (c * 0.5 + y, c), jnp.zeros(3), x), [array(5, 3)], ["n,3"]),
    "gru": (gru, [array(6, 2, 4), array(2, 4), array(4, 4), array(4, 4)], ["t,b,4", "b,4", "4,4", "4,4"]),
    "associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x), [array(9)], None),
    "map": (lambda x: lax.map(lambda r: jnp.sum(r) * r, x), [array(4, 3)], ["n,3"]),
    "power_iteration": (power_iteration, [definite(4)], None),
    # linear algebra
    "qr": (lambda x: (lambda q, r: (q @ r, jnp.abs(r)))(*jnp.linalg.qr(x)), [array(5, 3)], ["b,5,3"]),
    "eigh": (lambda x: jnp.linalg.eigh(x)[0], [definite(5)], ["b,5,5"]),
    "eigh_rebuilt": (
        lambda x: (lambda w, v: jnp.einsum("ij,j,kj->ik", v, w, v))(*jnp.linalg.eigh(x)), [definite(4)], None),
    "svd": (lambda x: jnp.linalg.svd(x, compute_uv=False), [array(4, 6)], ["b,4,6"]),
    "svd_rebuilt": (
        lambda x: (lambda u, s, v: (u * s) @ v)(*jnp.linalg.svd(x, full_matrices=False)), [array(4, 3)], None),
    "solve": (jnp.linalg.solve, [definite(5), array(5, 2)], ["b,5,5", "b,5,2"]),
    "cholesky": (jnp.linalg.cholesky, [definite(5)], ["b,5,5"]),
    "cho_solve": (
        lambda a, b: jsp.linalg.cho_solve((jnp.linalg.cholesky(a), True), b), [definite(4), array(4)], None),
    "triangular_solve": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        [np.tril(definite(4)), array(4, 3)], ["4,4", "4,n"]),
    "inv": (jnp.linalg.inv, [definite(4)], ["b,4,4"]),
    "det": (jnp.linalg.det, [definite(3)], ["b,3,3"]),
    "slogdet": (jnp.linalg.slogdet, [definite(4)], ["b,4,4"]),
    "expm": (jsp.linalg.expm, [0.3 * array(4, 4)], None),
    "lstsq": (lambda a, b: jnp.linalg.lstsq(a, b)[0], [array(6, 3), array(6)], None),
    "kron": (jnp.kron, [array(2, 3), array(3, 2)], ["n,3", "3,2"]),
    # random numbers
    "normal": (lambda s: jax.random.normal(key_of(s), (7,)), [key(1, 2)], None),
    "uniform": (lambda s, x: jax.random.uniform(key_of(s), x.shape), [key(3, 4), array(5, 2)], ["2", "n,2"]),
    "split_bernoulli": (
        lambda s: jax.random.bernoulli(jax.random.split(key_of(s))[1], 0.4, (16,)), [key(5, 6)], None),
    "permutation": (lambda s: jax.random.permutation(key_of(s), 9), [key(7, 8)], None),
    "categorical": (lambda s, x: jax.random.categorical(key_of(s), x), [key(9, 1), array(5, 4)], ["2", "n,4"]),
    "gamma": (lambda s: jax.random.gamma(key_of(s), 2.5, (6,)), [key(2, 3)], None),
    # Fourier transforms
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), [array(3, 16)], ["b,16"]),
    "rfft_irfft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2), [array(3, 8)], ["b,8"]),
    "fft2": (lambda x: jnp.fft.fft2(x).real, [array(4, 6)], ["b,4,6"]),
    "fftconvolve": (lambda x, y: jsp.signal.fftconvolve(x, y), [array(12), array(5)], None),
    # images
    "resize": (lambda x: jax.image.resize(x, (x.shape[0], 6, 8), "bilinear"), [array(2, 3, 4)], ["b,3,4"]),
    "resize_cubic": (lambda x: jax.image.resize(x, (5, 9), "cubic"), [array(3, 4)], None),
    "map_coordinates": (
        lambda x, c: jsp.ndimage.map_coordinates(x, list(c), order=1), [array(5, 6), positive(2, 7)], ["5,6", "2,n"]),
    "conv": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"),
        [array(2, 3, 6, 6), array(4, 3, 3, 3)], ["b,3,6,6", "4,3,3,3"]),
    "conv_grad": (
        jax.grad(lambda k, x: jnp.sum(lax.conv(x, k, (2, 2), "VALID") ** 2)),
        [array(4, 2, 3, 3), array(2, 2, 7, 7)], ["4,2,3,3", "b,2,7,7"]),
    "max_pool": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID"), [array(2, 6, 6)], ["b,6,6"]),
    "avg_pool_grad": (
        jax.grad(lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID") ** 2)),
        [array(3, 8)], ["b,8"]),
    # networks
    "mlp": (lambda x: mlp(PARAMS, x), [array(5, 8)], ["b,8"]),
    "softmax": (lambda x: jax.nn.softmax(x), [array(4, 7)], ["b,n"]),
    "layer_norm": (layer_norm, [array(4, 8), array(8)], ["b,8", "8"]),
    "attention": (attention, [array(2, 5, 4), array(2, 5, 4), array(2, 5, 4)], ["b,t,4", "b,t,4", "b,t,4"]),
    "gelu": (jax.nn.gelu, [array(3, 5)], ["n,m"]),
    "one_hot": (lambda i: jax.nn.one_hot(i, 5), [ints(5, 7)], ["n"]),
    "logsumexp": (lambda x: jsp.special.logsumexp(x, axis=1), [array(4, 6)], ["n,m"]),
    # special functions
    "erfinv": (jsp.special.erfinv, [np.tanh(array(7))], ["n"]),
    "gammaln_digamma": (lambda x: (jsp.special.gammaln(x), jsp.special.digamma(x)), [positive(7)], ["n"]),
    "igamma": (jsp.special.gammainc, [positive(6), positive(6)], ["n", "n"]),
    "betainc": (jsp.special.betainc, [positive(5), positive(5), np.abs(np.tanh(array(5)))], ["n", "n", "n"]),
    "bessel": (lambda x: (jsp.special.i0e(x), jsp.special.i1e(x)), [array(6)], ["n"]),
    # order
    "sort": (lambda x: jnp.sort(x, axis=0), [array(9, 2)], ["n,2"]),
    "argsort": (lambda x: jnp.argsort(x, axis=-1), [array(3, 8)], ["b,n"]),
    "top_k": (lambda x: lax.top_k(x, 3), [array(4, 9)], ["b,9"]),
    "argmax": (lambda x: jnp.argmax(x, axis=1), [array(4, 9)], ["n,m"]),
    "median": (lambda x: jnp.median(x, axis=0), [array(7, 3)], ["7,n"]),
    "searchsorted": (jnp.searchsorted, [np.sort(array(9)), array(5)], ["9", "n"]),
    "unique": (lambda x: jnp.unique(x, size=4, fill_value=-1), [ints(4, 12)], ["n"]),
    # indexing and accumulation
    "gather": (lambda x, i: x[i], [array(9, 3), ints(9, 4)], ["n,3", "m"]),
    "scatter_add": (lambda x, i: x.at[i].add(1.0), [array(9), ints(9, 4)], ["n", "m"]),
    "segment_sum": (segment, [array(8, 2), ints(4, 8)], ["n,2", "n"]),
    "cumsum": (lambda x: jnp.cumsum(x, axis=0), [array(9, 3)], ["n,m"]),
    "cumprod": (lambda x: jnp.cumprod(x, axis=1), [array(2, 6)], ["n,m"]),
    "cummax": (lambda x: lax.cummax(x, axis=0), [array(9)], ["n"]),
    "einsum": (lambda a, b, c: jnp.einsum("ij,jk,kl->il", a, b, c), [array(3, 4), array(4, 5), array(5, 2)],
               ["n,4", "4,m", "m,2"]),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 3)), [array(7, 3), np.int32(4)], ["n,3", ""]),
    "pad_roll": (lambda x: jnp.roll(jnp.pad(x, ((1, 2), (0, 1)), mode="edge"), 1, axis=0), [array(3, 4)], ["n,m"]),
    "histogram": (lambda x: jnp.histogram(x, bins=5, range=(-2, 2))[0], [array(30)], ["n"]),
    "interp": (jnp.interp, [array(6), np.sort(array(8)), array(8)], ["n", "8", "8"]),
}

# Longer chains of roundings, or an algorithm other than XLA's: looser bounds.
BOUNDS = {
    "eigh": (1e-4, 1e-4), "eigh_rebuilt": (1e-4, 1e-4), "svd": (1e-4, 1e-4), "svd_rebuilt": (1e-4, 1e-4),
    "lstsq": (1e-3, 1e-4), "expm": (1e-4, 1e-4), "power_iteration": (1e-3, 1e-3), "conv_grad": (1e-4, 1e-4),
    "fftconvolve": (1e-4, 1e-4), "betainc": (1e-3, 1e-4), "gamma": (1e-3, 1e-4),
}


def symbolic(names, arguments, scope):
    """The shapes with symbolic sizes; arguments whose symbolic rank is higher are given a batch of one."""
    shapes, values = [], []
    for text, value in zip(names, arguments):
        value = np.asarray(value)
        rank = len([d for d in text.split(",") if d])
        while value.ndim < rank:
            value = np.stack([value, value])
        shapes.append(jax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), value.dtype))
        values.append(value)
    return shapes, values


def write(folder, name, case, exported, values, expected):
    (folder / f"{case}.jax").write_bytes(exported.serialize())
    files = {"inputs": [], "outputs": []}
    for kind, arrays in (("inputs", values), ("outputs", expected)):
        for k, value in enumerate(arrays):
            file = f"{case}.{kind[:-4]}{k}.npy"
            np.save(folder / file, np.asarray(value))
            files[kind].append(file)
    rtol, atol = BOUNDS.get(name, (RTOL, ATOL))
    return {"name": case, "artifact": f"{case}.jax", **files, "rtol": rtol, "atol": atol}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[2:] or CASES
    cases = []
    for name in wanted:
        original, arguments, names = CASES[name]
        # Trees of results have types that cannot be serialized.
        function = lambda *given: tuple(jax.tree_util.tree_leaves(original(*given)))
        values = [np.asarray(a) for a in arguments]
        forms = [(name, [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in values], values)]
        if names is not None:
            forms.append((f"{name}.symbolic", *symbolic(names, values, export.SymbolicScope())))
        for case, shapes, given in forms:
            try:
                exported = export.export(jax.jit(function), platforms=["cpu"])(*shapes)
            except Exception as error:
                # What JAX itself cannot export with symbolic sizes is said, and left out.
                print(f"{case} is not exported: {str(error).splitlines()[0]}")
                continue
            expected = jax.tree_util.tree_leaves(jax.jit(function)(*given))
            # An argument that nothing uses is no argument of the artifact.
            kept = [given[k] for k in exported.module_kept_var_idx]
            cases.append(write(folder, name, case, exported, kept, expected))
    (folder / "cases.json").write_text(json.dumps({"jax": jax.__version__, "cases": cases}, indent=1) + "\n")
    print(f"{len(wanted)} functions, {len(cases)} artifacts in {folder}")


if __name__ == "__main__":
    main()
