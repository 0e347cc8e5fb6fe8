"""Differences of figures of independent runs, with an interval and a chance of being nothing.

Within a run the interval of a figure comes from its loads (estimates.py). From run to run more
moves: where the kernel's memory lies, neighbours, the clock. One run a side does not show how
much, and an allowance stands for it; with several runs a side the run is the unit, and its
spread is measured (Student's t with Welch's degrees of freedom: Welch, "The generalization of
'Student's' problem", Biometrika 34, 1947). Many rows are judged at once: Holm's procedure
("A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics
6, 1979) keeps the chance of one false verdict among all of them at what it is for one. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdplab.records import Estimate
from xdplab.stats import student
from xdplab.stats.estimates import LEVEL


@dataclass(frozen=True, slots=True)
class Spread:
    """What figures of runs differ by: their variance (unit of the figure, squared) and its
    degrees of freedom."""

    variance: float
    freedom: float


@dataclass(frozen=True, slots=True)
class SideFigure:
    """One side's figure: its point, the squared standard errors below and above it (unit of the
    figure, squared), and the degrees of freedom of that variance. `n` counts runs."""

    point: float
    below: float
    above: float
    freedom: float
    n: int

    def estimate(self) -> Estimate:
        """The side's figure with an interval at 95 %."""
        if not math.isfinite(self.below + self.above):
            return Estimate(self.point, -math.inf, math.inf, LEVEL, self.n)
        factor = student.quantile(self.freedom, LEVEL)
        return Estimate(
            self.point,
            self.point - factor * math.sqrt(self.below),
            self.point + factor * math.sqrt(self.above),
            LEVEL,
            self.n,
        )


def side_figure(
    figures: Sequence[Estimate], allowance: float, others: Spread | None = None
) -> SideFigure:
    """The figures of one row in a side's runs as one.

    One run: its own interval, widened by `allowance`, a standard deviation from run to run in
    the figure's unit; `others`, where the other side's runs have shown a spread, stands in its
    place. Several: their mean and the variance of that mean, which is never less than what their
    own intervals leave (a few runs may agree by chance), of those runs that have one.
    ValueError without figures.
    """
    if not figures:
        raise ValueError("a side needs at least one figure")
    count = len(figures)
    # A run with too few loads for an interval is a run of its side all the same.
    known = [one for one in figures if math.isfinite(one.half_width)] or figures
    below = _mean([_variance(one.point - one.low, one.n) for one in known])
    above = _mean([_variance(one.high - one.point, one.n) for one in known])
    if count == 1:
        spread = allowance**2 if others is None else others.variance
        freedom = _freedom(figures[0].n)
        if others is not None:
            freedom = min(freedom, others.freedom)
        return SideFigure(figures[0].point, below + spread, above + spread, freedom, 1)
    of_runs = variance([one.point for one in figures])
    return SideFigure(
        _mean([one.point for one in figures]),
        max(of_runs, below) / count,
        max(of_runs, above) / count,
        count - 1,
        count,
    )


def variance(values: Sequence[float]) -> float:
    """The sample variance, of two values at least."""
    middle = _mean(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)


def difference(first: SideFigure, second: SideFigure) -> tuple[Estimate, float]:
    """second - first with its 95 % interval, and the chance of one so large if there is none.

    The chance is two-sided and 1 where an interval is not known.
    """
    point = second.point - first.point
    below, above = second.below + first.above, second.above + first.below
    count = min(first.n, second.n)
    if not math.isfinite(below + above):
        return Estimate(point, -math.inf, math.inf, LEVEL, count), 1.0
    low_freedom = _welch((second.below, second.freedom), (first.above, first.freedom))
    high_freedom = _welch((second.above, second.freedom), (first.below, first.freedom))
    estimate = Estimate(
        point,
        point - student.quantile(low_freedom, LEVEL) * math.sqrt(below),
        point + student.quantile(high_freedom, LEVEL) * math.sqrt(above),
        LEVEL,
        count,
    )
    # Of the side that faces zero: an interval need not be symmetric.
    variance_, freedom = (below, low_freedom) if point > 0 else (above, high_freedom)
    if not point:
        return estimate, 1.0
    if not variance_:
        return estimate, 0.0
    return estimate, student.two_sided(point / math.sqrt(variance_), freedom)


def holm(chances: Sequence[float]) -> list[float]:
    """Chances adjusted so that one among all of them below 5 % is as rare as for a single one."""
    order = sorted(range(len(chances)), key=chances.__getitem__)
    adjusted = [1.0] * len(chances)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, chances[place] * (len(chances) - rank)))
        adjusted[place] = largest
    return adjusted


def _variance(half_width: float, trials: int) -> float:
    """Of a figure with this half width. Its interval minds how few trials there were
    (estimates.py), so that it is Student's already: to divide by the normal distribution's quantile
    and multiply by Student's would count that twice."""
    return (half_width / student.quantile(_freedom(trials), LEVEL)) ** 2


def _freedom(trials: int) -> float:
    return max(trials - 1.0, 1.0)


def _welch(one: tuple[float, float], other: tuple[float, float]) -> float:
    total = one[0] + other[0]
    if not total:
        return min(one[1], other[1])
    # As shares of the whole: squares of tiny variances would be nothing.
    return 1 / sum((part / total) ** 2 / freedom for part, freedom in (one, other))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
