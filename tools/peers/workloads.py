"""A folder of workloads, as peers.py describes it, on command lines."""


def inputs(bench, name, entry):
    """The files of a workload's inputs."""
    return [f"{bench}/{name}.in{i}.npy" for i in range(len(entry["inputs"]))]


def given(bench, name, entry):
    """The options that give them."""
    return [x for file in inputs(bench, name, entry) for x in ("--input", file)]


def bench(pinned_to, brolga, folder, name, entry, min_time, report):
    """A command that measures a workload on one thread of one processor, and writes what it finds to a file."""
    options = [*given(folder, name, entry), "--threads", "1", "--min-time", str(min_time), "--json", report]
    return [*pinned(pinned_to), brolga, "bench", f"{folder}/{name}.hlo", *options]


def pinned(cpu):
    """What a command begins with that is pinned to a processor."""
    return ["taskset", "-c", cpu]
