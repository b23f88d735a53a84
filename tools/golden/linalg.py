#!/usr/bin/env python3
"""Writes the golden cases of linear algebra: small programs of jnp.linalg as JAX exports them for CPUs, with inputs and
the results that JAX computes.

  linalg.py OUT      writes OUT/NAME.hlo and OUT/NAME.json

Needs numpy and jax (0.10). NAME.json is {"kind", "inputs": [array], "outputs": [array]}; an array is {"type", "dims",
"values"}, row-major, a complex number as its two parts one after the other. Values are written with all their digits."""
import json
import pathlib
import re
import sys

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
# Cases that need not be there in every type.
WANTED = {
    "qr_complete": ["f64", "c64"],
    "qr_batch": ["f32"],
    "svd_values": ["f64"],
    "eigvalsh": ["c64"],
    "indefinite": ["f64", "c64"],
    "inv": ["f32", "c128"],
    "lu": ["f64"],
    "triangular_upper": ["f64", "c64"],
    "eigh_nan": ["f32", "c128"],
}
NAMES = {np.dtype(v): k for k, v in TYPES.items()} | {np.dtype(np.int32): "s32", np.dtype(np.bool_): "pred"}


def random(rng, ty, *dims):
    out = rng.standard_normal(dims)
    if np.issubdtype(ty, np.complexfloating):
        out = out + 1j * rng.standard_normal(dims)
    return out.astype(ty)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def cases(rng, ty):
    square, tall, wide = random(rng, ty, 2, 4, 4), random(rng, ty, 5, 3), random(rng, ty, 3, 5)
    definite = (square @ adjoint(square) + np.eye(4)).astype(ty)
    hermitian = (square + adjoint(square)).astype(ty)
    right = random(rng, ty, 2, 4, 3)
    lower = lambda **options: lambda a, b: jsl.solve_triangular(a, b, **options)
    yield "cholesky", "values", jnp.linalg.cholesky, [definite]
    yield "indefinite", "values", jnp.linalg.cholesky, [hermitian - 5 * np.eye(4, dtype=ty)]
    yield "qr", "qr", jnp.linalg.qr, [tall]
    yield "qr_complete", "qr", lambda a: jnp.linalg.qr(a, mode="complete"), [tall]
    yield "qr_batch", "qr", jnp.linalg.qr, [square]
    yield "svd", "svd", lambda a: jnp.linalg.svd(a, full_matrices=False), [tall]
    yield "svd_full", "svd_full", jnp.linalg.svd, [wide]
    yield "svd_values", "values", lambda a: jnp.linalg.svd(a, compute_uv=False), [square]
    yield "eigh", "eigh", lambda a: tuple(jnp.linalg.eigh(a)), [hermitian]
    yield "eigvalsh", "values", jnp.linalg.eigvalsh, [hermitian]
    yield "eig", "eig", lambda a: tuple(jnp.linalg.eig(a)), [square]
    yield "schur", "schur", lambda a: tuple(jax.lax.linalg.schur(a)), [square]
    yield "solve", "values", jnp.linalg.solve, [square, right]
    yield "inv", "values", jnp.linalg.inv, [square]
    yield "det", "values", jnp.linalg.det, [square]
    yield "triangular_upper", "values", lower(trans=1), [definite[0], right[0]]
    yield "triangular_lower", "values", lower(trans=2, lower=True, unit_diagonal=True), [definite[0] / 8, right[0]]
    yield "lu", "values", jsl.lu, [square[0]]
    nan = square.copy()
    nan[0, 1, 1] = np.nan
    yield "eigh_nan", "values", jnp.linalg.eigvalsh, [nan]


def array(a):
    a = np.asarray(a)
    flat = a.reshape(-1)
    if np.iscomplexobj(flat):
        flat = np.stack([flat.real, flat.imag], -1).reshape(-1)
    values = [("nan" if np.isnan(v) else float(v)) for v in flat]
    return {"type": NAMES[a.dtype], "dims": list(a.shape), "values": values}


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for seed, (name, ty) in enumerate(TYPES.items()):
        for case, kind, function, inputs in cases(np.random.default_rng(seed), ty):
            if name not in WANTED.get(case, TYPES):
                continue
            inputs = [np.asarray(a, ty) for a in inputs]
            text = jax.jit(function).lower(*inputs).compiler_ir("hlo").as_hlo_text()
            # Where the program came from and how it may be split over devices is no part of it.
            text = re.sub(r', (metadata|frontend_attributes)=\{("[^"]*"|[^"}])*\}', "", text)
            results = jax.tree.leaves(jax.jit(function)(*inputs))
            file = {"kind": kind, "inputs": [array(a) for a in inputs], "outputs": [array(a) for a in results]}
            (out / f"{case}_{name}.hlo").write_text(text)
            (out / f"{case}_{name}.json").write_text(json.dumps(file, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
