"""A kernel's boots as results: what each row cost, and what it costs over its baseline.

Where instructions are counted every boot must say the same to the digit; a difference is an error,
for then something that was meant to be nailed down is not. The least of a row's calls is taken:
what is added to the others is a timer's interrupt, which has nothing to do with the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdplab.before_after.plan import Planned, PlannedGroup
from xdplab.engines.base import Method, Subject, action_name
from xdplab.guests.console import GuestError, GuestReport, RowReport
from xdplab.records import NOT_SUPPORTED, RESOLVED, WITHIN_NOISE, Estimate, Result, Trial
from xdplab.stats import estimates
from xdplab.suites.base import Measure

ENGINE = "guest"
ROUNDING = 1.0
"""A run's duration comes in whole instructions, rounded down: differences within one are none."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of one kernel: a figure a boot, or the reason why there is none."""

    boots: tuple[tuple[int, ...], ...]
    note: str = ""

    @property
    def points(self) -> tuple[int, ...]:
        return tuple(min(calls) for calls in self.boots)


def check_equal(reports: Sequence[GuestReport], planned: Planned, kernel: str) -> None:
    """GuestError where two boots that counted instructions did not say the same of a row."""
    first = reports[0]
    for number, report in enumerate(reports[1:], 2):
        for (place, key), row in planned.bundle.rows.items():
            one, other = first.rows.get(row.number), report.rows.get(row.number)
            if one == other:
                continue
            raise GuestError(
                f"two boots of {kernel} do not agree on {key} of {place}: {_said(one)} in the "
                f"first, {_said(other)} in boot {number}. Instructions that are counted must "
                "repeat to the digit. Run it again without --append, and with the same QEMU for all"
            )


def _said(row: RowReport | None) -> str:
    return "nothing" if row is None else f"{list(row.ns)} (retval {row.retval})"


def results_of(planned: Planned, reports: Sequence[GuestReport], counts: bool) -> list[Result]:
    """All results of one kernel, in the order of the plan. `reports` has one or more boots."""
    found: list[Result] = []
    for group in planned.groups:
        rows = {
            subject.key: _row(planned, group, subject, reports) for subject in group.group.subjects
        }
        found += _group_results(group, rows, counts)
    return found


def _group_results(group: PlannedGroup, rows: Mapping[str, _Row], counts: bool) -> list[Result]:
    subjects = {subject.key: subject for subject in group.group.subjects}
    gross = {m.subject for m in group.group.measures if m.against is None}
    found = []
    for measure in group.group.measures:
        row = rows[measure.subject]
        if measure.subject not in gross:
            # The whole run as well: levels tell what steps alone do not.
            gross.add(measure.subject)
            whole = replace(measure, against=None, baseline=None)
            found.append(_result(group, whole, subjects[measure.subject], row, None, counts))
        base = rows[measure.against] if measure.against else None
        found.append(_result(group, measure, subjects[measure.subject], row, base, counts))
    return found


def _row(
    planned: Planned, group: PlannedGroup, subject: Subject, reports: Sequence[GuestReport]
) -> _Row:
    place = (group.place, subject.key)
    if place in planned.bundle.missing:
        return _Row((), planned.bundle.missing[place])
    row = planned.bundle.rows[place]
    said = [report.rows.get(row.number) for report in reports]
    if reports[0].progs.get(row.prog):
        return _Row((), reports[0].progs[row.prog])
    boots = tuple(one.ns for one in said if one is not None and one.ns)
    if len(boots) < len(reports):
        return _Row((), _why_not(subject, next((one for one in said if one and not one.ns), None)))
    note = ""
    if subject.action is None and said[0] is not None:
        note = f"returns {action_name(said[0].retval)}"
    return _Row(boots, note)


def _why_not(subject: Subject, said: RowReport | None) -> str:
    if said is None:
        return "the guest said nothing of it"
    if said.errno or subject.action is None:
        return f"this kernel's test run refuses it (errno {said.errno})"
    return (
        f"{subject.program} returned {action_name(said.retval)} where "
        f"{action_name(subject.action)} means that it did its work"
    )


def _result(
    group: PlannedGroup,
    measure: Measure,
    subject: Subject,
    row: _Row,
    base: _Row | None,
    counts: bool,
) -> Result:
    bare = Result(
        suite=group.suite,
        engine=ENGINE,
        variant=measure.variant,
        baseline=measure.baseline,
        parameters=dict(measure.parameters),
        metric="insns" if counts else measure.metric,
        method=group.group.method.value,
        estimate=None,
        resolution=ROUNDING / subject.operations if counts else None,
        verdict=NOT_SUPPORTED,
        operations_per_call=subject.operations,
        note=row.note,
    )
    if not row.boots or (base is not None and not base.boots):
        why = row.note if not row.boots or base is None else base.note
        return replace(bare, note=why or "not measured")
    less = (0,) * len(row.points) if base is None else base.points
    points = [
        (whole - part) / subject.operations for whole, part in zip(row.points, less, strict=True)
    ]
    trials = tuple(
        Trial(() if base is None else base.boots[boot], calls, (-1, -1))
        for boot, calls in enumerate(row.boots)
    )
    if counts:
        # Every boot said the same: there is nothing to estimate.
        figure = Estimate(points[0], points[0], points[0], 1.0, len(points))
        is_told = base is None or abs(points[0]) > ROUNDING / subject.operations
        verdict = RESOLVED if is_told else WITHIN_NOISE
    else:
        figure = estimates.estimate(points, quantum=1 / subject.operations)
        verdict = estimates.verdict(figure, None)
    return replace(bare, estimate=figure, verdict=verdict, trials=trials)


def moved(before: Result, after: Result) -> Estimate | None:
    """What a row costs more in the second kernel than in the first; None where one has no figure.

    Two counts differ by an exact number; two times by one whose half widths add as roots of
    squares do.
    """
    one, other = before.estimate, after.estimate
    if one is None or other is None:
        return None
    return estimates.total(other, Estimate(-one.point, -one.high, -one.low, one.level, one.n))


def is_told(before: Result, after: Result) -> bool:
    """Whether the two differ by more than rounding (counts), or than their intervals leave open."""
    difference = moved(before, after)
    if difference is None:
        return False
    if before.metric == "insns":
        return abs(difference.point) > (before.resolution or 0.0)
    return difference.low > 0 or difference.high < 0


def is_whole_run(result: Result) -> bool:
    """Whether it is of a row of whole runs by the packet method."""
    return result.method == Method.PACKET.value and result.baseline is None
