#!/usr/bin/env python3
"""How fast large constants are read, in every form.

Needs jaxlib and numpy. `python3 tools/reading_speed.py target/release/brolga [FOLDER]` writes programs with one large constant, lets
`brolga parse` read each three times, and prints size, the shortest time of the whole process and megabytes a second.
"""
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
from jax.interpreters import mlir
from jaxlib import _jax
from jaxlib.mlir.dialects import stablehlo

ELEMENTS = 50 * 2**20 // 4
RUNS = 3


def function(ty, value, resources=""):
    body = f"%0 = stablehlo.constant {value} : tensor<{ty}>\n    return %0 : tensor<{ty}>"
    return f"module @m {{\n  func.func public @main() -> tensor<{ty}> {{\n    {body}\n  }}\n}}\n{resources}"


def hlo(ty, value):
    return f"HloModule m\n\nENTRY main {{\n  ROOT c = {ty} constant({value})\n}}\n"


def artifact(text):
    with mlir.make_ir_context():
        try:
            return stablehlo.serialize_portable_artifact_str(text, stablehlo.get_current_version())
        except ValueError:
            return _jax.mlir.serialize_portable_artifact(text, stablehlo.get_current_version(), True)


def files():
    """Endings and contents."""
    random = np.random.default_rng(1)
    reals = random.standard_normal(ELEMENTS).astype(np.float32)
    digits = reals.tobytes().hex().upper()
    dense = function(f"{ELEMENTS}xf32", f'dense<"0x{digits}">')
    yield "dense.mlir.bc", artifact(dense)
    blob = f'{{-#\n  dialect_resources: {{\n    builtin: {{\n      r: "0x04000000{digits}"\n    }}\n  }}\n#-}}\n'
    resource = function(f"{ELEMENTS}xf32", "dense_resource<r>", blob)
    yield "resource.mlir.bc", artifact(resource)
    yield "hex.mlir", dense
    yield "resource.mlir", resource
    few = reals[: ELEMENTS // 4]
    columns = 1024
    rows = few.size // columns
    few = few[: rows * columns].reshape(rows, columns)
    spellings = {
        "short": [[f"{x:.6g}" for x in row] for row in few.tolist()],
        "exact": [[f"{x:.8e}" for x in row] for row in few.tolist()],
        "integers": [[str(x) for x in row] for row in random.integers(-99999, 99999, few.shape).tolist()],
    }
    for name, values in spellings.items():
        ty, hlo_ty = ("i32", "s32") if name == "integers" else ("f32", "f32")
        # MLIR wants a point before an exponent's digits.
        mlir_values = [[x if "." in x or ty == "i32" else f"{x}.0" for x in row] for row in values]
        lists = ", ".join(f"[{', '.join(row)}]" for row in mlir_values)
        yield f"{name}.mlir", function(f"{rows}x{columns}x{ty}", f"dense<[{lists}]>")
        lists = ", ".join(f"{{{', '.join(row)}}}" for row in values)
        yield f"{name}.hlo", hlo(f"{hlo_ty}[{rows},{columns}]", f"{{ {lists} }}")


def main(program, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files():
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        size = path.stat().st_size
        times = []
        for _ in range(RUNS):
            start = time.perf_counter()
            run = subprocess.run([program, "parse", path, "--summary", "/dev/null"], capture_output=True, text=True)
            times.append(time.perf_counter() - start)
        if run.returncode != 0:
            print(f"{name}: status {run.returncode}: {run.stderr.strip()[:200]}")
            continue
        best = min(times)
        print(f"{name:18} {size / 2**20:7.1f} MiB {best:7.3f} s {size / best / 1e6:7.0f} MB/s", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(sys.argv[1], pathlib.Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(sys.argv[1], pathlib.Path(scratch))
