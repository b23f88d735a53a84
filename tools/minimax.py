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


def fit_quotient(name, f, p_terms, q_terms, weight, lo, hi, bits, p_fixed=None, rounds=40, points=160):
    """Fits P(x) / Q(x), Q(0) = 1, to f: least squares, weighted again and again by the error until it is level."""
    lo, hi = mpf(lo), mpf(hi)
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * m.cos(m.pi * (mpf(i) + mpf("0.5")) / points) for i in range(points)]
    fs, ws = [f(x) for x in xs], [weight(x) for x in xs]
    q, level, best = [mpf(1)] * points, [mpf(1)] * points, None
    first = 0 if p_fixed is None else 1
    powers = [[x ** k for k in range(max(p_terms, q_terms + 1))] for x in xs]
    for _ in range(rounds):
        n = p_terms - first + q_terms
        a, b = matrix(points, n), matrix(points, 1)
        for i in range(points):
            s = ws[i] * level[i] / q[i]
            for k in range(first, p_terms):
                a[i, k - first] = powers[i][k] * s
            for k in range(q_terms):
                a[i, p_terms - first + k] = -fs[i] * powers[i][k + 1] * s
            b[i] = (fs[i] - (p_fixed or 0)) * s
        c = list(lu_solve(a.T * a, a.T * b))
        ps = ([mpf(p_fixed)] if first else []) + c[: p_terms - first]
        qs = [mpf(1)] + c[p_terms - first :]
        q = [sum(ck * xk for ck, xk in zip(qs, row)) for row in powers]
        errors = [
            abs(ws[i] * (sum(ck * xk for ck, xk in zip(ps, powers[i])) / q[i] - fs[i])) for i in range(points)
        ]
        if best is None or max(errors) < best[0]:
            best = (max(errors), ps, qs)
        mean = sum(errors) / points
        level = [l * m.sqrt(e / mean) + mpf("1e-9") for l, e in zip(level, errors)]
        top = max(level)
        level = [l / top for l in level]
    ps, qs = [round_to(c, bits) for c in best[1]], [round_to(c, bits) for c in best[2]]
    pts = [lo + (hi - lo) * mpf(i) / 1500 for i in range(1, 1500)]
    value = lambda x: sum(c * x ** k for k, c in enumerate(ps)) / sum(c * x ** k for k, c in enumerate(qs))
    worst = max(abs(weight(x) * (value(x) - f(x))) for x in pts)
    print(f"// {name}: {m.nstr(worst * mpf(2) ** (24 if bits == 24 else 53), 4)} units")
    for c in (ps, qs):
        print("&[" + ", ".join(repr(float(v)) for v in c) + "],")


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


def trig_tables():
    top = (m.pi / 4 * mpf("1.002")) ** 2
    for bits, ns, nc in ((24, 3, 3), (53, 6, 6)):
        g = lambda z: (m.sin(m.sqrt(z)) / m.sqrt(z) - 1) / z
        w = lambda z: z / (m.sin(m.sqrt(z)) / m.sqrt(z))
        fit(f"sin: (sin(t) / t - 1) / z, {ns} terms", g, range(ns), w, mpf("1e-12"), top, bits)
        g = lambda z: (m.cos(m.sqrt(z)) - 1 + z / 2) / z ** 2
        w = lambda z: z ** 2 / m.cos(m.sqrt(z))
        fit(f"cos: (cos(t) - 1 + z / 2) / z^2, {nc} terms", g, range(nc), w, mpf("1e-12"), top, bits)


def inverse_trig_tables():
    top = (m.sqrt(2) - 1) ** 2 * mpf("1.002")
    for bits, n in ((24, 4), (53, 10), (53, 11)):
        g = lambda z: (m.atan(m.sqrt(z)) / m.sqrt(z) - 1) / z
        w = lambda z: z / (m.atan(m.sqrt(z)) / m.sqrt(z))
        fit(f"atan: (atan(t) / t - 1) / z, {n} terms", g, range(n), w, mpf("1e-12"), top, bits)
    for bits, n in ((24, 4), (24, 5), (53, 12), (53, 13)):
        g = lambda z: (m.asin(m.sqrt(z)) / m.sqrt(z) - 1) / z
        w = lambda z: z / (m.asin(m.sqrt(z)) / m.sqrt(z))
        fit(f"asin: (asin(t) / t - 1) / z, {n} terms", g, range(n), w, mpf("1e-12"), mpf("0.2502"), bits)


def hyperbolic_tables():
    for bits, n in ((24, 3), (24, 4), (53, 7), (53, 8)):
        g = lambda z: (m.sinh(m.sqrt(z)) / m.sqrt(z) - 1) / z
        w = lambda z: z / (m.sinh(m.sqrt(z)) / m.sqrt(z))
        fit(f"sinh: (sinh(t) / t - 1) / z up to 1, {n} terms", g, range(n), w, mpf("1e-12"), mpf("1.002"), bits)


def erf_tables():
    for n in (11, 12):
        g = lambda z: m.erf(m.sqrt(z)) / m.sqrt(z) - 1
        w = lambda z: m.sqrt(z) / m.erf(m.sqrt(z))
        fit(f"erf: erf(t) / t - 1 up to 0.9, {n} terms", g, range(n), w, mpf("1e-12"), mpf("0.81") * mpf("1.002"), 53)
    g = lambda x: m.exp(x * x) * m.erfc(x)
    w = lambda x: m.exp(-x * x) / m.erf(x)
    fit_quotient("erf: exp(x^2) erfc(x) from 0.9 to 6", g, 6, 6, w, "0.899", 6, 53)
    g = lambda z: m.erf(m.sqrt(z)) / m.sqrt(z)
    fit_quotient("erf(x) / x in x^2 up to 3.93", g, 6, 5, lambda z: 1 / g(z), mpf("1e-9"), mpf("3.93") ** 2, 24)


def tanh_tables():
    g = lambda z: m.tanh(m.sqrt(z)) / m.sqrt(z)
    fit_quotient("tanh(x) / x in x^2 up to 9.02", g, 5, 4, lambda z: 1 / g(z), mpf("1e-9"), mpf("9.02") ** 2, 24, 1)


def pow_tables():
    # For f32 in f64: log2((1 + s) / (1 - s)) / s in powers of s^2, and 2^r.
    top = (3 - 2 * m.sqrt(2)) ** 2 * mpf("1.001")
    for n in (5, 8):
        g = lambda z: 2 * m.atanh(m.sqrt(z)) / m.sqrt(z) / m.log(2)
        fit(f"log2, {n} terms", g, range(n), lambda z: 1 / g(z), mpf("1e-12"), top, 53)
    for n in (6, 7):
        fit(f"exp2, {n} terms", lambda r: mpf(2) ** r, range(n), lambda r: mpf(2) ** -r, mpf("-0.501"), mpf("0.501"), 53)


def pow_double_tables():
    # For f64: what follows 1 + z / 3 in atanh(s) / s, divided by z^2.
    top = (3 - 2 * m.sqrt(2)) ** 2 * mpf("1.001")
    for n in (8, 9):
        g = lambda z: ((m.atanh(m.sqrt(z)) / m.sqrt(z) - 1) / z - mpf(1) / 3) / z
        fit(f"atanh beyond z / 3, {n} terms", g, range(n), lambda z: z * z, mpf("1e-9"), top, 53)


TABLES = {
    "exp": exp_tables,
    "expm1": expm1_tables,
    "log": log_tables,
    "atanh": atanh_tables,
    "trig": trig_tables,
    "inverse_trig": inverse_trig_tables,
    "hyperbolic": hyperbolic_tables,
    "erf": erf_tables,
    "tanh": tanh_tables,
    "pow": pow_tables,
    "pow_double": pow_double_tables,
}

if __name__ == "__main__":
    for key in sys.argv[1:] or TABLES:
        TABLES[key]()
