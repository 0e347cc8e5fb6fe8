"""Two runs, or two sets of them, row by row: what moved, by how much, and whether it is more
than noise. Pure: documents in, a Comparison out; views/comparison.py turns it into text.

The method. A side is one run or several (a tag). Between two single runs a row's difference is
that of its two medians over loads; half widths add as roots of squares do. Loads of one run do
not show what differs from run to run, so a difference must also exceed what either run could
tell apart (its A/A twin), and in nanoseconds what the two clocks alone would make of the figure.
With three runs or more a side the run is the unit: Welch's interval of the means over runs
(B. L. Welch, Biometrika 34, 1947). With two the extremes of the runs' intervals are taken.

Many rows are judged at once. The interval shown is that of the row alone; the verdict takes one
widened so that all rows together have one false alarm in twenty (Bonferroni).
Counts are exact: what differs, differs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdplab.environments import Unlike, clock_ghz, unlike
from xdplab.records import RESOLVED, TOO_FEW_LOADS, WITHIN_NOISE, Document, Estimate, Result
from xdplab.stats import estimates
from xdplab.suites.base import TWIN

EQUAL = "equal"
"""The verdict on a count that is the same on both sides."""

NOT_JUDGED = "not judged"
"""The verdict where the sides' environments are unlike and nobody asked for one all the same."""

ENOUGH_RUNS = 3
"""Runs a side from which on they, not their loads, say how far figures vary."""

_EXACT_LEVEL = 1.0
_LINES = "line_insns"

Key = tuple[str, str, str, str, str | None, str, tuple[tuple[str, int | str], ...]]


@dataclass(frozen=True, slots=True)
class Side:
    """What stands on one side: a name for it and its runs, at least one."""

    name: str
    documents: Sequence[Document]

    def __post_init__(self) -> None:
        if not self.documents:
            raise ValueError(f"the side {self.name!r} has no run")


@dataclass(frozen=True, slots=True)
class Difference:
    """One row on both sides, in the metric's unit (or cycles).

    `result` tells which row it is. `change` is after - before, `percent` the same of before,
    None where before is not above nothing. `resolution` is what a change must exceed. `is_worse`
    says whether the change goes to the worse side: up for costs and counts, down for rates.
    """

    result: Result
    before: Estimate
    after: Estimate
    change: Estimate
    percent: Estimate | None
    resolution: float
    verdict: str
    is_worse: bool

    @property
    def is_exact(self) -> bool:
        return self.result.estimate is not None and self.result.estimate.level == _EXACT_LEVEL


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides row by row. `only` has, for each side, the rows that the other lacks.

    `unlike` is why rows are NOT_JUDGED, unless that was waived. `notes` say what a reader must
    know of the runs themselves.
    """

    before: Side
    after: Side
    unit: str
    rows: Sequence[Difference]
    only: tuple[Sequence[Result], Sequence[Result]]
    unlike: Sequence[Unlike]
    notes: Sequence[str]

    @property
    def is_judged(self) -> bool:
        return all(row.verdict != NOT_JUDGED for row in self.rows)


def compare(before: Side, after: Side, *, across: bool = False, cycles: bool = False) -> Comparison:
    """Compare what both sides have measured.

    Without `across`, rows of sides whose environments are unlike get no verdict. With `cycles`
    figures are in cycles of the core's clock, and rows whose clock is not known are left out.
    """
    here, there = _by_key(before), _by_key(after)
    differences = unlike([before.documents, after.documents])
    judge = across or not differences
    common = [key for key in here if key in there]
    # Lines of a listing are looked at where they differ; all others would bury those.
    rows = [row for key in common if (row := _row(here[key], there[key], (before, after), cycles))]
    judged = [_judged(row, len(rows)) if judge else row for row in rows]
    shown = [row for row in judged if row.result.metric != _LINES or row.verdict != EQUAL]
    only = (
        [results[0] for key, results in here.items() if key not in there],
        [results[0] for key, results in there.items() if key not in here],
    )
    unit = "cycles" if cycles else ""
    return Comparison(before, after, unit, shown, only, differences, _notes((before, after)))


def in_columns(sides: Sequence[Side]) -> list[tuple[Result, list[Estimate | None]]]:
    """Every row that any side has, with each side's figure: a column a machine.

    Of a side of several runs it is the median of their points between their extreme ends.
    """
    found = [_by_key(side) for side in sides]
    keys = {key: results[0] for side in found for key, results in side.items()}
    return [
        (result, [_envelope(side[key]) if key in side else None for side in found])
        for key, result in keys.items()
        if result.metric != _LINES
    ]


def worse_than(comparison: Comparison, limit: float, unit: str) -> list[Difference]:
    """Rows that are worse by more than `limit`, and surely so: resolved, and with the near end of
    the interval beyond it. `unit` is "%" or that of a metric; rows of other units never count."""
    found = []
    for row in comparison.rows:
        change = row.percent if unit == "%" else row.change
        if row.verdict != RESOLVED or not row.is_worse or change is None:
            continue
        if unit not in {"%", comparison.unit or row.result.metric.rpartition("_")[2]}:
            continue
        if min(abs(change.low), abs(change.high)) > limit:
            found.append(row)
    return found


def _by_key(side: Side) -> dict[Key, list[Result]]:
    """Results with a figure, by what they are of; one for each run of the side at most.

    A/A twins tell what a run can tell apart and are no row of their own.
    """
    found: dict[Key, list[Result]] = {}
    for document in side.documents:
        of_document: dict[Key, Result] = {}
        for result in document.results:
            if result.estimate is not None and result.variant != TWIN:
                of_document.setdefault(_key(result), result)
        for key, result in of_document.items():
            found.setdefault(key, []).append(result)
    return found


def _key(result: Result) -> Key:
    # A count's object is named by its file, which before and after a change need not share.
    parameters = {k: v for k, v in result.parameters.items() if (result.suite, k) != _OBJECT}
    return (
        result.suite, result.engine, result.method, result.variant, result.baseline, result.metric,
        tuple(sorted(parameters.items())),
    )  # fmt: skip


_OBJECT = ("count", "object")


def _row(
    before: Sequence[Result], after: Sequence[Result], sides: tuple[Side, Side], cycles: bool
) -> Difference | None:
    result = after[0]
    olds, news = _figures(before, cycles), _figures(after, cycles)
    if not olds or not news:
        return None
    old, new = _middle(olds), _middle(news)
    if min(len(olds), len(news)) >= ENOUGH_RUNS:
        change = _welch(olds, news, estimates.LEVEL)
    else:
        change = estimates.total(new, _negative(old))
    if old.level == _EXACT_LEVEL:
        # Their ends are extremes over packets, no error: the change has none either.
        moved = new.point - old.point
        change = Estimate(moved, moved, moved, _EXACT_LEVEL, new.n)
    percent = None
    if old.point > 0:
        point, low, high = (
            100 * part / old.point for part in (change.point, change.low, change.high)
        )
        percent = Estimate(point, low, high, change.level, change.n)
    is_better_up = result.metric.endswith("_pps")
    return Difference(
        result=result,
        before=old,
        after=new,
        change=change,
        percent=percent,
        resolution=_resolution(before, after, old, sides, cycles),
        verdict=NOT_JUDGED,
        is_worse=change.point < 0 if is_better_up else change.point > 0,
    )


def _judged(row: Difference, rows: int) -> Difference:
    if row.is_exact:
        same = (row.before.point, row.before.low, row.before.high) == (
            row.after.point, row.after.low, row.after.high,
        )  # fmt: skip
        return replace(row, verdict=EQUAL if same else RESOLVED)
    if math.isinf(row.change.low):
        return replace(row, verdict=TOO_FEW_LOADS)
    normal = statistics.NormalDist()
    wanted, shown = (1 - (1 - estimates.LEVEL) / (2 * count) for count in (rows, 1))
    wider = normal.inv_cdf(wanted) / normal.inv_cdf(shown)
    low = row.change.point - wider * (row.change.point - row.change.low)
    high = row.change.point + wider * (row.change.high - row.change.point)
    is_real = (low > 0 or high < 0) and abs(row.change.point) > row.resolution
    return replace(row, verdict=RESOLVED if is_real else WITHIN_NOISE)


def _figures(results: Sequence[Result], cycles: bool) -> list[Estimate]:
    figures = (result.cycles if cycles else result.estimate for result in results)
    return [figure for figure in figures if figure is not None]


def _middle(figures: Sequence[Estimate]) -> Estimate:
    """One run's figure, or that of several: their median between their extreme ends, and their
    mean between its ends by Student where there are enough."""
    if len(figures) == 1:
        return figures[0]
    if len(figures) < ENOUGH_RUNS or figures[0].level == _EXACT_LEVEL:
        return Estimate(
            statistics.median(figure.point for figure in figures),
            min(figure.low for figure in figures),
            max(figure.high for figure in figures),
            figures[0].level,
            sum(figure.n for figure in figures),
        )
    points = [figure.point for figure in figures]
    mean = statistics.fmean(points)
    half = _student(len(points) - 1, estimates.LEVEL) * statistics.stdev(points)
    half /= math.sqrt(len(points))
    return Estimate(mean, mean - half, mean + half, estimates.LEVEL, len(points))


def _envelope(results: Sequence[Result]) -> Estimate:
    return _middle(_figures(results, cycles=False))


def _welch(olds: Sequence[Estimate], news: Sequence[Estimate], level: float) -> Estimate:
    sides = [[figure.point for figure in figures] for figures in (olds, news)]
    change = statistics.fmean(sides[1]) - statistics.fmean(sides[0])
    parts = [statistics.variance(points) / len(points) for points in sides]
    error = math.sqrt(sum(parts))
    half = 0.0
    if error > 0:
        freedom = sum(parts) ** 2 / sum(
            part**2 / (len(points) - 1) for part, points in zip(parts, sides, strict=True)
        )
        half = _student(freedom, level) * error
    return Estimate(change, change - half, change + half, level, min(map(len, sides)))


def _student(freedom: float, level: float) -> float:
    from scipy import stats as scipy_stats

    return float(scipy_stats.t.ppf((1 + level) / 2, freedom))


def _negative(figure: Estimate) -> Estimate:
    return Estimate(-figure.point, -figure.high, -figure.low, figure.level, figure.n)


def _resolution(
    before: Sequence[Result],
    after: Sequence[Result],
    old: Estimate,
    sides: tuple[Side, Side],
    cycles: bool,
) -> float:
    """What a change must exceed beside its own interval, in the unit compared."""
    if min(len(before), len(after)) >= ENOUGH_RUNS:
        return 0.0
    ghz = [clock_ghz(side.documents) for side in sides]
    if cycles:
        scale = max((clock for clock in ghz if clock is not None), default=1.0)
        return scale * _twins(before, after)
    clocks = 0.0
    known = [clock for clock in ghz if clock is not None]
    if len(known) == len(ghz) and before[0].metric.endswith("_ns"):
        clocks = abs(old.point) * abs(known[0] / known[1] - 1)
    return math.hypot(_twins(before, after), clocks)


def _twins(before: Sequence[Result], after: Sequence[Result]) -> float:
    return math.hypot(
        *(max((result.resolution or 0.0) for result in results) for results in (before, after))
    )


def _notes(sides: tuple[Side, Side]) -> list[str]:
    return [*_unfinished(sides), *_clocks(sides)]


def _unfinished(sides: tuple[Side, Side]) -> Iterator[str]:
    for side in sides:
        cut = sum(not document.run.complete for document in side.documents)
        if cut:
            yield f"{side.name}: {cut} of {len(side.documents)} runs did not go to their end."


def _clocks(sides: tuple[Side, Side]) -> Iterator[str]:
    before, after = (clock_ghz(side.documents) for side in sides)
    if before is not None and after is not None and abs(after / before - 1) > 0.02:
        yield (
            f"The clock was {before:.2f} GHz, then {after:.2f} GHz: figures in ns move with it, "
            "and must move by more to count. --unit cycles compares without it."
        )
