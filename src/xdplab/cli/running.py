"""A run of suites as commands have it: with its progress, and shown as soon as it is there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdplab import run
from xdplab.engines.base import Engine
from xdplab.experiment import Keeper, Stop
from xdplab.records import Warning
from xdplab.suites.base import Results, Suite, Values
from xdplab.views.report import ENGINE_TITLES, Report

if TYPE_CHECKING:
    from xdplab.views.plot_file import PlotFiles


class Run(run.Run):
    """See run.Run; the command is this process's."""

    def __init__(
        self,
        suites: Sequence[Suite],
        values: Values,
        engines: Sequence[Engine],
        time_s: float,
        stop: Stop,
        warnings: Sequence[Warning] = (),
    ) -> None:
        command = ("xdplab", *sys.argv[1:])
        super().__init__(suites, values, engines, time_s, stop, command=command, warnings=warnings)

    def measure(self, report: Report | None, keeper: Keeper | None) -> None:
        """Measure every suite on every engine, showing tables as soon as they are there."""
        # Here, as what it draws with is for who measures: --help need not wait for it.
        from xdplab.views.progress import Progress

        for suite, engine, outcome in self.measured(keeper, Progress):
            if report is not None and any(r.estimate for r in outcome.results):
                tables = suite.tables(Results(outcome.results), outcome.notes)
                report.show(tables, self.document((outcome,)), engine.name, engine.chosen)

    def draw(self, plots: PlotFiles) -> None:
        """Draw what was measured, a file for each suite; a suite without a figure has none."""
        from xdplab.views.plot import Panel

        for suite in self.suites:
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
