#!/usr/bin/env python3
"""An object alone against Brolga's own runtime: the object of each workload that one binary compiles, called from a C program
without a context, and the same workload by `brolga bench` of another binary, in turn.

  alone.py --bench DIR --brolga NEW --against OLD [--only REGEX] [--rounds 7]

DIR is a folder of workloads as peers.py takes it. Each round is a fresh process of both, one thread, pinned to one processor;
what is printed is the least time of each in microseconds and the median of the rounds' ratios. Needs cc and taskset."""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

import workloads

HOST = r"""
#define _POSIX_C_SOURCE 199309L
#include "prog.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const size_t parameter_bytes[] = { %(parameters)s };
static const size_t result_bytes[] = { %(results)s };
enum { PARAMETERS = sizeof parameter_bytes / sizeof *parameter_bytes, RESULTS = sizeof result_bytes / sizeof *result_bytes };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *buffer(size_t bytes) {
    void *p = aligned_alloc(64, bytes / 64 * 64 + 64);
    if (!p) exit(2);
    memset(p, 0, bytes);
    return p;
}

/* The elements of a .npy file. */
static void *load(const char *path, size_t bytes) {
    unsigned char head[10];
    FILE *f = fopen(path, "rb");
    if (!f || fread(head, 1, 10, f) != 10 || head[6] != 1) exit(3);
    void *p = buffer(bytes);
    if (fseek(f, 10 + head[8] + 256 * head[9], SEEK_SET) || fread(p, 1, bytes, f) != bytes) exit(4);
    fclose(f);
    return p;
}

int main(int argc, char **argv) {
    const void *params[PARAMETERS];
    void *results[RESULTS];
    if (argc != 2 + PARAMETERS) return 5;
    double seconds = atof(argv[1]);
    for (int i = 0; i < PARAMETERS; i++) params[i] = load(argv[2 + i], parameter_bytes[i]);
    for (int i = 0; i < RESULTS; i++) results[i] = buffer(result_bytes[i]);
    void *workspace = buffer(PROG_WORKSPACE_BYTES(1));
    double least = 1e30, end = now() + seconds;
    /* A batch of calls lasts long enough for the clock. */
    for (long calls = 1; now() < end;) {
        double start = now();
        for (long k = 0; k < calls; k++)
            if (prog(params, results, workspace, 0)) return 6;
        double took = now() - start;
        if (took / calls < least) least = took / calls;
        if (took < 2e-5) calls *= 2;
    }
    printf("%%.6f\n", 1e6 * least);
    return 0;
}
"""


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bench", required=True, help="the folder of workloads")
    ap.add_argument("--brolga", default="target/release/brolga", help="what makes the object")
    ap.add_argument("--against", required=True, help="what runs `bench`")
    ap.add_argument("--only", default="^(dot_[0-9]+|conv3x3.*|attention.*)$", help="a regular expression on names")
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--min-time", type=float, default=0.3, help="seconds a process measures")
    ap.add_argument("--cpu", default="1", help="the processor to pin to")
    return ap.parse_args()


def build(a, name, folder):
    """The C program of a workload."""
    at = lambda file: os.path.join(folder, file)
    compiled = [a.brolga, "compile", f"{a.bench}/{name}.hlo", "--name", "prog"]
    subprocess.run([*compiled, "-o", at("prog.o")], check=True)
    subprocess.run([*compiled, f"--emit=header={at('prog.h')}"], check=True)
    header = open(at("prog.h")).read()
    sizes = lambda kind: ", ".join(re.findall(rf"#define PROG_{kind}_\d+_BYTES (\d+)", header))
    with open(at("host.c"), "w") as f:
        f.write(HOST % {"parameters": sizes("PARAMETER"), "results": sizes("RESULT")})
    subprocess.run(["cc", "-O2", "-std=c11", "-I", folder, at("host.c"), at("prog.o"), "-lm", "-o", at("host")], check=True)
    return at("host")


def main():
    a = arguments()
    manifest = json.load(open(f"{a.bench}/manifest.json"))
    print(f"{'workload':28} {'alone':>12} {'against':>12} {'ratio':>6}")
    for name, entry in manifest.items():
        if not re.search(a.only, name):
            continue
        files = workloads.inputs(a.bench, name, entry)
        with tempfile.TemporaryDirectory() as folder:
            host = build(a, name, folder)
            rounds = []
            for _ in range(a.rounds):
                called = [*workloads.pinned(a.cpu), host, str(a.min_time), *files]
                alone = subprocess.run(called, check=True, capture_output=True, text=True)
                report = os.path.join(folder, "bench.json")
                bench = workloads.bench(a.cpu, a.against, a.bench, name, entry, a.min_time, report)
                subprocess.run(bench, check=True, capture_output=True)
                rounds.append((float(alone.stdout), json.load(open(report))["run_us"]["min"]))
        least = [min(r[i] for r in rounds) for i in (0, 1)]
        ratio = statistics.median(alone / against for alone, against in rounds)
        print(f"{name:28} {least[0]:12.2f} {least[1]:12.2f} {ratio:6.2f}", flush=True)


main()
