"""Two runs, or two sets of them, row by row: what moved, by how much, and whether it is more
than noise. Pure: documents in, a Comparison out; views/comparison.py turns it into text.

The method. A side is one run or several (a tag). A run's interval comes from its loads, which do
not show what differs from run to run: one run a side gets an allowance for it (ALLOWANCE), and of
several the spread is measured, and the run is the unit (stats/differences.py). A difference must
also exceed what the runs could tell apart (their A/A twins), and one in nanoseconds must be there
in cycles as well where the clock is known: a slower clock makes everything dearer.

Many rows are judged at once. The interval shown is that of the row alone; the verdict goes by a
chance that all rows share, so that all together have one false alarm in twenty (Holm).
Counts are exact: what differs, differs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdplab.environments import Unlike, clock_ghz, unlike
from xdplab.matching import by_key
from xdplab.records import PARTS, RESOLVED, TOO_FEW_LOADS, WITHIN_NOISE, Document, Estimate, Result
from xdplab.stats import differences, estimates, rates

EQUAL = "equal"
"""The verdict on a count that is the same on both sides."""

NOT_JUDGED = "not judged"
"""The verdict where the sides' environments are unlike and nobody asked for one all the same."""

ALLOWANCE = 0.01
"""Standard deviation from run to run as a share of a figure, for sides of one run: an assumption.
What runs of one machine really differed by, and how often that made an alarm, is in docs/compare.md
(benchmarks/compare_alarms.py measures it): at times far more."""

_EXACT_LEVEL = 1.0
_LARGEST = 1e50
"""Of anything that was ever measured, in any unit: squares of more would overflow."""


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
    None where before is not above nothing. `resolution` is what a change must exceed. `chance` is
    that of such a change if there is none, adjusted for all rows that were judged with it.
    `is_worse` says whether the change goes to the worse side: up for costs and counts, down for
    rates. `note` says what else decided the verdict.
    """

    result: Result
    before: Estimate
    after: Estimate
    change: Estimate
    percent: Estimate | None
    resolution: float
    verdict: str
    is_worse: bool
    chance: float = 1.0
    note: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether it is a count, of which any difference is one."""
        return _is_exact(self.result)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides row by row. `only` has, for each side, the rows that the other lacks.

    `unlike` is why rows are NOT_JUDGED, unless that was waived. `notes` say what a reader must
    know of the runs themselves. `compared` counts the rows that both have: `rows` leave out
    source lines that did not change.
    """

    before: Side
    after: Side
    unit: str
    rows: Sequence[Difference]
    only: tuple[Sequence[Result], Sequence[Result]]
    unlike: Sequence[Unlike]
    notes: Sequence[str]
    compared: int

    @property
    def is_judged(self) -> bool:
        """Whether no verdict was refused; counts have theirs in any case."""
        return all(row.verdict != NOT_JUDGED for row in self.rows)

    def judged_in(self, unit: str) -> bool:
        """Whether any row has a verdict and is in `unit`: "%", or that of a metric."""
        return any(
            row.verdict != TOO_FEW_LOADS and _change_in(self, row, unit) is not None
            for row in self.rows
        )


def compare(before: Side, after: Side, *, across: bool = False, cycles: bool = False) -> Comparison:
    """Compare what both sides have measured.

    Without `across`, rows of sides whose environments are unlike get no verdict. With `cycles`
    figures are in cycles of the core's clock, and rows whose clock is not known are left out.
    """
    here, there = by_key(before.documents), by_key(after.documents)
    differing = unlike([before.documents, after.documents])
    judge = across or not any(one.decides for one in differing)
    common = [key for key in here if key in there]
    # Parts of figures are looked at where they differ; all others would bury those.
    rows = [row for key in common if (row := _row(here[key], there[key], (before, after), cycles))]
    shown = [
        row
        for row in _judged(rows, judge)
        if row.result.metric not in PARTS or row.verdict != EQUAL
    ]
    only = (
        [results[0] for key, results in here.items() if key not in there],
        [results[0] for key, results in there.items() if key not in here],
    )
    unit = "cycles" if cycles else ""
    return Comparison(
        before, after, unit, shown, only, differing, _notes((before, after)), len(rows)
    )


def in_columns(
    sides: Sequence[Side], cycles: bool = False
) -> list[tuple[Result, list[Estimate | None]]]:
    """Every row that any side has, with each side's figure: a column a machine.

    Of a side of several runs it is the median of their points between their extreme ends.
    """
    found = [by_key(side.documents) for side in sides]
    keys = {key: results[0] for side in found for key, results in side.items()}
    return [
        (result, [_column(side.get(key), cycles) for side in found])
        for key, result in keys.items()
        if result.metric not in PARTS
    ]


def _column(results: Sequence[Result] | None, cycles: bool) -> Estimate | None:
    cycles = cycles and bool(results) and results is not None and results[0].metric.endswith("_ns")
    figures = _figures(results or (), cycles)
    return _envelope(figures) if figures else None


def worse_than(comparison: Comparison, limit: float, unit: str) -> list[Difference]:
    """Rows that are worse by more than `limit`, and surely so: resolved, and with the near end of
    the interval beyond it. `unit` is "%" or that of a metric; rows of other units never count, and
    parts of a figure do not: one may pay for what another saves."""
    found = []
    for row in comparison.rows:
        change = _change_in(comparison, row, unit)
        if row.verdict != RESOLVED or not row.is_worse or change is None:
            continue
        if row.result.metric in PARTS:
            continue
        if min(abs(change.low), abs(change.high)) > limit:
            found.append(row)
    return found


def _change_in(comparison: Comparison, row: Difference, unit: str) -> Estimate | None:
    if unit == "%":
        return row.percent
    cycles = comparison.unit if row.result.metric.endswith("_ns") else ""
    return row.change if unit == (cycles or row.result.metric.rpartition("_")[2]) else None


def _row(
    before: Sequence[Result], after: Sequence[Result], sides: tuple[Side, Side], cycles: bool
) -> Difference | None:
    result = after[0]
    cycles = cycles and result.metric.endswith("_ns")
    olds, news = _figures(before, cycles), _figures(after, cycles)
    if not olds or not news:
        return None
    if _is_exact(result):
        old, new, chance, note = _envelope(olds), _envelope(news), 0.0, ""
        # Their ends are extremes over packets, no error: the change has none either.
        moved = new.point - old.point
        change = Estimate(moved, moved, moved, _EXACT_LEVEL, new.n)
    else:
        first, second = _figure(olds, olds, news), _figure(news, olds, news)
        # A run's own figure is shown as it is; what is allowed for runs is in the change alone.
        old, new = (
            figures[0] if len(figures) == 1 else side.estimate()
            for figures, side in ((olds, first), (news, second))
        )
        change, chance = differences.difference(first, second)
        note = "" if cycles else _excuse(before, after, change.point)
    percent = None
    if old.point > 1 / _LARGEST:
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
        chance=chance,
        note=note,
    )


def _judged(rows: Sequence[Difference], judge: bool) -> list[Difference]:
    """The rows with their verdicts; of unlike environments only counts have some."""
    by_chance = [row for row in rows if not row.is_exact and math.isfinite(row.change.low)]
    adjusted = iter(differences.holm([row.chance for row in by_chance]))
    found = []
    for row in rows:
        if row.is_exact:
            same = (row.before.point, row.before.low, row.before.high) == (
                row.after.point, row.after.low, row.after.high,
            )  # fmt: skip
            # What is rounded, as a guest's whole runs are, is equal within that.
            same = same or 0 < abs(row.change.point) <= row.resolution
            found.append(replace(row, verdict=EQUAL if same else RESOLVED))
            continue
        if not math.isfinite(row.change.low):
            found.append(replace(row, verdict=TOO_FEW_LOADS))
            continue
        chance = next(adjusted)
        is_real = chance < 1 - estimates.LEVEL and abs(row.change.point) > row.resolution
        verdict = RESOLVED if is_real and not row.note else WITHIN_NOISE
        found.append(
            replace(
                row,
                chance=chance,
                verdict=verdict if judge else NOT_JUDGED,
                # An excuse for what needs none would only puzzle.
                note=row.note if is_real and judge else "",
            )
        )
    return found


def _is_exact(result: Result) -> bool:
    """Counts have no error; rates over intervals have no level either, but traffic varies."""
    return (
        result.estimate is not None
        and result.estimate.level == _EXACT_LEVEL
        and result.method != rates.METHOD
    )


def _figures(results: Sequence[Result], cycles: bool) -> list[Estimate]:
    """The figures of a side's runs; in cycles none unless all runs know their clock."""
    figures = [result.cycles if cycles else result.estimate for result in results]
    known = [_bounded(figure) for figure in figures if figure and abs(figure.point) < _LARGEST]
    return known if len(known) == len(figures) else []


def _bounded(figure: Estimate) -> Estimate:
    if figure.half_width < _LARGEST:
        return figure
    return replace(figure, low=-math.inf, high=math.inf)


def _figure(
    own: Sequence[Estimate], olds: Sequence[Estimate], news: Sequence[Estimate]
) -> differences.SideFigure:
    """A side as one figure. One run has the spread of the other side's runs, or the allowance."""
    several = [figures for figures in (olds, news) if len(figures) > 1]
    shown = None
    if several:
        shown = differences.Spread(
            statistics.fmean(
                differences.variance([one.point for one in figures]) for figures in several
            ),
            sum(len(figures) - 1 for figures in several),
        )
    return differences.side_figure(own, ALLOWANCE * max(abs(one.point) for one in own), shown)


def _excuse(before: Sequence[Result], after: Sequence[Result], change_ns: float) -> str:
    """Why a change in ns is none: the clock, where cycles do not differ in its direction."""
    olds, news = _figures(before, True), _figures(after, True)
    if not olds or not news or not change_ns:
        return ""
    change, _ = differences.difference(_figure(olds, olds, news), _figure(news, olds, news))
    if math.isinf(change.low) or (change.low > 0 if change_ns > 0 else change.high < 0):
        return ""
    return "not in cycles"


def _envelope(figures: Sequence[Estimate]) -> Estimate:
    """The runs' median between their extreme ends: nothing is judged by it but counts."""
    return Estimate(
        statistics.median(figure.point for figure in figures),
        min(figure.low for figure in figures),
        max(figure.high for figure in figures),
        figures[0].level,
        sum(figure.n for figure in figures),
    )


def _resolution(
    before: Sequence[Result],
    after: Sequence[Result],
    old: Estimate,
    sides: tuple[Side, Side],
    cycles: bool,
) -> float:
    """What a change must exceed beside its own interval, in the unit compared."""
    ghz = [clock_ghz(side.documents) for side in sides]
    known = [clock for clock in ghz if clock is not None]
    if cycles:
        return max(known, default=1.0) * _twins(before, after)
    clocks = 0.0
    has_cycles = _figures(before, True) and _figures(after, True)
    if len(known) == len(ghz) and before[0].metric.endswith("_ns") and not has_cycles:
        clocks = abs(old.point) * abs(max(known) / min(known) - 1)
    return math.hypot(_twins(before, after), clocks)


def _twins(before: Sequence[Result], after: Sequence[Result]) -> float:
    """Both sides' resolutions, as roots of squares add; the mean of runs errs less than one."""
    return math.hypot(
        *(
            statistics.median(result.resolution or 0.0 for result in results)
            / math.sqrt(len(results))
            for results in (before, after)
        )
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
            "and what is not there in cycles does not count. --unit cycles compares without it."
        )
