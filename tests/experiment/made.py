"""Suites made for the conductor's tests, scripts for the engine, and a clock that it moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from xdplab.engines.base import Method, Subject
from xdplab.engines.scripted import Clock as CoreClock
from xdplab.engines.scripted import Script, ScriptedEngine
from xdplab.experiment import Stop, SuiteOutcome, run_suite
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.records import TWIN, Result
from xdplab.suites.base import Group, Measure, Plan, Suite

FRAME = Frame(bytes(64))


@cache
def spec() -> ObjectSpec:
    """Some object: the scripted engine never looks into it, only at its name."""
    return shipped_object("adjust_head")


def subject(key: str, operations: int = 1, instance: int = 0) -> Subject:
    """A subject with a program of its own."""
    return Subject(key, spec(), f"program_{key}", FRAME, operations=operations, instance=instance)


def operation_group(keys: Sequence[str], operations: int = 1000, share: float = 1.0) -> Group:
    """Each of `keys` against `empty`, a twin of the first, and what `empty` costs by itself."""
    twin = replace(subject(keys[0], operations), key=TWIN, instance=1)
    return Group(
        Method.OPERATION,
        (subject("empty", operations), twin, *(subject(key, operations) for key in keys)),
        (
            *(Measure(key, key, {}, "empty", "empty") for key in keys),
            Measure(TWIN, TWIN, {}, keys[0], keys[0]),
            Measure("empty", "empty", {}),
        ),
        share=share,
    )


def packet_group(keys: Sequence[str], share: float = 1.0) -> Group:
    """What each of `keys` costs with all that is around it."""
    measures = tuple(Measure(key, key, {}) for key in keys)
    return Group(Method.PACKET, tuple(map(subject, keys)), measures, share=share)


def suite(*groups: Group, notes: Sequence[str] = ()) -> Suite:
    """A suite of just these groups."""
    return Suite(
        name="made",
        title="made for a test",
        options=(),
        plan=lambda _values, _engine: Plan(groups, notes),
        tables=lambda _results, _notes: (),
    )


def constant(costs_ns: Mapping[str, int]) -> Script:
    """Every call of a subject takes what `costs_ns` says of its key."""
    return lambda key, _call: costs_ns[key]


@dataclass
class Clock:
    """A clock that moves by `step_s` whenever a subject is called, and only then."""

    step_s: float
    now_s: float = 0.0
    calls: int = 0

    def script(self, script: Script) -> Script:
        """`script`, with each of its calls moving the clock."""

        def moved(key: str, call: int) -> int:
            self.now_s += self.step_s
            self.calls += 1
            return script(key, call)

        return moved

    def monotonic(self) -> float:
        """In place of time.monotonic."""
        return self.now_s


@dataclass
class Laboratory:
    """Runs suites by a clock of its own: a budget is a number of calls, on any machine."""

    clock: Clock
    reports: list[tuple[str, float]] = field(default_factory=list)

    def run(
        self,
        measured: Suite,
        script: Script,
        *,
        time_s: float = 1.0,
        stop: Stop | None = None,
        missing: Mapping[str, str] | None = None,
        capacity: int | None = None,
        core: CoreClock = lambda: None,
    ) -> tuple[SuiteOutcome, ScriptedEngine]:
        """Run the suite; `core` is the core's clock. Whatever happens, no session stays open."""
        engine = ScriptedEngine(
            self.clock.script(script),
            missing=dict(missing or {}),
            capacity=capacity,
            clock=core,
        )
        try:
            outcome = run_suite(measured, {}, engine, time_s, stop or Stop(), self._progress)
        finally:
            assert engine.open_sessions == 0
        return outcome, engine

    def _progress(self, label: str, share: float) -> None:
        self.reports.append((label, share))


def by_variant(outcome: SuiteOutcome) -> dict[str, Result]:
    """Results by variant, where each has but one."""
    found = {result.variant: result for result in outcome.results}
    assert len(found) == len(outcome.results)
    return found


def stopping(stop: Stop, at_call: int, script: Script) -> Script:
    """`script`, with `stop` asked in the midst of call number `at_call` of the whole run."""
    calls = 0

    def counted(key: str, call: int) -> int:
        nonlocal calls
        if calls == at_call:
            stop.asked = True
        calls += 1
        return script(key, call)

    return counted
