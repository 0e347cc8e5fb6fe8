"""The conductor on the scripted engine: what it measures, in which time, and what it keeps."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.experiment.made import (
    Laboratory,
    by_variant,
    constant,
    operation_group,
    packet_group,
    stopping,
    subject,
    suite,
)
from xdplab.engines.base import Method
from xdplab.engines.scripted import Script
from xdplab.errors import KernelError
from xdplab.experiment import Stop
from xdplab.records import NOT_SUPPORTED, RESOLVED, TOO_FEW_LOADS, TWIN, WITHIN_NOISE, Estimate
from xdplab.suites.base import Group, Measure

# Empty loop 1 ns a turn, a 2.5 over it, b 0.25 below it; calls are of 1000 operations.
_COSTS_NS = {"empty": 1000, "a": 3500, "b": 750, TWIN: 3500}
_OPERATION_TRIAL_CALLS = 2 + 4 * 12
"""Two calls to warm up, then twelve quads."""


# --- figures


def test_known_costs_come_out_exactly(laboratory: Laboratory) -> None:
    outcome, _ = laboratory.run(suite(operation_group(["a", "b"])), constant(_COSTS_NS))
    results = by_variant(outcome)
    for variant, point in {"a": 2.5, "b": -0.25, TWIN: 0.0, "empty": 1.0}.items():
        figure = results[variant].estimate
        assert figure is not None
        # Nothing but the clock's step of 1 ns a call of 1000 operations is left.
        expected = Estimate(point, point - 0.0005, point + 0.0005, 0.95, figure.n)
        assert figure == expected
        assert results[variant].operations_per_call == 1000
        assert results[variant].resolution == 0.0005
    assert results["a"].verdict == results["b"].verdict == RESOLVED
    assert results[TWIN].verdict == WITHIN_NOISE
    assert not outcome.warnings


def test_known_whole_packets_come_out_exactly(laboratory: Laboratory) -> None:
    outcome, _ = laboratory.run(suite(packet_group(["a", "b"])), constant({"a": 40, "b": 7}))
    results = by_variant(outcome)
    for variant, point in {"a": 40.0, "b": 7.0}.items():
        figure = results[variant].estimate
        assert figure is not None
        assert (figure.point, figure.low, figure.high) == (point, point - 0.5, point + 0.5)
        assert results[variant].metric == "gross_ns"
        assert results[variant].method == "packet"
        # Without a twin nobody knows what this run can tell apart.
        assert results[variant].resolution is None
    assert not outcome.warnings


def test_a_linear_drift_over_calls_does_not_bias(laboratory: Laboratory) -> None:
    def drifting(key: str, call: int) -> int:
        return _COSTS_NS[key] + 7 * call

    outcome, _ = laboratory.run(suite(operation_group(["a", "b"])), drifting)
    results = by_variant(outcome)
    for variant, point in {"a": 2.5, "b": -0.25, TWIN: 0.0}.items():
        figure = results[variant].estimate
        assert figure is not None
        assert figure.point == point
        assert figure.half_width == pytest.approx(0.0005)


def test_trials_are_kept_as_they_were_taken(laboratory: Laboratory) -> None:
    outcome, engine = laboratory.run(suite(operation_group(["a"])), constant(_COSTS_NS))
    results = by_variant(outcome)
    rounds = len(engine.sessions[0].placed)
    for result in results.values():
        assert result.estimate is not None
        assert len(result.trials) == result.estimate.n
        assert result.estimate.n <= rounds
        for trial in result.trials:
            assert len(trial.baseline_ns) == len(trial.variant_ns) == 24
            assert trial.placement == (8, 8)
    assert set(results["a"].trials[0].baseline_ns) == {1000}
    assert set(results["a"].trials[0].variant_ns) == {3500}
    # The kernel's figure is for a run, here a loop of 1000 operations.
    assert results["a"].kernel_duration_ns == 3500
    # Against nothing: no baseline was called.
    assert set(results["empty"].trials[0].baseline_ns) == {0}


def test_what_a_run_can_tell_apart_is_its_worst_twins(laboratory: Laboratory) -> None:
    base = operation_group(["a", "b"])
    other = replace(subject("b", 1000), key="b2", instance=1)
    group = replace(
        base,
        subjects=(*base.subjects, other),
        measures=(*base.measures, Measure(TWIN, "b2", {"which": "b"}, "b", "b")),
    )
    outcome, _ = laboratory.run(suite(group), constant({**_COSTS_NS, "b2": 770}))
    (found,) = {result.resolution for result in outcome.results}
    assert found == pytest.approx(0.0205)


def test_the_same_samples_give_the_same_outcome(laboratory: Laboratory) -> None:
    def noisy(key: str, call: int) -> int:
        return _COSTS_NS[key] + random.Random(f"{key}{call}").randrange(100)

    measured = suite(operation_group(["a", "b"]), notes=("noted",))
    first, _ = laboratory.run(measured, noisy)
    # Only spans of time matter, but those as floats: start the clock at the same place.
    laboratory.clock.now_s = 0.0
    second, _ = laboratory.run(measured, noisy)
    assert first == second
    assert first.notes == ("noted",)


def test_the_order_is_the_seeds_in_any_process() -> None:
    # Python orders a set of strings otherwise in each process, unless it is told how.
    code = (
        "from tests.experiment.made import *\n"
        "engine = ScriptedEngine(lambda key, call: 1000)\n"
        "run_suite(suite(operation_group(list('abcdef'))), {}, engine, 1e-9, Stop(), print)\n"
        "print(engine.sessions[0].placed)"
    )
    placed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(placed) == 1


# --- what cannot be run


def test_a_missing_subject_has_a_row_with_its_note(laboratory: Laboratory) -> None:
    outcome, _ = laboratory.run(
        suite(operation_group(["a", "b"])), constant(_COSTS_NS), missing={"b": "no such kfunc"}
    )
    results = by_variant(outcome)
    assert results["b"].verdict == NOT_SUPPORTED
    assert results["b"].note == "no such kfunc"
    assert results["b"].estimate is None
    assert results["b"].trials == ()
    for variant in ("a", TWIN, "empty"):
        assert results[variant].estimate is not None
        assert results[variant].note == ""


def test_without_its_baseline_a_measure_has_the_baselines_note(laboratory: Laboratory) -> None:
    outcome, engine = laboratory.run(
        suite(operation_group(["a"])), constant(_COSTS_NS), missing={"empty": "no loops here"}
    )
    results = by_variant(outcome)
    assert (results["a"].verdict, results["a"].note) == (NOT_SUPPORTED, "no loops here")
    assert results[TWIN].estimate is not None
    assert all("empty" not in keys for keys in engine.sessions[0].placed)


def test_with_everything_missing_a_run_ends_at_once(laboratory: Laboratory) -> None:
    missing = dict.fromkeys(("a", TWIN, "empty"), "nothing works here")
    outcome, _ = laboratory.run(suite(operation_group(["a"])), constant({}), missing=missing)
    assert {result.note for result in outcome.results} == {"nothing works here"}
    assert laboratory.clock.calls == 0


def test_results_come_in_the_plans_order(laboratory: Laboratory) -> None:
    groups = (operation_group(["d", "a", "c", "b"]), packet_group(["z", "a", "m"]))
    costs = dict.fromkeys(["empty", TWIN, *"abcdmz"], 1000)
    outcome, _ = laboratory.run(suite(*groups), constant(costs), missing={"a": "not here"})
    found = [(r.method, r.variant, r.baseline) for r in outcome.results]
    planned = [
        (group.method.value, measure.variant, measure.baseline)
        for group in groups
        for measure in group.measures
    ]
    assert found == planned


# --- places and time


@pytest.mark.parametrize("capacity", [2, 3, 5, 8, None])
def test_no_more_are_placed_than_fit_and_none_is_left_out(
    laboratory: Laboratory, capacity: int | None
) -> None:
    keys = list("abcdefgh")
    costs = {"empty": 1000, TWIN: 2000} | dict.fromkeys(keys, 2000)
    outcome, engine = laboratory.run(
        suite(operation_group(keys)), constant(costs), time_s=1e-6, capacity=capacity
    )
    for result in outcome.results:
        assert result.estimate is not None
        assert result.estimate.n == 2
    # The scripted engine itself refuses to place more; that places are used is ours to check.
    widest = max(len(set(keys)) for keys in engine.sessions[0].placed)
    assert widest == min(capacity or 10, 10)
    batches = len(engine.sessions[0].placed) / 2
    assert batches <= 1 if capacity is None else batches <= 2 * 10 / capacity


def test_subjects_of_one_program_share_a_place(laboratory: Laboratory) -> None:
    subjects = [replace(subject("a"), key=f"a/{size}") for size in range(6)]
    group = Group(Method.PACKET, subjects, [Measure("a", s.key, {}) for s in subjects], share=1.0)
    _, engine = laboratory.run(suite(group), lambda _key, _call: 40, time_s=1e-6, capacity=1)
    assert len(engine.sessions[0].placed) == 2


@pytest.mark.parametrize("time_s", [1e-9, 1e-3])
def test_two_rounds_are_taken_however_short_the_time(laboratory: Laboratory, time_s: float) -> None:
    outcome, _ = laboratory.run(
        suite(operation_group(["a", "b"])), constant(_COSTS_NS), time_s=time_s
    )
    for result in outcome.results:
        assert result.estimate is not None
        assert result.estimate.n == 2
        # Two loads are too few for an interval, so nothing is claimed.
        assert result.estimate.half_width == math.inf
        assert result.verdict == TOO_FEW_LOADS
        assert result.resolution is None
    assert [warning.code for warning in outcome.warnings] == ["too-few-loads"]


def test_a_run_takes_its_time_and_no_more(laboratory: Laboratory) -> None:
    laboratory.run(suite(operation_group(["a", "b"])), constant(_COSTS_NS), time_s=1.0)
    a_round = 3 * _OPERATION_TRIAL_CALLS + 26
    assert 20_000 - a_round <= laboratory.clock.calls <= 20_000


@pytest.mark.parametrize(
    ("rounds_of_time", "taken"), [(0.5, 2), (1.5, 2), (2.5, 3), (3.5, 5), (4.5, 5), (7.5, 7)]
)
def test_time_is_stretched_by_half_to_reach_an_interval(
    laboratory: Laboratory, rounds_of_time: float, taken: int
) -> None:
    a_round_s = (3 * _OPERATION_TRIAL_CALLS + 26) / 20_000
    outcome, engine = laboratory.run(
        suite(operation_group(["a", "b"])), constant(_COSTS_NS), time_s=rounds_of_time * a_round_s
    )
    assert len(engine.sessions[0].placed) == taken
    for result in outcome.results:
        assert result.estimate is not None
        assert math.isfinite(result.estimate.half_width) == (taken >= 5)
        assert (result.verdict == TOO_FEW_LOADS) == (taken < 5)
    codes = [warning.code for warning in outcome.warnings]
    assert codes == ["too-few-loads"] * (taken < 5)


def test_groups_divide_the_time_by_their_shares(laboratory: Laboratory) -> None:
    calls: dict[str, int] = {"a": 0, "whole": 0}

    def counted(key: str, _call: int) -> int:
        calls["whole" if key == "whole" else "a"] += 1
        return {**_COSTS_NS, "whole": 40}[key]

    laboratory.run(
        suite(operation_group(["a"], share=0.75), packet_group(["whole"], share=0.25)), counted
    )
    assert calls["a"] == pytest.approx(15_000, abs=200)
    assert calls["whole"] == pytest.approx(5_000, abs=200)


def test_time_goes_to_the_widest_and_to_the_twin(laboratory: Laboratory) -> None:
    quiet = ["q1", "q2", "q3", "q4"]
    rng = random.Random(5)

    def script(key: str, _call: int) -> int:
        return 2000 + (rng.randrange(500) if key == "noisy" else 0)

    # The twin is of q1, and as quiet: it must be taken for being a twin.
    outcome, engine = laboratory.run(suite(operation_group([*quiet, "noisy"])), script)
    rounds = len(engine.sessions[0].placed)
    trials = {result.variant: len(result.trials) for result in outcome.results}
    assert trials["noisy"] == rounds
    assert trials[TWIN] == rounds
    # Twelve rounds take all, so that each has an interval; after that nobody falls behind half.
    assert rounds > 24
    assert min(trials.values()) >= rounds // 2
    assert min(trials[key] for key in quiet) < 0.8 * rounds


def test_progress_is_named_and_grows_to_one(laboratory: Laboratory) -> None:
    laboratory.run(
        suite(operation_group(["a"], share=0.5), packet_group(["a"], share=0.5)),
        constant(_COSTS_NS),
    )
    for label in (
        "made, scripted engine, operation method",
        "made, scripted engine, packet method",
    ):
        shares = [share for name, share in laboratory.reports if name == label]
        assert shares == sorted(shares)
        assert (shares[0], shares[-1]) == (0.0, 1.0)
        assert len(shares) > 10


# --- stopping and failing


@pytest.mark.parametrize("at_call", [0, 1, 2, 3, 4, 5, 6, 49, 50, 51, 120, 1000, 4444])
def test_a_stop_ends_the_quad_and_keeps_all_before_it(laboratory: Laboratory, at_call: int) -> None:
    stop = Stop()
    groups = (operation_group(["a", "b"]), packet_group(["a"]))
    outcome, engine = laboratory.run(
        suite(*groups), stopping(stop, at_call, constant(_COSTS_NS)), stop=stop
    )
    assert stop.asked
    # At most the rest of a quad A B B A after the call in which it was asked.
    assert laboratory.clock.calls <= at_call + 1 + 3
    assert len(engine.sessions) == 1
    kept = 0
    for result, measure in zip(outcome.results, groups[0].measures, strict=True):
        assert result.variant == measure.variant
        for trial in result.trials:
            assert len(trial.baseline_ns) == len(trial.variant_ns)
            assert len(trial.baseline_ns) % 2 == 0
            kept += 2 + len(trial.variant_ns) * (1 if measure.against is None else 2)
        if not result.trials:
            assert result.estimate is None
            assert result.note == "stopped before it was measured"
            assert result.verdict == TOO_FEW_LOADS
    # Every call is in a sample or warmed a trial up; a trial without a quad has only the latter.
    assert laboratory.clock.calls - kept in {0, 2}


def test_a_stop_before_the_first_trial_measures_nothing(laboratory: Laboratory) -> None:
    stop = Stop()
    stop.asked = True
    outcome, _ = laboratory.run(suite(operation_group(["a"])), constant(_COSTS_NS), stop=stop)
    assert laboratory.clock.calls == 0
    assert {result.estimate for result in outcome.results} == {None}
    # What was never measured is not too wide: nothing is to be said of figures that are not there.
    assert {result.verdict for result in outcome.results} == {TOO_FEW_LOADS}
    assert not outcome.warnings


def _failing(at_call: int) -> Script:
    """An engine whose run ends with an error in that call."""
    calls = 0

    def script(key: str, _call: int) -> int:
        nonlocal calls
        calls += 1
        if calls > at_call:
            raise KernelError("running it", 12)
        return _COSTS_NS[key]

    return script


@pytest.mark.parametrize("at_call", [0, 1, 25])
def test_an_error_before_the_first_trial_is_raised(laboratory: Laboratory, at_call: int) -> None:
    # Laboratory.run checks that nothing stays open. The shortest trial takes 26 calls.
    with pytest.raises(KernelError, match="running it"):
        laboratory.run(suite(operation_group(["a"]), packet_group(["a"])), _failing(at_call))


@pytest.mark.parametrize("at_call", [50, 777, 20_500])
def test_an_error_in_mid_run_keeps_the_trials_before_it(
    laboratory: Laboratory, at_call: int
) -> None:
    groups = (operation_group(["a"]), packet_group(["a"]))
    outcome, engine = laboratory.run(suite(*groups), _failing(at_call))
    assert isinstance(outcome.error, KernelError)
    assert len(engine.sessions) == (2 if at_call > 20_000 else 1)
    kept = 0
    for result in outcome.results:
        assert (result.estimate is not None) == bool(result.trials)
        against = 1 if result.baseline is None and result.method == "operation" else 2
        kept += sum(2 + len(trial.variant_ns) * against for trial in result.trials)
    # All but the trial in which it happened, of 50 calls at most.
    assert at_call - 50 < kept <= at_call
