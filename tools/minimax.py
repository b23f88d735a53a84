#!/usr/bin/env python3
"""Coefficients of the polynomials in compiler/src/kernel/math.

Needs mpmath. `python3 tools/minimax.py` prints every table with the error that its rounded coefficients leave, in
units of 2^-24 (f32) or 2^-53 (f64) relative to the function's value.

A polynomial in a basis is fitted by the exchange algorithm of Remez with a weight; the leading coefficients that must
be exact are kept out of the basis. Coefficients are rounded to the lane one after another, the most significant
first, and the others are fitted again after each.
"""
import sys
from mpmath import mp, mpf, matrix, lu_solve
import mpmath as m

mp.dps = 60


def round_to(x, bits):
    """The nearest number with so many significant bits."""
    if x == 0:
        return mpf(0)
    e = m.floor(m.log(abs(x), 2)) + 1
    s = mpf(2) ** (bits - e)
    return m.nint(x * s) / s


def remez(f, basis, weight, lo, hi, steps=14):
    """Minimises the largest weight(x) * |f(x) - sum c_k basis_k(x)|."""
    n = len(basis)
    if n == 0:
        return []
    mid, half = (lo + hi) / 2, (hi - lo) / 2
    xs = [mid - half * m.cos(m.pi * (mpf(i) + mpf("0.0")) / n) for i in range(n + 1)]
    xs[0] += half * mpf("1e-6")
    xs[-1] -= half * mpf("1e-6")
    grid_n = 24 * (n + 1)
    coefficients = []
    for _ in range(steps):
        a, b = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for i, x in enumerate(xs):
            w = weight(x)
            for k, phi in enumerate(basis):
                a[i, k] = phi(x) * w
            a[i, n] = mpf(-1) ** i
            b[i] = f(x) * w
        c = lu_solve(a, b)
        coefficients = [c[k] for k in range(n)]

        def err(x):
            return weight(x) * (f(x) - sum(ck * phi(x) for ck, phi in zip(coefficients, basis)))

        pts = [mid - half * m.cos(m.pi * (mpf(i) + mpf("0.5")) / grid_n) for i in range(grid_n)]
        es = [err(x) for x in pts]
        runs = []
        for x, e in zip(pts, es):
            if runs and (runs[-1][1] > 0) == (e > 0):
                if abs(e) > abs(runs[-1][1]):
                    runs[-1] = (x, e)
            else:
                runs.append((x, e))
        while len(runs) > n + 1:
            if abs(runs[0][1]) < abs(runs[-1][1]):
                runs.pop(0)
            else:
                runs.pop()
        if len(runs) < n + 1:
            break
        new = [x for x, _ in runs]
        if max(abs(p - q) for p, q in zip(new, xs)) < half * mpf("1e-4"):
            xs = new
            break
        xs = new
    return coefficients


def fit(name, f, powers, weight, lo, hi, bits, fixed=(), unit=None):
    """Fits, rounds and prints. `fixed`: pairs (power, value) that are not fitted."""
    lo, hi = mpf(lo), mpf(hi)
    known = [(p, mpf(v)) for p, v in fixed]
    rest = lambda x: f(x) - sum(v * x ** p for p, v in known)
    c = dict(zip(powers, remez(rest, [lambda x, p=p: x ** p for p in powers], weight, lo, hi)))
    nodes = [(lo + hi) / 2 - (hi - lo) / 2 * m.cos(m.pi * (mpf(i) + mpf("0.5")) / 60) for i in range(60)]
    left = list(powers)
    while left:
        power = left.pop(0)
        rounded = round_to(c[power], bits)
        change, c[power] = c[power] - rounded, rounded
        if left:
            # The coefficients not rounded yet take up the change, in the least squares sense.
            a, b = matrix(len(nodes), len(left)), matrix(len(nodes), 1)
            for i, x in enumerate(nodes):
                b[i] = change * x ** power * weight(x)
                for k, p in enumerate(left):
                    a[i, k] = x ** p * weight(x)
            for p, d in zip(left, lu_solve(a.T * a, a.T * b)):
                c[p] += d
    known += list(c.items())
    known.sort()
    pts = [lo + (hi - lo) * mpf(i) / 4000 for i in range(1, 4000)]
    worst = max(abs(weight(x) * (f(x) - sum(v * x ** p for p, v in known))) for x in pts)
    print(f"// {name}: {m.nstr(worst * mpf(2) ** (24 if bits == 24 else 53), 4)} units")
    values = [v for _, v in known]
    print("&[" + ", ".join(repr(float(v)) for v in values) + "],")
    return known, worst


def exp_tables():
    ln2 = m.log(2)
    for bits, degree in ((24, 7), (53, 13)):
        # On [-ln 2, ln 2]: exp(2 m ln 2 + r) = 4^m exp(r).
        fit(f"exp degree {degree}", m.exp, range(2, degree + 1), lambda x: m.exp(-x), -ln2 * mpf("1.002"),
            ln2 * mpf("1.002"), bits, fixed=((0, 1), (1, 1)))


def log_tables():
    s = m.sqrt(mpf(1) / 2)
    for bits, degrees in ((24, (8, 9)), (53, (20,))):
        for degree in degrees:
            g = lambda x: (m.log(1 + x) - x) / x ** 2 if abs(x) > mpf("1e-15") else mpf(-1) / 2 + x / 3
            w = lambda x: abs(x ** 2 / m.log(1 + x)) if abs(x) > mpf("1e-15") else abs(x)
            fit(f"log tail degree {degree}", g, range(0, degree), w, s - 1, 2 * s - 1, bits)


def atanh_tables():
    # atanh(s) = s + s z A(z), z = s^2, for s = f / (2 + f) with 1 + f between sqrt(1/2) and sqrt(2).
    top = (3 - 2 * m.sqrt(2)) ** 2 * mpf("1.001")
    for bits, degrees in ((53, (6, 7)),):
        for degree in degrees:
            g = lambda z: (m.atanh(m.sqrt(z)) / m.sqrt(z) - 1) / z
            fit(f"atanh degree {degree}", g, range(0, degree), lambda z: z, mpf("1e-12"), top, bits)


def expm1_tables():
    # exp(r) - 1 = r + r^2 E(r) on [-ln 2 / 2, ln 2 / 2].
    half = m.log(2) / 2 * mpf("1.003")
    for bits, degrees in ((24, (4, 5)), (53, (10, 11))):
        for degree in degrees:
            g = lambda r: (m.expm1(r) - r) / r ** 2 if abs(r) > mpf("1e-20") else mpf(1) / 2
            w = lambda r: abs(r ** 2 / m.expm1(r)) if abs(r) > mpf("1e-20") else abs(r)
            fit(f"expm1 tail degree {degree}", g, range(0, degree), w, -half, half, bits)


TABLES = {"atanh": atanh_tables, "expm1": expm1_tables, "exp": exp_tables, "log": log_tables}

if __name__ == "__main__":
    for key in sys.argv[1:] or TABLES:
        TABLES[key]()
