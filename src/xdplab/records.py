"""What was measured, as data: raw trials, estimates, results, the run's document.

The raw record (Trial) and its summary (Estimate) are different types and both are kept.
Nothing here knows how a figure was made or how it is shown. `Document.to_json` gives the
result document of schema 1; a change of its meaning raises SCHEMA, and old documents load
(documents.py).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1

Json = dict[str, Any]

TWIN = "aa-twin"
"""Variant name of a program measured against a second load of itself."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Samples of one load: whole nanoseconds per timed call, in the order they were taken.

    In quads of A B B A: `baseline_ns[2i]`, `variant_ns[2i]`, `variant_ns[2i+1]`,
    `baseline_ns[2i+1]`. `placement` is the JITed address modulo 64 of (baseline, variant), -1
    where unknown. `interrupted` counts calls that a signal cut short; they were made again
    and are not among the samples. `duration_ns` is the kernel's own figure of the variant's
    last call, whole nanoseconds per run, or None where an engine has none. `clock_ghz` is the
    core's clock right behind the samples, None where it cannot be measured. `counts` are what was
    counted during the variant's calls, by stable names: of live paths the packets generated, seen
    at the device and at the sink, those lost by cause (`lost: ...`), and the time of the calls and
    of the generator on its CPU (`elapsed_ns`, `on_cpu_ns`). `preempted` counts
    calls in which another task took the CPU; they, too, were made again and are not among the
    samples, but where a call could never be made without.
    """

    baseline_ns: tuple[int, ...]
    variant_ns: tuple[int, ...]
    placement: tuple[int, int]
    interrupted: int = 0
    duration_ns: int | None = None
    clock_ghz: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    preempted: int = 0

    def to_json(self) -> Json:
        return {
            "baseline_ns": list(self.baseline_ns),
            "variant_ns": list(self.variant_ns),
            "placement": list(self.placement),
            "interrupted": self.interrupted,
            "duration_ns": self.duration_ns,
            "clock_ghz": self.clock_ghz,
            "counts": dict(self.counts),
            "preempted": self.preempted,
        }


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval: `low` <= `point` <= `high` at confidence `level`.

    `n` is the number of trials (loads) behind it. With too few of them for an interval, low
    and high are infinite: nothing is known but the point.
    """

    point: float
    low: float
    high: float
    level: float
    n: int

    def __post_init__(self) -> None:
        if not self.low <= self.point <= self.high:
            raise ValueError(f"an estimate's point {self.point} lies outside {self.low, self.high}")

    @property
    def half_width(self) -> float:
        """The larger distance from the point to an end of the interval."""
        return max(self.point - self.low, self.high - self.point)


RESOLVED = "resolved"
WITHIN_NOISE = "within noise"
NOT_SUPPORTED = "not supported"
TOO_FEW_LOADS = "too few loads"
"""The verdict where there is no interval yet, or a stop came first: nothing was judged."""


LINE_INSNS = "line_insns"
FUNCTION_INSNS = "function_insns"
PARTS = frozenset({LINE_INSNS, FUNCTION_INSNS})
"""Metrics of what another figure is made of, by source line or by function."""


@dataclass(frozen=True, slots=True)
class Result:
    """One figure of a run.

    `parameters` tell rows of one variant apart (`size_bytes`, `frame_bytes`, `packet`).
    `baseline` names the variant that the figure is net of, None for a gross figure.
    `metric` is a stable name ending in its unit. `estimate` is None where the row could not
    be measured; `note` then says why, and else what must be known of it. `resolution` is what
    this run can tell apart, in the metric's unit: the A/A twin's largest error; None where no
    twin was run. `cycles` is the figure in cycles of the core's clock: each trial's by the clock
    of that moment, so that it holds where nanoseconds follow a clock that moves; None where the
    clock is not known.
    """

    suite: str
    engine: str
    variant: str
    baseline: str | None
    parameters: Mapping[str, int | str]
    metric: str
    method: str
    estimate: Estimate | None
    resolution: float | None
    verdict: str
    operations_per_call: int = 1
    trials: tuple[Trial, ...] = ()
    note: str = ""
    cycles: Estimate | None = None

    def count(self, name: str) -> int:
        """One of the trials' counts, over all of them; 0 where nothing was counted."""
        return sum(trial.counts.get(name, 0) for trial in self.trials)

    @property
    def kernel_duration_ns(self) -> int | None:
        """The median over trials of the kernel's own whole nanoseconds per run, or None."""
        known = [t.duration_ns for t in self.trials if t.duration_ns is not None]
        return statistics.median_low(known) if known else None

    def to_json(self) -> Json:
        estimate = self.estimate
        return {
            "suite": self.suite,
            "engine": self.engine,
            "variant": self.variant,
            "baseline": self.baseline,
            "parameters": dict(self.parameters),
            "metric": self.metric,
            "point": estimate.point if estimate else None,
            "low": _finite(estimate.low) if estimate else None,
            "high": _finite(estimate.high) if estimate else None,
            "level": estimate.level if estimate else None,
            "n": estimate.n if estimate else 0,
            "method": self.method,
            "cycles": _cycles(self.cycles),
            "resolution": self.resolution,
            "verdict": self.verdict,
            "note": self.note,
            "kernel_duration_ns": self.kernel_duration_ns,
            "samples": {
                "operations_per_call": self.operations_per_call,
                "trials": [trial.to_json() for trial in self.trials],
            },
        }


@dataclass(frozen=True, slots=True)
class Warning:
    """Something that makes the figures worth less: `code` is stable, `remedy` what to do."""

    code: str
    message: str
    remedy: str = ""

    def to_json(self) -> Json:
        return {"code": self.code, "message": self.message, "remedy": self.remedy}


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Which run this is: `started_at` in ISO 8601 UTC, `complete` False after Ctrl-C.

    `tags` and `note` are what its user calls it; they may change after it.
    """

    id: str
    started_at: str
    duration_s: float
    command: Sequence[str]
    xdplab_version: str
    complete: bool = True
    tags: tuple[str, ...] = ()
    note: str = ""

    def to_json(self) -> Json:
        return {
            "id": self.id,
            "started_at": self.started_at,
            "duration_s": self.duration_s,
            "command": list(self.command),
            "xdplab_version": self.xdplab_version,
            "complete": self.complete,
            "tags": list(self.tags),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """What a suite found out about an engine before it measured: a sentence for its tables."""

    suite: str
    engine: str
    text: str

    def to_json(self) -> Json:
        return {"suite": self.suite, "engine": self.engine, "text": self.text}


@dataclass(frozen=True, slots=True)
class Document:
    """A whole run with its environment: what --json writes."""

    run: RunInfo
    environment: Json
    results: tuple[Result, ...]
    warnings: tuple[Warning, ...] = field(default=())
    findings: tuple[Finding, ...] = field(default=())

    def to_json(self) -> Json:
        return {
            "schema": SCHEMA,
            "run": self.run.to_json(),
            "environment": self.environment,
            "results": [result.to_json() for result in self.results],
            "warnings": [warning.to_json() for warning in self.warnings],
            "findings": [finding.to_json() for finding in self.findings],
        }


def _cycles(estimate: Estimate | None) -> Json | None:
    if estimate is None:
        return None
    return {
        "point": estimate.point,
        "low": _finite(estimate.low),
        "high": _finite(estimate.high),
        "level": estimate.level,
        "n": estimate.n,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
