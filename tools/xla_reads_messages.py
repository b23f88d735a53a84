#!/usr/bin/env python3
"""Whether XLA reads the HloModuleProtos that Brolga writes, and to the same module.

Needs jaxlib. `python3 tools/xla_reads_messages.py target/release/brolga MODULE.hlo...` lets `brolga opt --no-passes -o M.pb`
write each module, XLA parse both, and compares what XLA prints of them. Modules that either refuses as text are left out.
"""
import re
import subprocess
import sys
import tempfile

from jaxlib import _hlo


def shown(module):
    """XLA's text of a module without names and numbers of replicas and partitions, which no message has."""
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    text = re.sub(r", (replica_count|num_partitions)=\d+", "", module.to_string(options))
    text = re.sub(r", (alias_passthrough_params|allow_spmd\w+)=(true|\{[^}]*\})", "", text)
    # XLA gives a module that is parsed from a message other names.
    names = {}
    return re.sub(r"%[\w.-]+", lambda m: names.setdefault(m[0], f"%{len(names)}"), text)


def main(program, paths):
    same = differ = refused = 0
    for path in paths:
        with open(path) as file, tempfile.NamedTemporaryFile(suffix=".pb") as out:
            try:
                wanted = shown(_hlo.hlo_module_from_text(file.read()))
            except Exception:
                continue
            command = [program, "opt", "--no-passes", path, "-o", out.name]
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode != 0:
                refused += 1
                print(f"{path}: {run.stderr.strip()[-200:]}")
                continue
            try:
                found = shown(_hlo.XlaComputation(out.read()).get_hlo_module())
            except Exception as error:
                differ += 1
                print(f"{path}: XLA refuses it: {error}")
                continue
            if found == wanted:
                same += 1
            else:
                differ += 1
                lines = zip(wanted.splitlines(), found.splitlines())
                first = next(((a, b) for a, b in lines if a != b), ("", ""))
                print(f"{path}:\n  text:    {first[0][:300]}\n  message: {first[1][:300]}")
    print(f"{same} modules are the same, {differ} are not, {refused} were not written")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
