#!/usr/bin/env python3
"""Writes workloads of products that the peers' do not have, as peers.py takes them: products of small integers, steps of decoding,
transposed operands and results.

  products.py --out DIR

Needs jax (0.10) and numpy."""
import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RANDOM = np.random.default_rng(1)
DTYPES = {"float32": "f32", "int8": "s8", "uint8": "u8", "int32": "s32", "bfloat16": "bf16"}


def f32(*shape, scale=1.0):
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def bf16(*shape, scale=1.0):
    return f32(*shape, scale=scale).astype(jnp.bfloat16)


def s8(*shape):
    return RANDOM.integers(-128, 128, shape).astype(np.int8)


def u8(*shape):
    return RANDOM.integers(0, 256, shape).astype(np.uint8)


def product(lhs, rhs, out):
    """Products of contracted dimensions `lhs` and `rhs`, summed in `out`; of unlike operands each is converted before."""
    return lambda a, b: lax.dot_general(a, b, (((lhs,), (rhs,)), ((), ())), preferred_element_type=out)


def quantized(x, w, scale):
    """Rows of floats, quantized by their largest element, by a matrix of bytes."""
    largest = jnp.max(jnp.abs(x), axis=1, keepdims=True) / 127
    sums = product(1, 1, jnp.int32)(jnp.round(x / largest).astype(jnp.int8), w)
    return sums.astype(jnp.float32) * largest * scale


def attention(q, k, v, of="htd"):
    """One query of each head against all keys."""
    scores = jnp.einsum(f"hd,{of}->ht", q, k) * 0.125
    return jnp.einsum(f"ht,{of}->hd", jax.nn.softmax(scores, axis=-1), v)


def gated(x, gate, up, down):
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


def step(x, wq, wk, wv, wo, keys, values, position):
    """Attention of the next token, whose key and value go into the cache."""
    q, k, v = (jnp.reshape(x @ w, (8, 64)) for w in (wq, wk, wv))
    keys = lax.dynamic_update_slice(keys, k[:, None], (0, position, 0))
    values = lax.dynamic_update_slice(values, v[:, None], (0, position, 0))
    scores = jnp.einsum("hd,htd->ht", q, keys) * 0.125
    scores = jnp.where(jnp.arange(512) <= position, scores, -1e30)
    out = jnp.einsum("ht,htd->hd", jax.nn.softmax(scores, axis=-1), values)
    return x + out.reshape(1, 512) @ wo, keys, values


def workloads():
    cache = lambda make: (make(8, 64), make(8, 512, 64), make(8, 512, 64))
    layer = lambda make: (make(1, 1024), *(make(*s, scale=0.03) for s in [(1024, 2816), (1024, 2816), (2816, 1024)]))
    weights = [f32(512, 512, scale=0.04) for _ in range(4)]
    square = lambda make, n=512: (make(n, n), make(n, n))
    yield "s8_512", product(1, 0, jnp.int32), square(s8)
    yield "s8_1024", product(1, 0, jnp.int32), square(s8, 1024)
    yield "s8_transposed_512", product(1, 1, jnp.int32), square(s8)
    yield "u8_by_s8_512", product(1, 0, jnp.int32), (u8(512, 512), s8(512, 512))
    yield "s8_row_4096", product(1, 1, jnp.int32), (s8(1, 4096), s8(4096, 4096))
    yield "s8_quantized_32x1024", quantized, (f32(32, 1024), s8(1024, 1024), f32(1024))
    yield "decode_attention_512", attention, cache(f32)
    yield "decode_attention_bf16_512", attention, cache(bf16)
    by_position = lambda q, k, v: attention(q, k, v, of="thd")
    yield "decode_attention_by_position_2048", by_position, (f32(8, 64), f32(2048, 8, 64), f32(2048, 8, 64))
    yield "decode_mlp", gated, layer(f32)
    yield "decode_mlp_bf16", gated, layer(bf16)
    yield "decode_step", step, (f32(1, 512), *weights, f32(8, 512, 64), f32(8, 512, 64), np.int32(300))
    yield "dot_nt_512", product(1, 1, jnp.float32), square(f32)
    yield "dot_tn_512", product(0, 0, jnp.float32), square(f32)
    yield "dot_tt_512", product(0, 1, jnp.float32), square(f32)
    yield "dot_transposed_512", lambda a, b: (a @ b).T, square(f32)
    yield "dot_nt_1024", product(1, 1, jnp.float32), square(f32, 1024)
    yield "dot_tn_300x700x500", product(0, 0, jnp.float32), (f32(700, 300), f32(700, 500))
    yield "dot_nt_64x1000x1000", product(1, 1, jnp.float32), (f32(64, 1000), f32(1000, 1000))
    yield "dot_nt_bf16_512", product(1, 1, jnp.float32), square(bf16)


def save(path, array):
    """bf16 as its bits."""
    array = np.asarray(array)
    np.save(path, array.view(np.uint16) if array.dtype == jnp.bfloat16 else array)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", required=True, help="the folder, which is there")
    out = ap.parse_args().out
    manifest = {}
    for name, function, arguments in workloads():
        lowered = jax.jit(function, keep_unused=True).lower(*arguments)
        with open(f"{out}/{name}.hlo", "w") as f:
            f.write(lowered.compiler_ir("hlo").as_hlo_text(True))
        results = jax.tree.leaves(lowered.compile()(*arguments))
        manifest[name] = {}
        for kind, arrays in (("in", arguments), ("out", results)):
            for i, array in enumerate(arrays):
                save(f"{out}/{name}.{kind}{i}.npy", array)
            specs = [{"shape": list(np.shape(a)), "dtype": DTYPES[str(np.asarray(a).dtype)]} for a in arrays]
            manifest[name][kind + "puts"] = specs
    with open(f"{out}/manifest.json", "w") as f:
        json.dump(manifest, f)


main()
