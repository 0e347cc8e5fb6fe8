"""What the conductor gives a keeper while it measures: every trial once, each group as judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.experiment.made import Clock, constant, operation_group, packet_group, stopping, suite
from xdplab.engines.scripted import ScriptedEngine
from xdplab.experiment import Stop, run_suite
from xdplab.records import Result, Trial

COSTS = {"empty": 1000, "a": 4000, "b": 6000, "aa-twin": 4000}


@dataclass
class Kept:
    """Remembers all that it is given."""

    begun: list[Sequence[Result]] = field(default_factory=list)
    trials: list[list[list[Trial]]] = field(default_factory=list)
    ended: list[Sequence[Result]] = field(default_factory=list)
    operations: set[tuple[str, int]] = field(default_factory=set)

    def begin_group(self, rows: Sequence[Result]) -> None:
        self.begun.append(rows)
        self.trials.append([[] for _ in rows])

    def keep_trial(self, row: int, trial: Trial, operations_per_call: int) -> None:
        # A group that has ended gets no more.
        assert len(self.ended) < len(self.begun)
        self.operations.add((self.begun[-1][row].method, operations_per_call))
        self.trials[-1][row].append(trial)

    def end_group(self, rows: Sequence[Result]) -> None:
        self.ended.append(rows)


@pytest.mark.parametrize("stopped_at", [None, 0, 700, 701, 703, 2500])
def test_every_trial_is_given_once_and_each_group_as_it_is_in_the_outcome(
    monkeypatch: pytest.MonkeyPatch, stopped_at: int | None
) -> None:
    clock, stop, kept = Clock(step_s=1e-3), Stop(), Kept()
    monkeypatch.setattr("xdplab.experiment.time", clock)
    script = constant(COSTS)
    if stopped_at is not None:
        script = stopping(stop, stopped_at, script)
    groups = (operation_group(["a", "b"], share=0.5), packet_group(["a", "b"], share=0.5))
    engine = ScriptedEngine(clock.script(script), missing={"b": "no such kfunc"})
    outcome = run_suite(suite(*groups), {}, engine, 2.0, stop, lambda _label, _share: None, kept)
    assert outcome.error is None
    assert [row for rows in kept.ended for row in rows] == list(outcome.results)
    assert len(kept.begun) == len(kept.ended) == (2 if stopped_at in {None, 2500} else 1)
    for begun, trials, ended in zip(kept.begun, kept.trials, kept.ended, strict=True):
        assert [list(row.trials) for row in ended] == trials
        told = {(row.method, row.operations_per_call) for row in ended if row.trials}
        assert told <= kept.operations
        assert all(row.estimate is None and not row.trials for row in begun)
        for before, after in zip(begun, ended, strict=True):
            what = ("suite", "engine", "variant", "baseline", "parameters", "metric", "method")
            assert all(getattr(before, name) == getattr(after, name) for name in what)
            # What cannot be measured is known from the beginning.
            if before.note:
                assert replace(before, verdict=after.verdict) == replace(after, resolution=None)
    assert any(row.note == "no such kfunc" for row in kept.begun[0])
    assert stopped_at == 0 or any(any(row) for rows in kept.trials for row in rows)
