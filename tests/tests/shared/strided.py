"""Opens a shared library and runs its program on arrays of NumPy: strided.py LIBRARY NAME FUNCTION, where FUNCTION is the text
of the guide's `array_of`. Standard input and output have the elements of f32 in the order of their indices."""

import ctypes
import json
import sys

import numpy

path, name, function = sys.argv[1:]
exec(function)
library = ctypes.CDLL(path)
signature = json.loads(ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, name + "_signature"))))
workspace_size = library[name + "_workspace_size"]
workspace_size.argtypes, workspace_size.restype = [ctypes.c_uint32], ctypes.c_uint64
room = ctypes.create_string_buffer(workspace_size(1) + 64)
workspace = ctypes.c_void_p((ctypes.addressof(room) + 63) // 64 * 64)
parameters, results = ([array_of(leaf, "f4") for leaf in signature[side]] for side in ("parameters", "results"))
for array in parameters:
    array[...] = numpy.frombuffer(sys.stdin.buffer.read(4 * array.size), "f4").reshape(array.shape)
table = lambda arrays: (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])
status = library[name](table(parameters), table(results), workspace, None)
if status != 0:
    sys.exit(f"status {status}")
for array in results:
    sys.stdout.buffer.write(array.tobytes())
