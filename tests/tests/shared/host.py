"""Opens a shared library that Brolga wrote and runs its program: host.py LIBRARY NAME. Standard input has the bytes of the
parameters, those of the results go to standard output."""

import ctypes
import json
import sys

path, name = sys.argv[1:]
library = ctypes.CDLL(path)
signature = json.loads(ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, name + "_signature"))))
workspace_size = library[name + "_workspace_size"]
workspace_size.argtypes, workspace_size.restype = [ctypes.c_uint32], ctypes.c_uint64

ALIGN = signature["workspace_alignment"]


def aligned(size):
    """Memory of that many bytes, and its address."""
    memory = ctypes.create_string_buffer(size + ALIGN)
    return memory, (ctypes.addressof(memory) + ALIGN - 1) // ALIGN * ALIGN


def buffers(leaves):
    kept = [aligned(leaf["bytes"]) for leaf in leaves]
    return kept, (ctypes.c_void_p * len(kept))(*[address for _, address in kept])


parameters, parameter_table = buffers(signature["parameters"])
results, result_table = buffers(signature["results"])
for leaf, (_, address) in zip(signature["parameters"], parameters):
    ctypes.memmove(address, sys.stdin.buffer.read(leaf["bytes"]), leaf["bytes"])
assert workspace_size(3) - workspace_size(2) == signature["workspace_per_worker"]
workspace, workspace_address = aligned(workspace_size(1))
status = library[name](parameter_table, result_table, ctypes.c_void_p(workspace_address), None)
if status != 0:
    sys.exit(f"status {status}")
for leaf, (_, address) in zip(signature["results"], results):
    sys.stdout.buffer.write(ctypes.string_at(address, leaf["bytes"]))
for leaf in signature["parameters"]:
    print(leaf["name"], leaf["type"], leaf["shape"], file=sys.stderr)
