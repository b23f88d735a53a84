"""Calls both programs from Python by ctypes, out of shared libraries. Prints what the crate's main.rs does; the last row of the block's
result must be JAX's, of which expected.txt holds it."""
import ctypes
import json
import pathlib
import time


class Program:
    def __init__(self, name):
        library = ctypes.CDLL(f"./lib{name}.so")
        text = ctypes.addressof(ctypes.c_char.in_dll(library, f"{name}_signature"))
        signature = json.loads(ctypes.string_at(text))
        size = getattr(library, f"{name}_workspace_size")
        size.argtypes, size.restype = [ctypes.c_uint32], ctypes.c_uint64
        self.memory = ctypes.create_string_buffer(size(1) + 64)
        workspace = ctypes.c_void_p((ctypes.addressof(self.memory) + 63) // 64 * 64)
        arrays = lambda leaves: [(ctypes.c_float * (leaf["bytes"] // 4))() for leaf in leaves]
        self.parameters, self.results = arrays(signature["parameters"]), arrays(signature["results"])
        n = 0
        for array in self.parameters:
            array[:] = [((k * 2654435761 & 0xFFFFFFFF) >> 8) / 67108864 - 0.125 for k in range(n, n + len(array))]
            n += len(array)
        pointers = lambda arrays: (ctypes.c_void_p * len(arrays))(*map(ctypes.addressof, arrays))
        self.entry = getattr(library, name)
        self.arguments = pointers(self.parameters), pointers(self.results), workspace, None

    def least(self, calls):
        """Nanoseconds of a call: the least of many batches, each shorter than the time that a system gives a process
        at once."""
        entry, arguments, least = self.entry, self.arguments, float("inf")
        for _ in range(150):
            start = time.perf_counter_ns()
            for _ in range(calls):
                if entry(*arguments):
                    raise RuntimeError("the run failed")
            least = min(least, (time.perf_counter_ns() - start) / calls)
        return least


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


small, block = Program("small"), Program("block")
overhead, run = small.least(2_000), block.least(2)
print(f"python-ctypes {overhead:.1f} {run / 1e3:.1f} {fnv(bytes(block.results[0])):016x}")
expected = [float(line) for line in pathlib.Path("expected.txt").read_text().split()]
for got, want in zip(block.results[0][-len(expected):], expected, strict=True):
    assert abs(got - want) <= 1e-5 + 1e-5 * abs(want), (got, want)
