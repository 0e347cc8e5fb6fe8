"""What a run notices besides its figures: doubling, too few loads, interrupted calls.

That the core's clock moved is in test_clock.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from tests.experiment.made import (
    Laboratory,
    constant,
    operation_group,
    packet_group,
    suite,
)
from xdplab import experiment
from xdplab.engines.base import Method, Subject
from xdplab.engines.scripted import Script, ScriptedEngine, ScriptedSession
from xdplab.experiment import Stop, SuiteOutcome, run_suite
from xdplab.noticed import noticed
from xdplab.records import (
    NOT_SUPPORTED,
    RESOLVED,
    TOO_FEW_LOADS,
    TWIN,
    WITHIN_NOISE,
    Estimate,
    Result,
    Trial,
)
from xdplab.suites.base import Measure


def _cost(variant: str, point: float, baseline: str = "empty", verdict: str = RESOLVED) -> Result:
    """A cost of an operation, as if from eight loads."""
    return Result(
        suite="made",
        engine="scripted",
        variant=variant,
        baseline=baseline,
        parameters={},
        metric="cost_ns",
        method=Method.OPERATION.value,
        estimate=Estimate(point, point - 0.1, point + 0.1, 0.95, 8),
        resolution=None,
        verdict=verdict,
    )


def _gross(variant: str, ratio: float, verdict: str = RESOLVED, **parameters: int | str) -> Result:
    """What packets take with all around them, twice as many taking `ratio` times as long."""
    trial = Trial((1000, 1000), (round(1000 * ratio),) * 2, (8, 8))
    return replace(
        _cost(variant, 40.0, verdict=verdict),
        baseline=None,
        parameters=parameters,
        metric="gross_ns",
        method=Method.PACKET.value,
        trials=(trial,) * 5,
    )


# --- doubling

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
        assert warning.message == (
            "made: twice the packets took not twice the time within 5 % for 1 program, "
            f"worst {ratio:.2f} times for whole"
        )
        assert "distrust their gross figures" in warning.remedy


def test_programs_that_do_not_double_are_one_warning_that_names_the_worst() -> None:
    results = [
        _gross("fine", 2.0),
        _gross("low", 1.8, packet="ipv4", frame_bytes=64),
        _gross("worst", 1.5, packet="ipv6", frame_bytes=128),
        _gross("high", 2.4),
    ]
    for order in (results, results[::-1]):
        (warning,) = noticed(order, ())
        assert warning.code == "doubling"
        assert warning.message.endswith("for 3 programs, worst 1.50 times for worst ipv6 128")


def test_the_ratio_is_the_median_over_trials() -> None:
    wild = _gross("wild", 2.0)
    trials = (*wild.trials, *_gross("wild", 9.0).trials[:2])
    assert noticed([replace(wild, trials=trials)], ()) == []


def test_with_too_few_trials_no_ratio_is_judged() -> None:
    few = _gross("few", 1.5, verdict=TOO_FEW_LOADS)
    assert [warning.code for warning in noticed([few], ())] == ["too-few-loads"]
    # The fifth load brings the interval, and with it the right to judge.
    assert [warning.code for warning in noticed([replace(few, verdict=RESOLVED)], ())] == [
        "doubling"
    ]


def test_only_gross_figures_of_packets_are_doubled() -> None:
    gross = _gross("a", 1.5)
    loop = replace(gross, method=Method.OPERATION.value)
    cost = replace(gross, metric="cost_ns", baseline="b")
    nothing = replace(gross, trials=(), estimate=None, verdict=NOT_SUPPORTED)
    assert noticed([loop, cost, nothing], ()) == []


@pytest.mark.parametrize(("ratio", "due"), _DUE)
def test_an_operation_twice_must_cost_twice(
    laboratory: Laboratory, ratio: float, due: bool
) -> None:
    group = replace(operation_group(["once", "twice"]), doubles=(("once", "twice"),))
    costs = {"empty": 5000, "once": 9000, TWIN: 9000, "twice": 5000 + round(4000 * ratio)}
    outcome, _ = laboratory.run(suite(group), constant(costs))
    assert [warning.code for warning in outcome.warnings] == ["doubling"] * due
    for warning in outcome.warnings:
        assert warning.message == (
            f"made: two of once in a row cost {ratio:.2f} times one, not 2 within 5 %: "
            "the cost depends on what runs around it"
        )
        assert "the cost of the first" in warning.remedy


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
    assert "two of once 6 in a row cost 21.25 times one" in outcome.warnings[0].message


def test_only_pairs_over_one_baseline_are_compared() -> None:
    once, other = _cost("once", 4.0), _cost("once", 1.0, baseline="other")
    twice, far = _cost("twice", 8.0), _cost("twice", 2.4, baseline="other")
    pair = (("once", "twice"),)
    for order in ([once, other, twice], [other, twice, once], [twice, once, other]):
        assert noticed(order, pair) == []
        (warning,) = noticed([*order, far], pair)
        assert "2.40 times one" in warning.message


def test_too_few_loads_make_no_pair() -> None:
    once, twice = _cost("once", 4.0), _cost("twice", 40.0)
    pair = (("once", "twice"),)
    assert [warning.code for warning in noticed([once, twice], pair)] == ["doubling"]
    for few in (
        [replace(once, verdict=TOO_FEW_LOADS), twice],
        [once, replace(twice, verdict=TOO_FEW_LOADS)],
    ):
        assert [warning.code for warning in noticed(few, pair)] == ["too-few-loads"]
    missing = replace(twice, estimate=None, trials=(), verdict=NOT_SUPPORTED)
    assert noticed([once, missing], pair) == []
    assert noticed([once, twice], ()) == []


def test_what_costs_nothing_cannot_double(laboratory: Laboratory) -> None:
    group = replace(operation_group(["once", "twice"]), doubles=(("once", "twice"),))
    costs = {"empty": 5000, "once": 5000, TWIN: 5000, "twice": 9000}
    outcome, _ = laboratory.run(suite(group), constant(costs))
    assert [warning.code for warning in outcome.warnings] == ["doubling"]
    # Times nothing would be a figure that nobody measured.
    assert "two of once in a row cost 4.00 ns, not twice 0.00 ns" in outcome.warnings[0].message
    assert "times" not in outcome.warnings[0].message


# --- too few loads


def test_too_few_loads_are_counted_with_a_remedy() -> None:
    few, known = _cost("few", 4.0, verdict=TOO_FEW_LOADS), _cost("known", 4.0)
    (warning,) = noticed([known, few, replace(few, variant="other"), known], ())
    assert warning.code == "too-few-loads"
    assert warning.message == (
        "made: 2 of 4 figures (operation method) come from fewer than 5 loads and have no interval"
    )
    assert warning.remedy == "give --time more seconds, or ask for fewer sizes"
    assert noticed([known, replace(known, verdict=WITHIN_NOISE)], ()) == []
    assert noticed([], ()) == []


# --- live paths


def _live(variant: str, metric: str = "gross_ns", **counts: int) -> Result:
    """What a way of packets counted over its calls."""
    trial = Trial((1000, 1000), (2000, 2000), (8, 8), counts=counts)
    return replace(
        _cost(variant, 40.0), metric=metric, method=Method.LIVE.value, trials=(trial, trial)
    )


def test_a_generator_that_shared_its_cpu_is_named() -> None:
    whole = _live("drop", elapsed_ns=1000, on_cpu_ns=950)
    shared = _live("slow", elapsed_ns=1000, on_cpu_ns=300)
    (warning,) = noticed([whole, shared], ())
    assert warning.code == "off-cpu"
    assert "30 % of the time (worst: slow)" in warning.message
    assert noticed([whole], ()) == []
    # Where other threads have the packets it is their share that is missing.
    assert noticed([whole, replace(shared, metric="cost_ns")], ()) == []


def test_packets_that_did_not_arrive_are_counted() -> None:
    exact = _live("drop", generated=500, sink=500)
    lossy = _live("tx", "cost_ns", generated=500, sink=490)
    (warning,) = noticed([exact, lossy], ())
    assert warning.code == "packets-lost"
    assert "20 of 2000 packets did not arrive" in warning.message
    assert "in 1 rows (most: tx)" in warning.message
    assert noticed([exact], ()) == []


# --- interrupted calls


class _InterruptedTimer:
    """Another timer, each of whose calls was cut short once before it went through."""

    def __init__(self, session: ScriptedSession, key: str, doubled: bool) -> None:
        self._timer = ScriptedSession.timer(session, key, doubled)
        self.operations_per_call = self._timer.operations_per_call
        self.interrupted = 0

    @property
    def duration_ns(self) -> int | None:
        return self._timer.duration_ns

    @property
    def counts(self) -> Mapping[str, int]:
        return self._timer.counts

    def __call__(self) -> int:
        self.interrupted += 1
        return self._timer()


class _InterruptedSession(ScriptedSession):
    def timer(self, key: str, doubled: bool = False) -> _InterruptedTimer:  # type: ignore[override]
        return _InterruptedTimer(self, key, doubled)


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


# --- calls that another task broke into


def _run_preempted(
    monkeypatch: pytest.MonkeyPatch, cpu: int | None, costs: Mapping[str, int]
) -> SuiteOutcome:
    """A run in which every second call is said to have been preempted."""
    told = itertools.cycle((0, 1, 1, 1))
    monkeypatch.setattr(experiment, "involuntary_switches", lambda: next(told))
    engine = replace(ScriptedEngine(constant(costs)), cpu=cpu)
    return run_suite(
        suite(packet_group(["a"])), {}, engine, 1e-9, Stop(), lambda _label, _share: None
    )


def test_preempted_calls_are_made_again_counted_and_warned_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcome = _run_preempted(monkeypatch, 0, {"a": 3000})
    trials = [trial for result in outcome.results for trial in result.trials]
    assert trials
    for trial in trials:
        # Eight quads of four calls, each made twice.
        assert len(trial.variant_ns) == len(trial.baseline_ns) == 16
        assert trial.preempted == 32
    (warning,) = (one for one in outcome.warnings if one.code == "preempted")
    lost = 32 * len(trials)
    assert f"in {lost} of {2 * lost} timed calls (packet method)" in warning.message
    assert "taskset" in warning.remedy


def test_threads_that_are_not_pinned_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = _run_preempted(monkeypatch, None, {"a": 3000})
    assert {t.preempted for result in outcome.results for t in result.trials} == {0}
    assert not any(one.code == "preempted" for one in outcome.warnings)
