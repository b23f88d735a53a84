#!/usr/bin/env python3
"""The StableHLO texts of the conformance corpus as portable artifacts.

Needs jaxlib. `python3 tools/artifacts_of_corpus.py CORPUS FOLDER` writes FOLDER/SUITE/CASE.mlir and CASE.mlir.bc of every case that has a
`module.mlir`; `BROLGA_CORPUS_ARTIFACTS=FOLDER cargo test --workspace --test suite -- stablehlo_artifacts` compares what both read to.
"""
import pathlib
import sys
import zipfile

from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib import _jax


def serialized(text):
    """The artifact; of a program with operations of other dialects, the form that jax gives it, which keeps them as they are."""
    version = stablehlo.get_current_version()
    try:
        return stablehlo.serialize_portable_artifact_str(text, version)
    except ValueError:
        return _jax.mlir.serialize_portable_artifact(text, version, True)


def main(corpus, folder):
    count, refused = 0, []
    for path in sorted(pathlib.Path(corpus).glob("*.zip")):
        with zipfile.ZipFile(path) as archive, mlir.make_ir_context():
            for name in archive.namelist():
                if not name.endswith("/module.mlir"):
                    continue
                text = archive.read(name).decode()
                case = name.split("/")[-2]
                try:
                    artifact = serialized(text)
                    # The artifact has composites in place of operations of CHLO: its text is what it stands for.
                    text = stablehlo.deserialize_portable_artifact_str(artifact)
                    text = text if isinstance(text, str) else str(ir.Module.parse(text))
                except Exception as error:
                    refused.append(f"{path.stem}/{case}: {str(error)[:200]}")
                    continue
                to = pathlib.Path(folder) / path.stem / f"{case}.mlir"
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_text(text)
                to.with_suffix(".mlir.bc").write_bytes(artifact)
                count += 1
    print(f"{count} artifacts; not written: {len(refused)}", *refused, sep="\n")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
