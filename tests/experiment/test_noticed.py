"""What a run notices besides its figures: doubling, interrupted calls, the core's clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from tests.experiment.made import (
    Laboratory,
    constant,
    operation_group,
    packet_group,
    suite,
)
from xdplab.engines.base import Method, Subject
from xdplab.engines.scripted import Script, ScriptedEngine, ScriptedSession
from xdplab.experiment import Stop, run_suite
from xdplab.suites.base import TWIN, Measure

_DUE = [(1.89, True), (1.91, False), (2.0, False), (2.09, False), (2.11, True)]


@pytest.mark.parametrize(("ratio", "due"), _DUE)
def test_a_packet_of_twice_the_runs_must_take_twice_the_time(
    laboratory: Laboratory, ratio: float, due: bool
) -> None:
    def script(_key: str, call: int) -> int:
        # 2 calls to warm up and 8 quads A B B A; the engine doubles what B's script says.
        doubled = (call % 34 - 2) % 4 in {1, 2}
        return round(500_000 * ratio) if doubled else 1_000_000

    outcome, _ = laboratory.run(suite(packet_group(["whole"])), script)
    assert [warning.code for warning in outcome.warnings] == ["doubling"] * due
    for warning in outcome.warnings:
        assert f"twice the work of whole  took {ratio:.2f} times the time" in warning.message
        assert warning.message.startswith("made: ")
        assert warning.remedy


@pytest.mark.parametrize(("ratio", "due"), _DUE)
def test_an_operation_twice_must_cost_twice(
    laboratory: Laboratory, ratio: float, due: bool
) -> None:
    group = replace(operation_group(["once", "twice"]), doubles=(("once", "twice"),))
    costs = {"empty": 5000, "once": 9000, TWIN: 9000, "twice": 5000 + round(4000 * ratio)}
    outcome, _ = laboratory.run(suite(group), constant(costs))
    assert [warning.code for warning in outcome.warnings] == ["doubling"] * due


def test_only_pairs_of_equal_parameters_are_compared(laboratory: Laboratory) -> None:
    base = operation_group(["once", "twice"])
    measures = (
        Measure("once", "once", {"size_bytes": 6}, "empty", "empty"),
        Measure("twice", "twice", {"size_bytes": 20}, "empty", "empty"),
    )
    costs = {"empty": 5000, "once": 9000, "twice": 90_000}
    group = replace(base, measures=measures, doubles=(("once", "twice"),))
    outcome, _ = laboratory.run(suite(group), constant(costs))
    assert not outcome.warnings
    equal = (measures[0], replace(measures[1], parameters={"size_bytes": 6}))
    outcome, _ = laboratory.run(suite(replace(group, measures=equal)), constant(costs))
    assert "of once 6 took 21.25 times" in outcome.warnings[0].message


def test_what_costs_nothing_cannot_double(laboratory: Laboratory) -> None:
    group = replace(operation_group(["once", "twice"]), doubles=(("once", "twice"),))
    costs = {"empty": 5000, "once": 5000, TWIN: 5000, "twice": 9000}
    outcome, _ = laboratory.run(suite(group), constant(costs))
    assert [warning.code for warning in outcome.warnings] == ["doubling"]


class _InterruptedTimer:
    """Another timer, each of whose calls was cut short once before it went through."""

    def __init__(self, session: ScriptedSession, key: str, doubled: bool) -> None:
        self._timer = ScriptedSession.timer(session, key, doubled)
        self.operations_per_call = self._timer.operations_per_call
        self.interrupted = 0

    @property
    def duration_ns(self) -> int | None:
        return self._timer.duration_ns

    def __call__(self) -> int:
        self.interrupted += 1
        return self._timer()


class _InterruptedSession(ScriptedSession):
    def timer(self, key: str, doubled: bool = False) -> _InterruptedTimer:  # type: ignore[override]
        return _InterruptedTimer(self, key, doubled)

    def clock_ghz(self) -> float | None:
        return 2.5 + len(self.placed) / 10


@dataclass
class _InterruptedEngine(ScriptedEngine):
    script: Script

    def open(self, subjects: Sequence[Subject], method: Method) -> ScriptedSession:
        self.open_sessions += 1
        return _InterruptedSession(self, subjects)


def test_interrupted_calls_are_counted_once_each() -> None:
    engine = _InterruptedEngine(constant({"empty": 1000, "a": 3000, TWIN: 3000}))
    outcome = run_suite(
        suite(operation_group(["a"]), packet_group(["a"])),
        {},
        engine,
        1e-9,
        Stop(),
        lambda _label, _share: None,
    )
    found = {
        (result.method, result.variant): {trial.interrupted for trial in result.trials}
        for result in outcome.results
    }
    assert found == {
        ("operation", "a"): {2 + 48},
        ("operation", TWIN): {2 + 48},
        # Against nothing, one timer makes all calls.
        ("operation", "empty"): {2 + 24},
        ("packet", "a"): {2 + 32},
    }


def test_the_clock_is_read_once_a_round() -> None:
    engine = _InterruptedEngine(constant({"a": 40}))
    outcome = run_suite(
        suite(packet_group(["a"])), {}, engine, 1e-9, Stop(), lambda _label, _share: None
    )
    assert outcome.clock_ghz == (2.6, 2.7)
