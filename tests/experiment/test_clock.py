"""The core's clock: read with every trial, figures in cycles of it, a word where it moved.

The law of this file: where nanoseconds follow the clock, cycles do not.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.experiment.made import (
    Laboratory,
    by_variant,
    constant,
    operation_group,
    packet_group,
    stopping,
    suite,
)
from xdplab.experiment import Stop
from xdplab.noticed import noticed
from xdplab.records import RESOLVED, TWIN, Estimate, Result, Trial

_CYCLES = {"empty": 4000, "a": 17_100, "b": 3100, TWIN: 17_100, "whole": 160}
"""Of a call: a thousand operations each, but for `whole`, which is one packet."""


class _Core:
    """A core whose clock moves on whenever it was read, that is, between trials."""

    def __init__(self, clocks_ghz: Sequence[float | None]) -> None:
        self._clocks_ghz = clocks_ghz
        self.seen: list[float | None] = []

    @property
    def _now_ghz(self) -> float | None:
        return self._clocks_ghz[len(self.seen) % len(self._clocks_ghz)]

    def read(self) -> float | None:
        now_ghz = self._now_ghz
        self.seen.append(now_ghz)
        return now_ghz

    def script(self, key: str, _call: int) -> int:
        """As many whole nanoseconds as the cycles take now."""
        assert self._now_ghz is not None
        return round(_CYCLES[key] / self._now_ghz)


def _middle_spreads(clocks_ghz: Sequence[float]) -> bool:
    """Whether the middle 80 % of at least twenty readings spread over more than 3 %."""
    tenth = len(clocks_ghz) // 10
    middle = sorted(clocks_ghz)[tenth : len(clocks_ghz) - tenth]
    far = middle[-1] - middle[0] > 0.03 * statistics.median(clocks_ghz)
    return far and len(clocks_ghz) >= 20


@st.composite
def _clocks_ghz(draw: st.DrawFn) -> list[float]:
    base = draw(st.floats(2.0, 4.0))
    spread = draw(st.sampled_from([0.0, 0.02, 0.029, 0.031, 0.05, 0.3]))
    clocks = [
        base * (1 + spread * share)
        for share in draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=7))
    ]
    # Once in a while a reading is far off, as where something else ran meanwhile.
    return clocks * draw(st.integers(1, 4)) + [0.6] * draw(st.integers(0, 1))


@settings(
    max_examples=40,
    deadline=None,
    # The laboratory's clock runs on from example to example, and only spans of it matter.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(_clocks_ghz())
def test_where_nanoseconds_follow_the_clock_cycles_do_not(
    laboratory: Laboratory, clocks_ghz: list[float]
) -> None:
    core = _Core(clocks_ghz)
    measured = suite(operation_group(["a", "b"]))
    outcome, _ = laboratory.run(measured, core.script, time_s=0.1, core=core.read)
    results = by_variant(outcome)
    for variant, baseline in {"a": "empty", "b": "empty", TWIN: "a", "empty": None}.items():
        result = results[variant]
        assert result.cycles is not None
        assert result.estimate is not None
        cycles = (_CYCLES[variant] - (_CYCLES[baseline] if baseline else 0)) / 1000
        # Both calls of a difference are whole nanoseconds, each half a one off at most, and
        # an interval is never narrower than such a step.
        step = max(trial.clock_ghz or 0.0 for trial in result.trials) / 1000
        assert result.cycles.point == pytest.approx(cycles, abs=step)
        assert result.cycles.low == pytest.approx(cycles, abs=1.5 * step)
        assert result.cycles.high == pytest.approx(cycles, abs=1.5 * step)
        assert result.cycles.high - result.cycles.low >= step * (1 - 1e-9)
        assert (result.cycles.n, result.cycles.level) == (result.estimate.n, 0.95)
    seen = [clock for clock in core.seen if clock is not None]
    codes = [warning.code for warning in outcome.warnings]
    assert codes == ["clock"] * _middle_spreads(seen)


@pytest.mark.parametrize(("fast_ghz", "due"), [(4.0, True), (2.2, True), (2.04, False)])
def test_a_clock_that_moved_is_said_with_its_ends_and_a_remedy(
    laboratory: Laboratory, fast_ghz: float, due: bool
) -> None:
    core = _Core([2.0, fast_ghz, 2.0])
    outcome, _ = laboratory.run(suite(packet_group(["whole"])), core.script, core=core.read)
    assert [warning.code for warning in outcome.warnings] == ["clock"] * due
    for warning in outcome.warnings:
        assert warning.message.startswith("made: the clock moved between 2.00 and ")
        assert f"{fast_ghz:.2f} GHz (packet method)" in warning.message
        assert "cycles" in warning.remedy
        assert "cpupower frequency-set" in warning.remedy


@pytest.mark.parametrize(
    ("clocks_ghz", "due"),
    [
        ([3.0] * 15 + [3.089] * 15, False),
        ([3.0] * 15 + [3.093] * 15, True),
        # Fewer than twenty readings tell nothing.
        ([3.0] * 10 + [4.0] * 9, False),
        ([3.0] * 10 + [4.0] * 10, True),
        # A tenth at either end may be anything.
        ([1.0] * 3 + [3.0] * 24 + [9.0] * 3, False),
        ([1.0] * 4 + [3.0] * 26, True),
        ([3.0] * 26 + [9.0] * 4, True),
        # The part is one of the median: 3 % of 2.0615 are more than these 0.0615, of 2 less.
        ([2.0] * 10 + [2.0615] * 20, False),
        ([2.0] * 20 + [2.0615] * 10, True),
        ([], False),
        ([None] * 40, False),
        ([3.0, None] * 15 + [4.0, None] * 15, True),
    ],
)
def test_a_clock_has_moved_when_its_middle_spreads_by_more_than_three_parts_in_a_hundred(
    clocks_ghz: list[float | None], due: bool
) -> None:
    trials = [Trial((1, 1), (2, 2), (8, 8), clock_ghz=clock) for clock in clocks_ghz]
    random.Random(1).shuffle(trials)
    result = Result(
        suite="made",
        engine="scripted",
        variant="a",
        baseline="empty",
        parameters={},
        metric="cost_ns",
        method="operation",
        estimate=Estimate(1.0, 0.9, 1.1, 0.95, 8),
        resolution=None,
        verdict=RESOLVED,
    )
    # Of two figures: the readings of all of them count together.
    results = [replace(result, trials=tuple(half)) for half in (trials[::2], trials[1::2])]
    assert [warning.code for warning in noticed(results, ())] == ["clock"] * due


def test_one_reading_in_ten_may_be_off_on_either_side(laboratory: Laboratory) -> None:
    for odd_ghz in (0.6, 6.0):
        core = _Core([2.0] * 10 + [odd_ghz])
        outcome, _ = laboratory.run(suite(packet_group(["whole"])), core.script, core=core.read)
        assert odd_ghz in core.seen
        assert not outcome.warnings


def test_each_group_is_judged_by_its_own_readings(laboratory: Laboratory) -> None:
    measured = suite(operation_group(["a"], share=0.5), packet_group(["whole"], share=0.5))
    readings = 0

    def stepped() -> float:
        nonlocal readings
        readings += 1
        return (
            2.0 if laboratory.reports[-1][0] == "made, scripted engine, operation method" else 4.0
        )

    costs = {"empty": 1000, "a": 3000, TWIN: 3000, "whole": 40}
    outcome, _ = laboratory.run(measured, constant(costs), core=stepped)
    # Between the groups it doubled, within each it stood still.
    assert set(outcome.clock_ghz) == {2.0, 4.0}
    assert len(outcome.clock_ghz) == readings
    assert not outcome.warnings


def test_the_clock_is_read_once_a_trial_and_kept_with_it(laboratory: Laboratory) -> None:
    core = _Core([2.0 + number / 1000 for number in range(500)])
    measured = suite(operation_group(["a", "b"]))
    outcome, engine = laboratory.run(measured, core.script, time_s=0.1, core=core.read)
    trials = [trial for result in outcome.results for trial in result.trials]
    # No two readings of this core are equal: each stands in just one trial.
    assert sorted(str(trial.clock_ghz) for trial in trials) == sorted(map(str, core.seen))
    assert sorted(outcome.clock_ghz) == sorted(c for c in core.seen if c is not None)
    # A round takes four measures, each in one trial.
    assert len(core.seen) == 4 * len(engine.sessions[0].placed)
    for result in outcome.results:
        for trial in result.trials:
            assert trial.clock_ghz is not None
            # It is the clock of the trial's own samples.
            took_ns = round(_CYCLES[result.variant] / trial.clock_ghz)
            assert set(trial.variant_ns) == {took_ns}


def test_a_trial_that_a_stop_left_without_samples_reads_no_clock(laboratory: Laboratory) -> None:
    stop, core = Stop(), _Core([2.0])
    # Two calls warm up the first trial, and the stop comes in the second of them.
    script = stopping(stop, 1, core.script)
    outcome, _ = laboratory.run(suite(operation_group(["a"])), script, stop=stop, core=core.read)
    assert core.seen == []
    assert {result.cycles for result in outcome.results} == {None}


@pytest.mark.parametrize("clocks_ghz", [[None], [2.0, 2.0, None], [None, 2.0], [2.0] * 30 + [None]])
def test_a_single_trial_without_a_clock_leaves_its_figure_without_cycles(
    laboratory: Laboratory, clocks_ghz: list[float | None]
) -> None:
    core = _Core(clocks_ghz)
    outcome, _ = laboratory.run(
        suite(packet_group(["whole", "a"])), lambda _key, _call: 40, core=core.read
    )
    lacking = 0
    for result in outcome.results:
        assert result.estimate is not None
        known = all(trial.clock_ghz is not None for trial in result.trials)
        assert (result.cycles is not None) == known
        lacking += not known
    assert lacking >= 1
    assert list(outcome.clock_ghz) == [
        trial.clock_ghz
        for result in outcome.results
        for trial in result.trials
        if trial.clock_ghz is not None
    ]


def test_an_engine_that_knows_no_clock_says_nothing_of_it(laboratory: Laboratory) -> None:
    outcome, _ = laboratory.run(suite(packet_group(["a"])), constant({"a": 40}))
    (result,) = outcome.results
    assert result.estimate is not None
    assert result.cycles is None
    assert outcome.clock_ghz == ()
    assert not outcome.warnings


def test_too_few_trials_give_cycles_without_an_interval(laboratory: Laboratory) -> None:
    outcome, _ = laboratory.run(
        suite(packet_group(["a"])), constant({"a": 40}), time_s=1e-9, core=lambda: 2.5
    )
    (result,) = outcome.results
    assert result.cycles is not None
    assert (result.cycles.point, result.cycles.half_width) == (100.0, float("inf"))
