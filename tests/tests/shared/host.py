"""Opens a shared library that Brolga wrote and runs its program: host.py LIBRARY NAME. Standard input has the elements of the
parameters in the order of their indices, those of the results go to standard output. In memory they lie as the layouts say."""

import ctypes
import itertools
import json
import math
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


def places(leaf, address):
    """The address of each element, in the order of the indices, and the bytes of one."""
    size = leaf["bytes"] // max(1, math.prod(leaf.get("padded_shape", leaf["shape"])))
    for index in itertools.product(*map(range, leaf["shape"])):
        yield address + size * sum(i * stride for i, stride in zip(index, leaf["strides"])), size


parameters, parameter_table = buffers(signature["parameters"])
results, result_table = buffers(signature["results"])
for leaf, (_, address) in zip(signature["parameters"], parameters):
    ctypes.memset(address, 0xFF, leaf["bytes"])
    for element, size in places(leaf, address):
        ctypes.memmove(element, sys.stdin.buffer.read(size), size)
assert workspace_size(3) - workspace_size(2) == signature["workspace_per_worker"]
workspace, workspace_address = aligned(workspace_size(1))
status = library[name](parameter_table, result_table, ctypes.c_void_p(workspace_address), None)
if status != 0:
    sys.exit(f"status {status}")
for leaf, (_, address) in zip(signature["results"], results):
    for element, size in places(leaf, address):
        sys.stdout.buffer.write(ctypes.string_at(element, size))
for leaf in signature["parameters"]:
    print(leaf["name"], leaf["type"], leaf["shape"], file=sys.stderr)
