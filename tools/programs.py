#!/usr/bin/env python3
"""Small programs of JAX in every form that Brolga reads.

Needs jax. `python3 tools/programs.py FOLDER` writes each function as HLO text (`.hlo`), `HloModuleProto` (`.pb`), StableHLO text
(`.mlir`), portable artifact of the version that jax writes and of the oldest one (`.bc`, `.old.bc`) and file of `jax.export` (`.jax`), some
of them also with a symbolic size (`.open.mlir` and so on, which have no HLO).
`python3 tools/programs.py --seeds fuzz/corpus` writes what is small enough as the seeds of the fuzz targets instead.
"""
import argparse
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

F32, S32, U32 = np.float32, np.int32, np.uint32
# Bytes of the largest seed.
SEED = 4500


# Places in files are named without the folder, and only the innermost two.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
jax.config.update("jax_traceback_in_locations_limit", 2)


def spec(*dims, ty=F32):
    return jax.ShapeDtypeStruct(dims, ty)


def halve(state):
    return state[0] * 0.5, state[1] + 1


# Name, function, arguments; the ones whose first size may be left open.
PROGRAMS = [
    ("softmax", lambda x: jax.nn.softmax(x, axis=-1), [spec(4, 7)]),
    ("gelu", jax.nn.gelu, [spec(3, 5)]),
    ("layer", lambda x, w, b: jnp.tanh(x @ w + b), [spec(4, 8), spec(8, 3), spec(3)]),
    ("gradient", jax.grad(lambda x: jnp.sum(jnp.sin(x) * x)), [spec(6)]),
    ("sort", lambda x: jnp.sort(x, axis=0), [spec(9, 2)]),
    ("argsort", lambda x: jnp.argsort(x, stable=True), [spec(9)]),
    ("argmax", lambda x: jnp.argmax(x, axis=1), [spec(4, 9)]),
    ("cumsum", lambda x: jnp.cumsum(x, axis=0), [spec(9, 3)]),
    ("while", lambda x: lax.while_loop(lambda s: jnp.any(s[0] > 1), halve, (x, 0)), [spec(3)]),
    ("scan", lambda x: lax.scan(lambda c, y: (c * 0.5 + y, c), jnp.zeros(3), x), [spec(5, 3)]),
    ("cond", lambda x: lax.cond(x[0] > 0, lambda v: v + 1, lambda v: v * 2, x), [spec(4)]),
    ("switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x), [spec(ty=S32), spec(4)]),
    ("fft", lambda x: jnp.abs(jnp.fft.rfft(x)), [spec(16)]),
    ("complex", lambda x, y: jnp.real((x + 1j * y) * (x - 2j)), [spec(5), spec(5)]),
    ("cholesky", jnp.linalg.cholesky, [spec(5, 5)]),
    ("solve", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), [spec(5, 5), spec(5, 2)]),
    ("uniform", lambda s: jax.random.uniform(jax.random.wrap_key_data(s), (7,)), [spec(2, ty=U32)]),
    ("bits", lambda s: lax.rng_bit_generator(s, (3, 4), dtype=U32), [spec(4, ty=U32)]),
    ("gather", lambda x, i: x[i], [spec(9, 3), spec(3, ty=S32)]),
    ("scatter", lambda x, i: x.at[i].add(1.0), [spec(9), spec(3, ty=S32)]),
    ("slice", lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 3)), [spec(9, 3), spec(ty=S32)]),
    ("update", lambda x, y, i: lax.dynamic_update_slice(x, y, (i,)), [spec(9), spec(2), spec(ty=S32)]),
    ("convolution", lambda x, k: lax.conv(x, k, (1, 1), "SAME"), [spec(1, 2, 6, 6), spec(3, 2, 3, 3)]),
    ("pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"), [spec(6, 6)]),
    ("pad", lambda x: lax.pad(x, 1.5, ((1, 2, 1), (-1, 0, 0))), [spec(3, 4)]),
    ("concatenate", lambda x, y: jnp.concatenate([x, y[::-1], x * 2]), [spec(3, 3), spec(2, 3)]),
    ("resize", lambda x: jax.image.resize(x, (6, 8), "bilinear"), [spec(3, 4)]),
    ("top", lambda x: lax.top_k(x, 3), [spec(4, 9)]),
    ("special", lambda x: jax.scipy.special.erf(x) + jax.scipy.special.erfc(x), [spec(5)]),
    ("arcs", lambda x: jnp.arcsin(x) + jnp.arctan2(x, x + 1), [spec(5)]),
    ("batch", jax.vmap(lambda a, b: a @ b), [spec(3, 4, 5), spec(3, 5, 2)]),
    ("half", lambda x: (x.astype(jnp.bfloat16) * 3).astype(jnp.float16), [spec(6)]),
    ("eighth", lambda x: x.astype(jnp.float8_e4m3fn).astype(F32), [spec(6)]),
    ("small", lambda x: (x.astype(jnp.int4) + 1).astype(jnp.int8), [spec(6, ty=S32)]),
    ("bitwise", lambda x, y: (x << 3 | y) ^ lax.population_count(y), [spec(6, ty=U32), spec(6, ty=U32)]),
    ("compare", lambda x, y: jnp.where((x < y) & (x == x), x, jnp.nan), [spec(6), spec(6)]),
    ("table", lambda x: x + np.arange(24, dtype=F32).reshape(4, 6) * 0.37, [spec(4, 6)]),
    ("callback", lambda x: jax.ffi.ffi_call("brolga_scale", spec(4))(x, factor=F32(2)), [spec(4)]),
    ("pytree", lambda t: {"sum": t["a"] + t["b"][0], "b": t["b"]}, [{"a": spec(3), "b": [spec(3)]}]),
    ("round", lambda x: lax.reduce_precision(jnp.round(x), 5, 7), [spec(6)]),
]
OPEN = {"softmax", "gelu", "layer", "gradient", "sort", "argmax", "cumsum", "concatenate", "compare"}


def opened(specs):
    """The arguments with the sizes of the first one's first dimension left open."""
    size = specs[0].shape[0]
    b = export.symbolic_shape("b")[0]
    change = lambda s: spec(*(b if d == size and k == 0 else d for k, d in enumerate(s.shape)), ty=s.dtype)
    return [change(specs[0])] + [change(s) if s.shape[:1] == (size,) and len(specs) == 2 else s for s in specs[1:]]


def forms(exported):
    """Endings and bytes of an exported function."""
    with mlir.make_ir_context():
        text = exported.mlir_module()
        module = ir.Module.parse(text)
        old = stablehlo.get_minimum_version()
        yield "mlir", text.encode()
        yield "bc", bytes(exported.mlir_module_serialized)
        try:
            yield "old.bc", stablehlo.serialize_portable_artifact_str(text, old)
        except (ValueError, RuntimeError):
            pass  # It has operations that the oldest version or the dialect lacks.
        generic = module.operation.get_asm(print_generic_op_form=True)
        yield "generic.mlir", generic.encode()
    yield "jax", bytes(exported.serialize())


def programs():
    """Names, endings and bytes."""
    anything = [export.DisabledSafetyCheck.custom_call("brolga_scale")]
    for name, function, specs in PROGRAMS:
        jitted = jax.jit(function)
        exported = export.export(jitted, platforms=["cpu"], disabled_checks=anything)
        for ending, content in forms(exported(*specs)):
            yield name, ending, content
        hlo = jitted.lower(*specs).compiler_ir("hlo")
        yield name, "hlo", hlo.as_hlo_text().encode()
        yield name, "pb", hlo.as_serialized_hlo_module_proto()
        if name in OPEN:
            for ending, content in forms(exported(*opened(specs))):
                yield f"{name}.open", ending, content


# The forms of one program after the other that are seeds besides HLO.
SEEDS = [("mlir", "old.bc"), ("generic.mlir", "jax"), ("mlir", "bc")]
TARGETS = {"hlo": "hlo_text", "pb": "proto", "mlir": "stablehlo_text", "bc": "bytecode", "jax": "bytecode"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", action="store_true", help="seeds of the fuzz targets, each in its own folder")
    options = parser.parse_args()
    count = total = 0
    names = {}
    for name, ending, content in programs():
        folder = options.folder
        if options.seeds:
            wanted = SEEDS[names.setdefault(name, len(names)) % len(SEEDS)] + ("hlo", "pb")
            if ending not in wanted or len(content) > SEED:
                continue
            folder = folder / TARGETS[ending.rsplit(".", 1)[-1]]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.{ending}").write_bytes(content)
        count, total = count + 1, total + len(content)
    print(f"{count} files, {total} bytes")


if __name__ == "__main__":
    main()
