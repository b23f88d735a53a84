"""Writes the programs of tests/devices: a training step with pmean on 1, 2 and 4 replicas, its losses, and a sharded layer.

Run with jax 0.10.2: python tools/devices/export.py tests/devices
"""

import os
import pathlib
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

out = pathlib.Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)

BATCH, INPUTS, HIDDEN, STEPS = 32, 8, 16, 20


def loss(params, x, y):
    w1, b1, w2 = params
    hidden = jnp.tanh(x @ w1 + b1)
    return jnp.mean((hidden @ w2 - y) ** 2)


def step(replicas):
    def run(w1, b1, w2, x, y):
        value, gradients = jax.value_and_grad(loss)((w1, b1, w2), x, y)
        if replicas > 1:
            value, gradients = jax.lax.pmean((value, gradients), "replicas")
        w1, b1, w2 = (p - 0.1 * g for p, g in zip((w1, b1, w2), gradients))
        return w1, b1, w2, value

    return run


def data():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((BATCH, INPUTS), dtype=np.float32)
    y = np.sin(x.sum(axis=1, keepdims=True)).astype(np.float32)
    w1 = (rng.standard_normal((INPUTS, HIDDEN)) / 3).astype(np.float32)
    w2 = (rng.standard_normal((HIDDEN, 1)) / 4).astype(np.float32)
    return (w1, np.zeros(HIDDEN, np.float32), w2), x, y


def write(name, text):
    """Without the place of this file on the machine that wrote them."""
    (out / name).write_text(text.replace(str(pathlib.Path(__file__).resolve()), "export.py"))


params, x, y = data()
for name, array in zip(("w1", "b1", "w2", "x", "y"), (*params, x, y)):
    np.save(out / f"{name}.npy", array)
for replicas in (1, 2, 4):
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in params]
    part = BATCH // replicas
    if replicas == 1:
        arguments = (*shapes, jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(y.shape, y.dtype))
        lowered = jax.jit(step(1)).lower(*arguments)
    else:
        every = [jax.ShapeDtypeStruct((replicas, *s.shape), s.dtype) for s in shapes]
        every += [jax.ShapeDtypeStruct((replicas, part, a.shape[1]), a.dtype) for a in (x, y)]
        lowered = jax.pmap(step(replicas), axis_name="replicas", devices=jax.devices()[:replicas]).lower(*every)
    # Of several devices the partitioned program.
    whole = replicas == 1
    write(f"train_{replicas}.hlo", lowered.compiler_ir("hlo").as_hlo_text() if whole else lowered.compile().as_text())

losses, current, run = [], params, jax.jit(step(1))
for _ in range(STEPS):
    *current, value = run(*current, x, y)
    losses.append(float(value))
(out / "losses.txt").write_text("".join(f"{v:.9g}\n" for v in losses))

# What jit makes of a layer whose weights lie on four devices by columns, then by rows, and whose batch on two.
mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("batch", "model"))


def layer(x, w1, w2):
    return jax.nn.relu(x @ w1) @ w2


by = lambda *names: NamedSharding(mesh, P(*names))
sharded = jax.jit(
    layer,
    in_shardings=(by("batch", None), by(None, "model"), by("model", None)),
    out_shardings=by("batch", None),
)
shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((8, 16), (16, 32), (32, 16))]
write("layer_spmd.hlo", sharded.lower(*shapes).compile().as_text())


def ring(x):
    total = jax.lax.psum(x, "model")
    turned = jax.lax.ppermute(x, "model", [(i, (i + 1) % 4) for i in range(4)])
    gathered = jax.lax.all_gather(x, "batch")
    scattered = jax.lax.psum_scatter(x, "model", tiled=True)
    return total + turned, gathered.sum(axis=0), scattered, jax.lax.axis_index("model")[None].astype(jnp.float32)


mapped = jax.jit(
    jax.shard_map(
        ring,
        mesh=mesh,
        in_specs=P(("batch", "model")),
        out_specs=(P(("batch", "model")), P("model"), P(("batch", "model")), P("model")),
        check_vma=False,
    )
)
write("shard_map.hlo", mapped.lower(jax.ShapeDtypeStruct((32, 4), jnp.float32)).compile().as_text())
