"""Figures from trials: what a group's raw rows say by the statistics. Pure.

The conductor asks when a group ends, and the store where a run was killed before it could.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xdplab.records import NOT_SUPPORTED, RESOLVED, TOO_FEW_LOADS, TWIN, Estimate, Result
from xdplab.stats import estimates, quads, rates


def judged(rows: Sequence[Result]) -> list[Result]:
    """The rows of one group (a suite on an engine by one method) with figure and verdict.

    Rows come with their trials and no estimate. A row without trials has none either: it could
    not be measured if it has a note, else it was not begun. The resolution of all is that of the
    group's A/A twins. Rates of live commands are counted, which is not a matter of noise.
    """
    if any(row.method == rates.METHOD for row in rows):
        return [_counted(row) for row in rows]
    points = [
        [quads.trial_point(trial, row.operations_per_call) for trial in row.trials] for row in rows
    ]
    figures = [_estimate(row, of_row) for row, of_row in zip(rows, points, strict=True)]
    resolution = _resolution(rows, figures)
    found = []
    for row, of_row, figure in zip(rows, points, figures, strict=True):
        if figure is None:
            verdict = NOT_SUPPORTED if row.note else TOO_FEW_LOADS
            note = row.note or "stopped before it was measured"
            found.append(replace(row, resolution=resolution, verdict=verdict, note=note))
            continue
        found.append(
            replace(
                row,
                estimate=figure,
                resolution=resolution,
                verdict=estimates.verdict(figure, resolution),
                cycles=_cycles(row, of_row),
            )
        )
    return found


def _counted(row: Result) -> Result:
    figure = rates.rate(row.trials)
    if figure is None:
        return replace(row, note=row.note or "ended before its first interval")
    return replace(row, estimate=figure, resolution=0.0, verdict=RESOLVED)


def _estimate(row: Result, points: Sequence[float]) -> Estimate | None:
    return estimates.estimate(points, quantum=1 / row.operations_per_call) if points else None


def _resolution(rows: Sequence[Result], figures: Sequence[Estimate | None]) -> float | None:
    """The largest error of an A/A twin; None where none has an interval."""
    twins = [
        estimates.resolution(figure)
        for row, figure in zip(rows, figures, strict=True)
        if row.variant == TWIN and figure is not None
    ]
    largest = max(twins, default=math.inf)
    return largest if math.isfinite(largest) else None


def _cycles(row: Result, points: Sequence[float]) -> Estimate | None:
    """The row in cycles: each trial by its own clock; None unless every trial has one."""
    clocks = [trial.clock_ghz for trial in row.trials if trial.clock_ghz is not None]
    if not clocks or len(clocks) < len(row.trials):
        return None
    return estimates.estimate(
        [point * clock for point, clock in zip(points, clocks, strict=True)],
        quantum=max(clocks) / row.operations_per_call,
    )
