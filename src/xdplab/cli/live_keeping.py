"""A live command's run in the store: its intervals as they are counted, its totals at the end."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from xdplab import __version__
from xdplab.cli.keeping import Keeping
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
from xdplab.stats import rates

if TYPE_CHECKING:
    from xdplab.experiment import Keeper

_ABOUT_THE_RUN = frozenset(
    {"interval_s", "duration_s", "packets", "extended", "json_target", "yes", "quiet", "explain"}
)
"""Options that say how long and how a run is watched, not what is measured."""


class LiveRun:
    """One run of a live command on its way into the store.

    `environment` are the machine's facts; `warnings` may be added to until the first interval.
    The results are `rate_pps` of all packets, whose trials are the intervals, and at the end
    `packets` by what became of them. Nothing is written before the first interval. Parameters are
    the options that the user gave to the command.
    """

    def __init__(self, command: str, environment: Mapping[str, Any]) -> None:
        self.warnings: list[Warning] = []
        self._environment = dict(environment)
        self._command = command
        self._parameters = _parameters(click.get_current_context().params)
        self._started = datetime.now(UTC)
        self._start = time.monotonic()
        self._id = f"{self._started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
        self._trials: list[Trial] = []
        self._totals: list[Result] = []
        self._is_whole = False
        self._keeper: Keeper | None = None

    @contextmanager
    def kept(self, keeping: Keeping) -> Iterator[None]:
        """Keep what is counted within, however it ends."""
        with keeping.keep(self.document) as keeper:
            self._keeper = keeper
            yield

    def interval(self, seconds: float, packets: int, others: Mapping[str, int]) -> None:
        """An interval's packets; `others` are what became of them, by name."""
        counts = {rates.PACKETS: packets, rates.ELAPSED_NS: round(seconds * 1e9), **others}
        trial = Trial((), (), (-1, -1), counts=counts)
        if self._keeper is not None:
            if not self._trials:
                self._keeper.begin_group([self._rate()])
            self._keeper.keep_trial(0, trial, 1)
        self._trials.append(trial)

    def end(self, totals: Mapping[str, int], is_whole: bool) -> None:
        """What became of all packets, to the last one, by name; whether they came to their end."""
        self._totals = [self._total(name, packets) for name, packets in totals.items()]
        self._is_whole = is_whole
        if self._keeper is not None and self._trials:
            self._keeper.end_group([self._rate()])

    def document(self) -> Document:
        """The run as far as it has come."""
        return Document(
            run=RunInfo(
                id=self._id,
                started_at=self._started.isoformat(timespec="seconds"),
                duration_s=round(time.monotonic() - self._start, 3),
                command=("xdplab", *sys.argv[1:]),
                xdplab_version=__version__,
                complete=self._is_whole,
            ),
            environment=self._environment,
            results=(self._rate(), *self._totals),
            warnings=tuple(self.warnings),
            findings=(
                Finding(
                    self._command,
                    "live",
                    "pps: all packets over all time, [slowest, fastest] interval of "
                    f"{len(self._trials)}.",
                ),
            ),
        )

    def _rate(self) -> Result:
        rate = self._result("rate_pps", {}, rates.rate(self._trials))
        return replace(rate, trials=tuple(self._trials))

    def _total(self, name: str, packets: int) -> Result:
        exact = Estimate(float(packets), float(packets), float(packets), 1.0, 1)
        return replace(self._result("packets", {"of": name}, exact), method="counted")

    def _result(
        self, metric: str, parameters: Mapping[str, int | str], estimate: Estimate | None
    ) -> Result:
        return Result(
            suite=self._command,
            engine="live",
            variant=self._command,
            baseline=None,
            parameters={**self._parameters, **parameters},
            metric=metric,
            method=rates.METHOD,
            estimate=estimate,
            resolution=0.0,
            verdict=RESOLVED if estimate is not None else TOO_FEW_LOADS,
        )


def _parameters(options: Mapping[str, Any]) -> dict[str, int | str]:
    keeping = {"store", "no_store", "tags", "note"}
    return {
        name: _plain(value)
        for name, value in sorted(options.items())
        if name not in _ABOUT_THE_RUN | keeping and value not in (None, False, ())
    }


def _plain(value: object) -> int | str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, int | str):
        return value
    if isinstance(value, Sequence):
        return ",".join(str(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
