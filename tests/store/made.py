"""Documents and groups made for the store's tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdplab.records import (
    RESOLVED,
    TOO_FEW_LOADS,
    Document,
    Estimate,
    Finding,
    Result,
    RunInfo,
    Trial,
    Warning,
)


def row(variant: str = "a", **parameters: int | str) -> Result:
    """A result as a group begins with it: no trials, no figure."""
    return Result(
        suite="made",
        engine="scripted",
        variant=variant,
        baseline="empty",
        parameters=parameters,
        metric="cost_ns",
        method="operation",
        estimate=None,
        resolution=None,
        verdict=TOO_FEW_LOADS,
    )


def trial(ns: int = 3000, clock_ghz: float | None = 4.0) -> Trial:
    """A trial of one quad in which the variant took `ns` more."""
    return Trial((100, 100), (100 + ns, 100 + ns), (8, 12), 0, ns, clock_ghz)


def result(variant: str = "a", ns: float = 3.0, **parameters: int | str) -> Result:
    """A result with a figure and a trial."""
    return replace(
        row(variant, **parameters),
        estimate=Estimate(ns, ns - 0.1, ns + 0.1, 0.95, 9),
        resolution=0.01,
        verdict=RESOLVED,
        operations_per_call=1000,
        trials=(trial(round(1000 * ns)),),
        cycles=Estimate(4 * ns, 4 * ns - 0.4, 4 * ns + 0.4, 0.95, 9),
    )


def document(
    run_id: str = "20260101T000000-abcdef",
    results: Sequence[Result] = (result(),),
    tags: Sequence[str] = (),
    note: str = "",
) -> Document:
    """A run of one group."""
    return Document(
        run=RunInfo(
            run_id,
            "2026-01-01T00:00:00+00:00",
            1.5,
            ("xdplab", "run"),
            "0.1.0",
            tags=tuple(tags),
            note=note,
        ),
        environment={"cpu": {"model": "some"}, "kernel": {"release": "6.18"}},
        results=tuple(results),
        warnings=(Warning("load", "it is loaded", "stop it"),),
        findings=(Finding("made", "scripted", "it clears"),),
    )
