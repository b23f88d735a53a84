#!/usr/bin/env python3
"""Whether StableHLO's own parser and verifier take the text that Brolga writes.

Needs jaxlib. `python3 tools/stablehlo_reads_text.py MODULE.mlir...` (or folders of such files) parses and verifies each module,
prints those that are refused with the reason, and ends with status 1 where there is one.
"""
import pathlib
import sys

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo


def files(paths):
    for path in map(pathlib.Path, paths):
        yield from sorted(path.glob("**/*.mlir")) if path.is_dir() else [path]


def refusal(text):
    """What is wrong with a module, or None."""
    with ir.Context() as context:
        registry = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        chlo.register_dialect(context)
        # `mhlo.sharding` and its like belong to a dialect of XLA's.
        mhlo.register_mhlo_dialect(context)
        sdy.register_dialect(context)
        stablehlo.register_dialect(context)
        # `jax.buffer_donor` and `tf.aliasing_output` belong to no dialect.
        context.allow_unregistered_dialects = True
        try:
            ir.Module.parse(text).operation.verify()
        except Exception as error:
            return " | ".join(str(error).split("\n"))
    return None


def main(paths):
    read = refused = 0
    for path in files(paths):
        reason = refusal(path.read_text())
        if reason is None:
            read += 1
        else:
            refused += 1
            print(f"REFUSED {path.name}: {reason}")
    print(f"{read} modules are read, {refused} are refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
