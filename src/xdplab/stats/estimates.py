"""From trials to an estimate with an interval, and to a verdict.

The estimate is the median over trials (one load each), the interval a percentile bootstrap
of that median over trials (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993,
chapter 13; scipy.stats.bootstrap). Loads are what varies: where the JIT places a program
decides more than the calls within one load, so resampling calls would promise too much.
Nothing here reads a clock or a file; randomness is seeded, so equal samples give equal text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdplab.records import RESOLVED, TOO_FEW_LOADS, WITHIN_NOISE, Estimate

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LEVEL = 0.95
MINIMUM_TRIALS = 5
"""Fewer give a point and no interval: 5 values' median lies between their extremes with
probability 1 - 2 * 0.5**5 = 0.94; with fewer that falls to 0.88 and below."""

_RESAMPLES = 2000
_BATCH_VALUES = 200_000

_EXACT_BELOW = 12
"""Trials below which the bootstrap alone promises too much: of seven values it takes the second
and the sixth, which hold the median in 87 % of cases."""
_SEED = 20


def estimate(points: Sequence[float], quantum: float, level: float = LEVEL) -> Estimate:
    """The median of the trials' figures with its bootstrap interval.

    `points` are in ns per operation, one a trial. `quantum` is the step of the clock behind
    them in the same unit: an interval narrower than the clock's own step is widened to it.
    ValueError without points.
    """
    # A tenth of a second to import, which who only shows what is known need not wait for.
    import numpy as np

    # Sorted: resampling draws places, and the order of trials must not decide the interval.
    values = np.sort(np.asarray(points, dtype=np.float64))
    if values.size == 0:
        raise ValueError("an estimate needs at least one trial")
    point = float(np.median(values))
    if values.size < MINIMUM_TRIALS:
        return Estimate(point, -math.inf, math.inf, level, int(values.size))
    low, high = point, point
    # All trials may agree to the last digit of a whole-ns clock; resampling them is idle.
    if np.ptp(values) > 0:
        low, high = _bootstrap(values, level)
        if values.size < _EXACT_BELOW:
            exact_low, exact_high = _order_statistics(values, level)
            low, high = min(low, exact_low), max(high, exact_high)
    return Estimate(
        point=point,
        low=min(low, point - quantum / 2),
        high=max(high, point + quantum / 2),
        level=level,
        n=int(values.size),
    )


def _order_statistics(values: npt.NDArray[np.float64], level: float) -> tuple[float, float]:
    """The narrowest pair of equal ranks that holds the median with probability `level`, or the
    extremes: how many values lie below the median is binomial, whatever their distribution."""
    count = int(values.size)
    best = 0
    outside = 2 * 0.5**count
    while best + 1 < (count + 1) // 2:
        outside += 2 * math.comb(count, best + 1) * 0.5**count
        if 1 - outside < level:
            break
        best += 1
    return float(values[best]), float(values[count - 1 - best])


def _bootstrap(values: npt.NDArray[np.float64], level: float) -> tuple[float, float]:
    # Half a second to import, which only who has measured something should wait for.
    import numpy as np
    from scipy import stats as scipy_stats

    interval = scipy_stats.bootstrap(
        (values,),
        np.median,
        confidence_level=level,
        n_resamples=_RESAMPLES,
        method="percentile",
        vectorized=True,
        # All resamples at once would take gigabytes for long runs.
        batch=max(1, _BATCH_VALUES // values.size),
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def spread(points: Sequence[float]) -> float:
    """A quick stand-in for the interval's half width, to decide where to measure on.

    1.57 times the interquartile range over sqrt(n): the notch of a box plot (McGill, Tukey and
    Larsen 1978). Infinite below MINIMUM_TRIALS.
    """
    if len(points) < MINIMUM_TRIALS:
        return math.inf
    import numpy as np

    low, high = np.percentile(points, (25, 75))
    return float(1.57 * (high - low) / math.sqrt(len(points)))


def resolution(twin: Estimate) -> float:
    """What a run can tell apart: how far from nothing its A/A twin's interval reaches.

    The twin is the same program loaded twice, so all it shows is error.
    """
    return max(abs(twin.low), abs(twin.high))


def verdict(figure: Estimate, resolution: float | None) -> str:
    """RESOLVED where the interval leaves out zero and the point exceeds the run's resolution.

    TOO_FEW_LOADS where there is no interval to judge by.
    """
    if math.isinf(figure.low):
        return TOO_FEW_LOADS
    outside = figure.low > 0 or figure.high < 0
    beyond = resolution is None or abs(figure.point) > resolution
    return RESOLVED if outside and beyond else WITHIN_NOISE


def total(first: Estimate, second: Estimate) -> Estimate:
    """The sum of two independent figures; half widths add as roots of squares do.

    Each side of the interval on its own, since a bootstrap interval need not be symmetric.
    """
    point = first.point + second.point
    below = math.hypot(first.point - first.low, second.point - second.low)
    above = math.hypot(first.high - first.point, second.high - second.point)
    return Estimate(
        point, point - below, point + above, min(first.level, second.level), min(first.n, second.n)
    )


def scaled(figure: Estimate, factor: float) -> Estimate:
    """The figure times a factor that is known exactly and not below zero."""
    return Estimate(
        factor * figure.point, factor * figure.low, factor * figure.high, figure.level, figure.n
    )


def ratio(numerator: Estimate, denominator: Estimate) -> Estimate | None:
    """Their ratio with relative errors added as roots of squares; None where it has no meaning
    because the denominator's interval reaches zero."""
    if not denominator.low > 0:
        return None
    point = numerator.point / denominator.point
    below = math.hypot(
        (numerator.point - numerator.low) / denominator.point,
        point * (denominator.high - denominator.point) / denominator.point,
    )
    above = math.hypot(
        (numerator.high - numerator.point) / denominator.point,
        point * (denominator.point - denominator.low) / denominator.point,
    )
    return Estimate(
        point,
        point - below,
        point + above,
        min(numerator.level, denominator.level),
        min(numerator.n, denominator.n),
    )
