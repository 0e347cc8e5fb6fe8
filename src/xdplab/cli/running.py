"""One run of suites: measured in turn, kept and shown as soon as they are there."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from xdplab import __version__
from xdplab.engines.base import Engine
from xdplab.experiment import Keeper, Stop, SuiteOutcome, run_suite
from xdplab.records import Document, Finding, RunInfo, Warning
from xdplab.suites.base import Results, Suite, Values
from xdplab.views.progress import Progress
from xdplab.views.report import ENGINE_TITLES, Report

if TYPE_CHECKING:
    from xdplab.views.plot_file import PlotFiles

_SHARE = {"kernel": 1.0, "live": 1.0, "user": 0.35, "native": 0.35}
"""Part of --time that each engine gets where several measure: user space is quieter."""


class Run:
    """One run of suites: measures them in turn and knows what it has so far. `warnings` are those
    that whoever begins it has."""

    def __init__(
        self,
        suites: Sequence[Suite],
        values: Values,
        engines: Sequence[Engine],
        time_s: float,
        stop: Stop,
        warnings: Sequence[Warning] = (),
    ) -> None:
        from xdplab.kernel.disturbances import disturbances
        from xdplab.kernel.host import environment

        self._suites = suites
        self._values = values
        self._engines = engines
        self._time_s = time_s
        self._stop = stop
        self._started = datetime.now(UTC)
        self._start = time.monotonic()
        self._elapsed_s = 0.0
        self._id = f"{self._started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
        self._environment = environment()
        self._environment["cpu"]["pinned"] = engines[0].cpu
        self._disturbances = [
            *disturbances(self._environment), *_shared_cpu(engines[0].cpu), *warnings,
        ]  # fmt: skip
        self.outcomes: list[SuiteOutcome] = []
        self._findings: list[Finding] = []

    def measure(self, report: Report | None, keeper: Keeper | None) -> None:
        """Measure every suite on every engine, showing tables as soon as they are there."""
        for engine in self._engines:
            for suite in self._suites:
                engines = self._engines_of(suite)
                if engine not in engines:
                    continue
                if self._stop.asked:
                    return
                share = _SHARE[engine.name] if len(engines) > 1 else 1.0
                self._measure(suite, engine, share * suite.weight * self._time_s, report, keeper)

    def _engines_of(self, suite: Suite) -> list[Engine]:
        return [engine for engine in self._engines if suite.runs_on(engine.name)]

    def _measure(
        self,
        suite: Suite,
        engine: Engine,
        time_s: float,
        report: Report | None,
        keeper: Keeper | None,
    ) -> None:
        with Progress() as progress:
            outcome = run_suite(suite, self._values, engine, time_s, self._stop, progress, keeper)
        self._elapsed_s = time.monotonic() - self._start
        self.outcomes.append(outcome)
        self._findings += [Finding(suite.name, engine.name, note) for note in outcome.notes]
        if report is not None and any(r.estimate for r in outcome.results):
            tables = suite.tables(Results(outcome.results), outcome.notes)
            report.show(tables, self.document((outcome,)), engine.name, engine.chosen)
        if outcome.error is not None:
            raise outcome.error

    def draw(self, plots: PlotFiles) -> None:
        """Draw what was measured, a file for each suite; a suite without a figure has none."""
        from xdplab.views.plot import Panel

        for suite in self._suites:
            panels, drawn = [], []
            for outcome in self.outcomes:
                measured = [r for r in outcome.results if r.suite == suite.name and r.estimate]
                if not measured:
                    continue
                results = Results(outcome.results)
                pictures = suite.pictures(results, suite.tables(results, outcome.notes))
                where = ENGINE_TITLES.get(measured[0].engine, measured[0].engine)
                panels += [Panel(picture, where) for picture in pictures]
                drawn.append(outcome)
            if panels:
                plots.write(suite.name, panels, self.document(drawn))

    def document(self, outcomes: Sequence[SuiteOutcome] | None = None) -> Document:
        """The document of these outcomes; by default of all so far."""
        chosen = self.outcomes if outcomes is None else outcomes
        # A suite's own document is whole when that suite is, whatever comes after it.
        of_run = sum(len(self._engines_of(suite)) for suite in self._suites)
        awaited = of_run if outcomes is None else len(chosen)
        warnings = list(self._disturbances)
        for outcome in chosen:
            warnings += outcome.warnings
        clock_ghz = sorted(value for outcome in chosen for value in outcome.clock_ghz)
        environment = dict(self._environment)
        if clock_ghz:
            environment["clock"] = {
                **environment["clock"],
                "measured_ghz": round(clock_ghz[len(clock_ghz) // 2], 3),
                "measured_ghz_min": round(clock_ghz[0], 3),
                "measured_ghz_max": round(clock_ghz[-1], 3),
            }
        return Document(
            run=RunInfo(
                id=self._id,
                started_at=self._started.isoformat(timespec="seconds"),
                duration_s=round(self._elapsed_s, 3),
                command=("xdplab", *sys.argv[1:]),
                xdplab_version=__version__,
                complete=not self._stop.asked and len(chosen) == awaited,
            ),
            environment=environment,
            results=tuple(result for outcome in chosen for result in outcome.results),
            warnings=tuple(warnings),
            findings=tuple(self._findings),
        )


def _shared_cpu(cpu: int | None) -> list[Warning]:
    from xdplab.engines.pinning import is_shared

    if not is_shared(cpu):
        return []
    return [
        Warning(
            "shared-cpu",
            f"another xdplab measures on CPU {cpu} at the same time, and every other CPU that "
            "this one may use has one as well: both disturb each other",
            "run one after the other",
        )
    ]
