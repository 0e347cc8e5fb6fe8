"""What was measured, as data: raw trials, estimates, results, the run's document.

The raw record (Trial) and its summary (Estimate) are different types and both are kept.
Nothing here knows how a figure was made or how it is shown. `Document.to_json` gives the
result document of schema 1; a change of its meaning raises SCHEMA, and old documents load.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdplab.errors import UsageError

SCHEMA = 1

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trial:
    """Samples of one load: whole nanoseconds per timed call, in the order they were taken.

    In quads of A B B A: `baseline_ns[2i]`, `variant_ns[2i]`, `variant_ns[2i+1]`,
    `baseline_ns[2i+1]`. `placement` is the JITed address modulo 64 of (baseline, variant), -1
    where unknown. `interrupted` counts calls that a signal cut short; they were made again
    and are not among the samples. `duration_ns` is the kernel's own figure of the variant's
    last call, whole nanoseconds per run, or None where an engine has none.
    """

    baseline_ns: tuple[int, ...]
    variant_ns: tuple[int, ...]
    placement: tuple[int, int]
    interrupted: int = 0
    duration_ns: int | None = None

    def to_json(self) -> Json:
        return {
            "baseline_ns": list(self.baseline_ns),
            "variant_ns": list(self.variant_ns),
            "placement": list(self.placement),
            "interrupted": self.interrupted,
            "duration_ns": self.duration_ns,
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


@dataclass(frozen=True, slots=True)
class Result:
    """One figure of a run.

    `parameters` tell rows of one variant apart (`size_bytes`, `frame_bytes`, `packet`).
    `baseline` names the variant that the figure is net of, None for a gross figure.
    `metric` is a stable name ending in its unit. `estimate` is None where the row could not
    be measured; `note` then says why. `resolution` is what this run can tell apart, in the
    metric's unit: the A/A twin's largest error; None where no twin was run.
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
    """Which run this is: `started_at` in ISO 8601 UTC, `complete` False after Ctrl-C."""

    id: str
    started_at: str
    duration_s: float
    command: Sequence[str]
    xdplab_version: str
    complete: bool = True

    def to_json(self) -> Json:
        return {
            "id": self.id,
            "started_at": self.started_at,
            "duration_s": self.duration_s,
            "command": list(self.command),
            "xdplab_version": self.xdplab_version,
            "complete": self.complete,
        }


@dataclass(frozen=True, slots=True)
class Document:
    """A whole run with its environment: what --json writes."""

    run: RunInfo
    environment: Json
    results: tuple[Result, ...]
    warnings: tuple[Warning, ...] = field(default=())

    def to_json(self) -> Json:
        return {
            "schema": SCHEMA,
            "run": self.run.to_json(),
            "environment": self.environment,
            "results": [result.to_json() for result in self.results],
            "warnings": [warning.to_json() for warning in self.warnings],
        }


class _Fields:
    """An object of a document that is read field by field; errors name the place."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, Mapping):
            raise _damaged(where, value, "an object")
        self._value = value
        self._where = where

    def get(self, name: str) -> object:
        if name not in self._value:
            raise UsageError(
                f"reading the result document failed: {self._where or 'it'} has no {name!r}. "
                "Is it complete, and was it written by xdplab?"
            )
        return self._value[name]

    def has(self, name: str) -> bool:
        return self._value.get(name) is not None

    def fields(self, name: str) -> _Fields:
        return _Fields(self.get(name), self.place(name))

    def each(self, name: str) -> list[tuple[object, str]]:
        value = self.get(name)
        if not isinstance(value, list):
            raise _damaged(self.place(name), value, "a list")
        return [(item, f"{self.place(name)}[{index}]") for index, item in enumerate(value)]

    def text(self, name: str) -> str:
        value = self.get(name)
        if not isinstance(value, str):
            raise _damaged(self.place(name), value, "text")
        return value

    def number(self, name: str) -> float:
        return _number(self.get(name), self.place(name))

    def whole(self, name: str) -> int:
        return _whole(self.get(name), self.place(name))

    def wholes(self, name: str) -> tuple[int, ...]:
        return tuple(_whole(item, place) for item, place in self.each(name))

    def mapping(self, name: str) -> dict[str, Any]:
        value = self.get(name)
        if not isinstance(value, Mapping):
            raise _damaged(self.place(name), value, "an object")
        return dict(value)

    def place(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


def _damaged(where: str, value: object, wanted: str) -> UsageError:
    return UsageError(
        f"reading the result document failed: {where or 'it'} is {type(value).__name__}, where "
        f"{wanted} is expected. Is it complete, and was it written by xdplab?"
    )


def _number(value: object, where: str) -> float:
    # True is a number to Python, and to nobody else.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _damaged(where, value, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _damaged(where, value, "a finite number")
    return number


def _whole(value: object, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = _number(value, where)
    if not number.is_integer():
        raise _damaged(where, value, "a whole number")
    return int(number)


def document_from_json(data: object) -> Document:
    """Read a result document back; UsageError names the part that is not as it should be."""
    root = _Fields(data, "")
    schema = root.get("schema")
    if schema != SCHEMA:
        raise UsageError(
            f"the document has schema {schema!r}; this xdplab reads {SCHEMA}. "
            "Was it made by a newer version, or is it no result document?"
        )
    run = root.fields("run")
    complete = run.get("complete") if run.has("complete") else True
    return Document(
        run=RunInfo(
            id=run.text("id"),
            started_at=run.text("started_at"),
            duration_s=run.number("duration_s"),
            command=tuple(str(word) for word, _ in run.each("command")),
            xdplab_version=run.text("xdplab_version"),
            complete=bool(complete),
        ),
        environment=root.mapping("environment"),
        results=tuple(_result(_Fields(item, place)) for item, place in root.each("results")),
        warnings=tuple(
            Warning(
                fields.text("code"),
                fields.text("message"),
                fields.text("remedy") if fields.has("remedy") else "",
            )
            for fields in (_Fields(item, place) for item, place in root.each("warnings"))
        ),
    )


def _result(item: _Fields) -> Result:
    samples = item.fields("samples")
    return Result(
        suite=item.text("suite"),
        engine=item.text("engine"),
        variant=item.text("variant"),
        baseline=item.text("baseline") if item.get("baseline") is not None else None,
        parameters=item.mapping("parameters"),
        metric=item.text("metric"),
        method=item.text("method"),
        estimate=_estimate(item) if item.get("point") is not None else None,
        resolution=item.number("resolution") if item.get("resolution") is not None else None,
        verdict=item.text("verdict"),
        operations_per_call=samples.whole("operations_per_call"),
        trials=tuple(_trial(_Fields(trial, place)) for trial, place in samples.each("trials")),
        note=item.text("note") if item.has("note") else "",
    )


def _estimate(item: _Fields) -> Estimate:
    try:
        return Estimate(
            point=item.number("point"),
            low=item.number("low") if item.get("low") is not None else -math.inf,
            high=item.number("high") if item.get("high") is not None else math.inf,
            level=item.number("level"),
            n=item.whole("n"),
        )
    except ValueError as error:
        raise UsageError(
            f"reading the result document failed: {item.place('point')}: {error}"
        ) from None


def _trial(trial: _Fields) -> Trial:
    placement = trial.wholes("placement")
    if len(placement) != 2:
        raise _damaged(trial.place("placement"), trial.get("placement"), "a pair")
    return Trial(
        baseline_ns=trial.wholes("baseline_ns"),
        variant_ns=trial.wholes("variant_ns"),
        placement=(placement[0], placement[1]),
        interrupted=trial.whole("interrupted"),
        duration_ns=trial.whole("duration_ns") if trial.get("duration_ns") is not None else None,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
