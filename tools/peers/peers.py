#!/usr/bin/env python3
"""Runs workloads in Brolga, and on request in XLA:CPU beside it, in one sitting.

A folder of workloads holds NAME.hlo, NAME.in{i}.npy, NAME.out{i}.npy (whole arrays; bf16 as its bits in u2) and
manifest.json, {NAME: {"inputs": [{"shape", "dtype"}], "outputs": [{"shape", "dtype"}]}}.

  peers.py check --bench DIR [--engine interp,jit,aot]   do the results agree with the stored ones?
  peers.py time  --bench DIR [--xla] [--rounds 3]        how long do compiling and running take?

Needs numpy; --xla needs jax (0.10) too. Times are the least of the rounds, Brolga and XLA taking turns, each in a fresh
process pinned to one processor with one thread."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

import workloads


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("command", choices=["check", "time", "xla-child"])
    ap.add_argument("--bench", required=True, help="the folder of workloads")
    ap.add_argument("--brolga", default="target/release/brolga")
    ap.add_argument("--only", default="", help="a regular expression on names")
    ap.add_argument("--engine", default="interp,jit,aot")
    ap.add_argument("--timeout", type=float, default=120)
    ap.add_argument("--rtol", type=float, default=2e-5, help="largest difference over largest expected value")
    ap.add_argument("--xla", action="store_true")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--min-time", type=float, default=0.5)
    ap.add_argument("--cpu", default="1", help="the processor to pin to")
    ap.add_argument("--json", help="write the numbers here")
    return ap.parse_args()


def wide(array, dtype):
    """The values of a stored array as float64 (or as they are, for integers)."""
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def check_one(a, name, entry, engine):
    with tempfile.TemporaryDirectory() as out:
        given = workloads.given(a.bench, name, entry)
        cmd = [a.brolga, "run", f"{a.bench}/{name}.hlo", *given, "--output-dir", out, "--engine", engine]
        start = time.time()
        try:
            p = subprocess.run(cmd, capture_output=True, timeout=a.timeout)
        except subprocess.TimeoutExpired:
            return "timeout", ""
        took = time.time() - start
        if p.returncode != 0:
            lines = [x for x in p.stderr.decode(errors="replace").splitlines() if x.strip()]
            return {2: "rejected", 3: "unsupported"}.get(p.returncode, "crash"), (lines or [""])[0][:150]
        worst = 0.0
        for i, o in enumerate(entry["outputs"]):
            got = wide(np.load(f"{out}/out{i}.npy"), o["dtype"])
            want = wide(np.load(f"{a.bench}/{name}.out{i}.npy"), o["dtype"])
            if got.shape != want.shape:
                return "fail", f"out{i}: shape {got.shape}, expected {want.shape}"
            if want.dtype.kind != "f":
                bad = int((got != want).sum())
                if bad:
                    return "fail", f"out{i}: {bad} of {want.size} elements differ"
            elif want.size:
                if (np.isnan(got) != np.isnan(want)).any():
                    return "fail", f"out{i}: NaN in other places"
                difference = np.nanmax(np.abs(got - want)) / (np.nanmax(np.abs(want)) + 1e-30)
                bound = 2e-2 if o["dtype"] == "bf16" else a.rtol
                worst = max(worst, float(difference))
                if difference > bound:
                    return "fail", f"out{i}: off by {difference:.1e} of the largest value"
        return "pass", f"{worst:.1e} off, {took:.2f} s"


def brolga_time(a, name, entry):
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        cmd = workloads.bench(a.cpu, a.brolga, a.bench, name, entry, a.min_time, f.name)
        try:
            p = subprocess.run(cmd, capture_output=True, timeout=a.timeout)
        except subprocess.TimeoutExpired:
            return None
        return json.load(open(f.name)) if p.returncode == 0 else None


def xla_time(a, name):
    cmd = [*workloads.pinned(a.cpu), sys.executable, os.path.abspath(__file__), "xla-child", "--bench", a.bench]
    cmd += ["--only", name, "--min-time", str(a.min_time)]
    p = subprocess.run(cmd, capture_output=True, timeout=a.timeout)
    return json.loads(p.stdout.splitlines()[-1]) if p.returncode == 0 else None


def xla_child(a):
    import jax
    from jaxlib import _hlo, _jax

    jax.config.update("jax_enable_x64", True)
    client = jax.devices()[0].client
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
    entry = json.load(open(f"{a.bench}/manifest.json"))[a.only]
    if entry.get("custom_calls"):
        from jax._src.lib import lapack

        lapack.prepare_lapack_call("potrf_ffi", np.float32)
    args = []
    for file, spec in zip(workloads.inputs(a.bench, a.only, entry), entry["inputs"]):
        x = np.load(file)
        x = x.view(jax.numpy.bfloat16) if spec["dtype"] == "bf16" else x
        args.append(jax.device_put(x))
    jax.block_until_ready(args)
    text = open(f"{a.bench}/{a.only}.hlo").read()
    module = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    module = _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(module))
    start = time.perf_counter()
    program = client.compile_and_load(module, devices, _jax.CompileOptions())
    compile_ms = (time.perf_counter() - start) * 1e3

    def once():
        start = time.perf_counter()
        jax.block_until_ready(program.execute(args))
        return (time.perf_counter() - start) * 1e6

    runs = [once() for _ in range(5)]
    end = time.perf_counter() + a.min_time
    while time.perf_counter() < end:
        runs.append(once())
    print(json.dumps({"compile_ms": compile_ms, "run_us": {"min": min(runs), "median": sorted(runs)[len(runs) // 2]}}))


def least(results, *path):
    values = []
    for r in filter(None, results):
        for key in path:
            r = r[key]
        values.append(r)
    return min(values) if values else None


def cell(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def main():
    a = arguments()
    if a.command == "xla-child":
        return xla_child(a)
    manifest = json.load(open(f"{a.bench}/manifest.json"))
    names = [n for n in manifest if re.search(a.only, n)]
    report, bad = {}, 0
    if a.command == "check":
        for name in names:
            for engine in a.engine.split(","):
                status, why = check_one(a, name, manifest[name], engine)
                bad += status not in ("pass", "unsupported")
                report.setdefault(name, {})[engine] = {"status": status, "why": why}
                print(f"{name:34} {engine:7} {status:12} {why}", flush=True)
    else:
        print(f"{'':34}{'compile ms':>11}{'XLA':>9}{'ratio':>8}{'run us':>12}{'XLA':>12}{'ratio':>8}{'object':>10}{'call ns':>9}")
        for name in names:
            ours, theirs = [], []
            for _ in range(a.rounds):
                ours.append(brolga_time(a, name, manifest[name]))
                if a.xla:
                    theirs.append(xla_time(a, name))
            c, r = least(ours, "compile_ms"), least(ours, "run_us", "min")
            xc, xr = least(theirs, "compile_ms"), least(theirs, "run_us", "min")
            size, call = least(ours, "object_bytes"), least(ours, "call_ns")
            ratio = lambda x, y: None if x is None or y is None else x / y
            report[name] = {"brolga": ours, "xla": theirs}
            print(f"{name:34}{cell(c, 2):>11}{cell(xc):>9}{cell(ratio(c, xc), 3):>8}{cell(r, 2):>12}{cell(xr):>12}"
                  f"{cell(ratio(r, xr), 2):>8}{cell(size, 0):>10}{cell(call):>9}", flush=True)
    if a.json:
        json.dump(report, open(a.json, "w"), indent=1)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
