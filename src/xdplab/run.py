"""One run of suites: measured in turn, kept as it is measured, and its document at any time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime

from xdplab import __version__
from xdplab.engines.base import Engine
from xdplab.experiment import Keeper, Progress, Stop, SuiteOutcome, run_suite
from xdplab.records import Document, Finding, RunInfo, Warning
from xdplab.suites.base import Suite, Values

_SHARE = {"kernel": 1.0, "live": 1.0, "user": 0.35, "native": 0.35}
"""Part of the time that each engine gets where several measure: user space is quieter."""


def _untold() -> AbstractContextManager[Progress]:
    return nullcontext(lambda _label, _share: None)


class Run:
    """One run of suites: measures them in turn and knows what it has so far.

    `time_s` is a suite's, of weight 1; `command` is what the document says that began it;
    `warnings` are those that whoever begins it has.
    """

    def __init__(
        self,
        suites: Sequence[Suite],
        values: Values,
        engines: Sequence[Engine],
        time_s: float,
        stop: Stop,
        *,
        command: Sequence[str],
        warnings: Sequence[Warning] = (),
    ) -> None:
        from xdplab.kernel.disturbances import disturbances
        from xdplab.kernel.host import environment

        self.suites = suites
        self._values = values
        self._engines = engines
        self._time_s = time_s
        self._stop = stop
        self._command = tuple(command)
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

    def measured(
        self,
        keeper: Keeper | None = None,
        progress: Callable[[], AbstractContextManager[Progress]] = _untold,
    ) -> Iterator[tuple[Suite, Engine, SuiteOutcome]]:
        """Measure every suite on every engine, and give each as soon as it is there.

        `progress` is entered anew for each. What ended one in its middle is raised behind it.
        """
        for engine in self._engines:
            for suite in self.suites:
                engines = self._engines_of(suite)
                if engine not in engines:
                    continue
                if self._stop.asked:
                    return
                share = _SHARE[engine.name] if len(engines) > 1 else 1.0
                time_s = share * suite.weight * self._time_s
                with progress() as told:
                    outcome = run_suite(
                        suite, self._values, engine, time_s, self._stop, told, keeper
                    )
                self._elapsed_s = time.monotonic() - self._start
                self.outcomes.append(outcome)
                self._findings += [Finding(suite.name, engine.name, n) for n in outcome.notes]
                yield suite, engine, outcome
                if outcome.error is not None:
                    raise outcome.error

    def _engines_of(self, suite: Suite) -> list[Engine]:
        return [engine for engine in self._engines if suite.runs_on(engine.name)]

    def document(self, outcomes: Sequence[SuiteOutcome] | None = None) -> Document:
        """The document of these outcomes; by default of all so far."""
        chosen = self.outcomes if outcomes is None else outcomes
        # A suite's own document is whole when that suite is, whatever comes after it.
        of_run = sum(len(self._engines_of(suite)) for suite in self.suites)
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
                command=self._command,
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
