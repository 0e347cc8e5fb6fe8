"""Student's t: its distribution and its 97.5 % quantile. Pure, and without an import.

scipy.special has both and takes 0.4 to 0.7 s of the CPU to import with what it needs, which is
more than all else that comparing two runs takes. So they stand here, by the regularised
incomplete beta function and its continued fraction (NIST Digital Library of Mathematical
Functions, 8.17.22); the tests hold them against scipy's.
"""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

_TINY = 1e-300
_CLOSE = 1e-15
_MOST_TERMS = 20_000
_MOST_STEPS = 100
_NEAR = 1e-12


def two_sided(t: float, freedom: float) -> float:
    """The chance of a value at least as far from zero as `t`, 0 to 1."""
    if not math.isfinite(t):
        return 0.0
    square = t * t
    if math.isinf(freedom) or math.isinf(square):
        return 0.0 if math.isinf(square) else math.erfc(abs(t) / math.sqrt(2))
    # Both shares are computed: 1 less the one would lose the other where it is tiny.
    total = freedom + square
    return _incomplete_beta(freedom / 2, 0.5, freedom / total, square / total)


@functools.cache
def quantile(freedom: float, level: float) -> float:
    """How far from zero `level` of all values lie at most, for 0 < level < 1."""
    # The chance to lie beyond falls ever more slowly, and the normal distribution's quantile lies
    # below Student's: from there Newton's steps come nearer and never pass by.
    at = NormalDist().inv_cdf(0.5 + level / 2)
    for _ in range(_MOST_STEPS):
        step = (two_sided(at, freedom) - (1 - level)) / (2 * _density(at, freedom))
        at += step
        if step < _NEAR * at:
            break
    return at


def _density(t: float, freedom: float) -> float:
    if math.isinf(freedom):
        return NormalDist().pdf(t)
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    shape = (freedom + 1) / 2 * math.log1p(t * t / freedom)
    return math.exp(scale - shape) / math.sqrt(freedom * math.pi)


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function of x, with `rest` = 1 - x."""
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        # There the fraction of the other side converges, and this one hardly.
        return 1 - _incomplete_beta(b, a, rest, x)
    logarithm = a * math.log(x) + b * math.log(rest) - math.log(a)
    logarithm += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(logarithm) / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d1 x / (1 + d2 x / (1 + ...)), from the front (the modified method of Lentz)."""
    value, numerator, denominator = 1.0, 1.0, 0.0
    for term in range(1, _MOST_TERMS):
        half = term // 2
        if term % 2:
            factor = -(a + half) * (a + b + half) / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            factor = half * (b - half) / ((a + 2 * half - 1) * (a + 2 * half))
        denominator = 1 / ((1 + factor * x * denominator) or _TINY)
        numerator = (1 + factor * x / numerator) or _TINY
        step = numerator * denominator
        value *= step
        if abs(step - 1) < _CLOSE:
            break
    return value
