"""Suites measured on the scripted engine, by a clock that every look at it moves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from xdplab.engines.base import Method, Subject
from xdplab.engines.scripted import ScriptedEngine, ScriptedSession
from xdplab.experiment import Stop, SuiteOutcome, run_suite
from xdplab.suites.base import Results, Suite, Values
from xdplab.suites.table import Figure, Published, Row, Table

Costs = Callable[[Method, str], int]
"""(method, subject key) -> whole nanoseconds of each of its calls."""


@dataclass
class Engine(ScriptedEngine):
    """The scripted engine, whose script is told the method as well."""

    method: Method = Method.OPERATION

    def open(self, subjects: Sequence[Subject], method: Method) -> ScriptedSession:
        self.method = method
        return super().open(subjects, method)


def engine(
    costs: Costs = lambda _method, _key: 1000,
    missing: Mapping[str, str] | None = None,
    pattern_kept: int = 1,
    clock_ghz: float | None = None,
    datapath: Mapping[str, Sequence[str]] | None = None,
    name: str = "scripted",
) -> Engine:
    """An engine with these costs, on which the subjects of `missing` cannot be run.

    `clock_ghz` is the core's clock, which stands still; `datapath` what lies around programs;
    `name` that of an engine for which a suite plans something of its own.
    """
    made = Engine(
        lambda key, _call: costs(made.method, key),
        missing=dict(missing or {}),
        globals={"pattern_kept": pattern_kept},
        clock=lambda: clock_ghz,
        datapath=dict(datapath or {}),
        name=name,
    )
    return made


@dataclass
class Measured:
    """A suite's run and its tables."""

    outcome: SuiteOutcome
    results: Results
    tables: Sequence[Table]


def measure(
    monkeypatch: pytest.MonkeyPatch,
    suite: Suite,
    values: Values,
    on: Engine,
    time_s: float = 60.0,
) -> Measured:
    """By default some twenty rounds of a group that has all the time."""
    # Two looks at the clock a round, a second each.
    seconds = itertools.count()
    monkeypatch.setattr(
        "xdplab.experiment.time",
        SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=lambda _s: None),
    )
    outcome = run_suite(suite, values, on, time_s, Stop(), lambda _label, _share: None)
    assert on.open_sessions == 0
    results = Results(outcome.results)
    return Measured(outcome, results, suite.tables(results, outcome.notes))


def defaults(suite: Suite) -> dict[str, tuple[int, ...]]:
    """The suite's own values of its options."""
    return {option.name: option.default for option in suite.options}


def shown(row: Row) -> list[float | str | int | None]:
    """A row's cells as plain values: points of figures (rounded as far as the clock steps)."""
    plain: list[float | str | int | None] = []
    for cell in row.cells:
        if isinstance(cell, Figure):
            plain.append(round(cell.estimate.point, 4))
        elif isinstance(cell, Published):
            plain.append(f"published {cell.text}")
        else:
            plain.append(cell)
    return plain
