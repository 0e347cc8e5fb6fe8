"""The conductor: plan -> engine -> trials -> estimates. The only place that knows all of them.

A round places a set of programs anew and takes one trial of every measure that they allow.
The first rounds take all measures; after that each round goes to those whose intervals are
widest, until the suite's time is spent. Ctrl-C ends measuring after the present quad: what
was measured until then is estimated and kept.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Protocol

from xdplab.engines.base import Engine, LoadKey, Method, Session, Timer
from xdplab.engines.pinning import involuntary_switches
from xdplab.judged import judged
from xdplab.noticed import noticed
from xdplab.records import TOO_FEW_LOADS, TWIN, Result, Trial, Warning
from xdplab.stats import estimates, quads
from xdplab.suites.base import CHOSEN_PREFIX, Group, Measure, Plan, Suite, Values

_QUADS = {Method.OPERATION: 12, Method.PACKET: 8, Method.LIVE: 3}
"""Quads a trial. More would sharpen a trial; another load tells more than another quad."""

_CALL_TRIES = 16
"""How often a call is made again because another task had the CPU in the middle of it."""

_REST_S = 0.002

_FULL_ROUNDS = 12
"""Rounds that take every measure before the widest are preferred: with fewer trials how wide
an interval will be is itself a matter of luck."""

_FEWEST_ROUNDS = 2
_MOST_TRIALS = 2000
"""Trials of a measure after which no more are taken: another thousand would sharpen nothing that
the next run does not shift, and samples must fit into memory."""

_SIGNALS_THAT_END = 3

_STRETCH = 1.5
"""How far beyond its time a group may go to reach the trials that an interval needs."""

_SEED = 20

Progress = Callable[[str, float], None]
"""Called with what is being measured and the share of the time that is spent (0 to 1)."""


class Keeper(Protocol):
    """Where a run is kept while it is measured. What cannot be kept must not end the run."""

    def begin_group(self, rows: Sequence[Result]) -> None:
        """A group's rows, before anything of it is measured: no trials, no estimate."""

    def keep_trial(self, row: int, trial: Trial, operations_per_call: int) -> None:
        """A trial of row number `row` of the present group, as soon as it was taken."""

    def end_group(self, rows: Sequence[Result]) -> None:
        """The present group's rows with their trials and figures."""


class Stop:
    """Whether a signal asked to end: a handler sets it, it is looked at between quads."""

    def __init__(self) -> None:
        self.asked = False
        self._count = 0

    @contextmanager
    def on_signals(
        self, numbers: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ) -> Iterator[Stop]:
        """Let these signals set this flag instead of ending the process.

        A second one changes nothing, for what was measured takes a moment to be estimated and
        written, and impatience must not cost it; a third one raises KeyboardInterrupt. Signals
        that the caller had ignored (nohup, a script's background job) stay so.
        """
        previous: dict[signal.Signals, Any] = {}

        def ask(_number: int, _frame: FrameType | None) -> None:
            self.asked = True
            self._count += 1
            if self._count >= _SIGNALS_THAT_END:
                raise KeyboardInterrupt

        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                previous[number] = signal.signal(number, ask)
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


@dataclass(slots=True)
class _Record:
    """A measure, its place in the group, and its trials so far."""

    row: int
    measure: Measure
    keeper: Keeper | None
    operations: int = 1
    trials: list[Trial] = field(default_factory=list)
    points: list[float] = field(default_factory=list)

    def add(self, trial: Trial, operations: int) -> None:
        self.operations = operations
        self.trials.append(trial)
        self.points.append(quads.trial_point(trial, self.operations))
        if self.keeper is not None:
            self.keeper.keep_trial(self.row, trial, operations)


@dataclass(frozen=True, slots=True)
class SuiteOutcome:
    """What a suite's run gave: results in the plan's order, what was noticed, plan notes.

    `error` is what ended it in the middle; the results are then those of the trials before.
    """

    results: tuple[Result, ...]
    warnings: tuple[Warning, ...]
    notes: tuple[str, ...]
    clock_ghz: tuple[float, ...]
    error: Exception | None = None


def run_suite(
    suite: Suite,
    values: Values,
    engine: Engine,
    time_s: float,
    stop: Stop,
    progress: Progress,
    keeper: Keeper | None = None,
) -> SuiteOutcome:
    """Measure one suite within about `time_s` seconds and estimate what was measured.

    The budget is never cut below what two rounds take. Errors of planning and loading are the
    engine's; from the first trial on, a stop keeps all trials taken. `keeper` gets every trial
    when it was taken.
    """
    plan: Plan = suite.plan(values, engine)
    results: list[Result] = []
    warnings: list[Warning] = []
    clock_ghz: list[float] = []
    error: Exception | None = None
    for group in plan.groups:
        label = f"{suite.name}, {engine.name} engine, {group.method.value} method"
        taken = _Taken(keeper)
        rows = _rows(suite, engine, group)
        try:
            _measure(taken, engine, group, rows, time_s * group.share, stop, progress, label)
        except Exception as raised:
            # Whatever it is, the trials before it are worth as much as they were.
            if not any(record.points for record in taken.records) and not results:
                raise
            error = raised
        found = judged(_with_trials(_with_reasons(rows, group, taken.missing), taken.records))
        results += found
        if keeper is not None:
            keeper.end_group(found)
        warnings += noticed(found, group.doubles)
        clock_ghz += [
            t.clock_ghz for r in taken.records for t in r.trials if t.clock_ghz is not None
        ]
        if stop.asked or error is not None:
            break
    return SuiteOutcome(tuple(results), tuple(warnings), tuple(plan.notes), tuple(clock_ghz), error)


@dataclass(slots=True)
class _Taken:
    """What a group's measuring has so far; it outlives whatever ends it."""

    keeper: Keeper | None
    records: list[_Record] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


def _measure(
    taken: _Taken,
    engine: Engine,
    group: Group,
    rows: Sequence[Result],
    time_s: float,
    stop: Stop,
    progress: Progress,
    label: str,
) -> None:
    start = time.monotonic()
    shuffler = random.Random(_SEED)
    progress(label, 0.0)
    with engine.open(group.subjects, group.method) as session:
        taken.missing.update(session.missing)
        if taken.keeper is not None:
            taken.keeper.begin_group(_with_reasons(rows, group, taken.missing))
        taken.records += [
            _Record(row, measure, taken.keeper)
            for row, measure in enumerate(group.measures)
            if measure.subject not in session.missing
            and (measure.against is None or measure.against not in session.missing)
        ]
        rounds = 0
        round_s = 0.0
        while not stop.asked:
            wanting = [record for record in taken.records if len(record.points) < _MOST_TRIALS]
            spent_s = time.monotonic() - start
            # A little more time is better spent than a run without a single interval.
            allowed_s = time_s if rounds >= estimates.MINIMUM_TRIALS else _STRETCH * time_s
            if not wanting or (rounds >= _FEWEST_ROUNDS and spent_s + round_s > allowed_s):
                break
            progress(label, min(1.0, spent_s / time_s))
            chosen = wanting if rounds < _FULL_ROUNDS else _widest(wanting)
            shuffler.shuffle(chosen)
            # A live path's calls last longer than any time slice, and other threads are part of it.
            is_watched = engine.cpu is not None and group.method is not Method.LIVE
            _round(session, group, chosen, stop, shuffler, is_watched)
            rounds += 1
            round_s = time.monotonic() - start - spent_s
        progress(label, 1.0)


def _widest(records: Sequence[_Record]) -> list[_Record]:
    """The wider half of the measures, where the next trial tells most, and every twin.

    Who has fallen behind to half of the most trials comes along, too: few trials that happen
    to agree look narrow, and would never get the others that show them wrong.
    """
    ranked = sorted(records, key=lambda record: estimates.spread(record.points), reverse=True)
    half = (len(ranked) + 1) // 2
    most = max(len(record.points) for record in records)
    return ranked[:half] + [
        record
        for record in ranked[half:]
        if record.measure.variant == TWIN or 2 * len(record.points) < most
    ]


def _round(
    session: Session,
    group: Group,
    records: Sequence[_Record],
    stop: Stop,
    shuffler: random.Random,
    is_watched: bool,
) -> None:
    for batch in _batches(session, group, records):
        keys = {record.measure.subject for record in batch}
        keys |= {r.measure.against for r in batch if r.measure.against is not None}
        # Sorted first: a set's order differs from process to process, the seed must decide.
        order = sorted(keys)
        shuffler.shuffle(order)
        session.place(order)
        for record in batch:
            if stop.asked:
                return
            _take_trial(session, group.method, record, stop, is_watched)


def _batches(
    session: Session, group: Group, records: Sequence[_Record]
) -> Iterator[Sequence[_Record]]:
    """Split a round so that no batch needs more programs than may be placed at once."""
    if session.capacity is None:
        yield records
        return
    program_of = {subject.key: subject.load_key for subject in group.subjects}

    def programs(record: _Record) -> frozenset[LoadKey]:
        measure = record.measure
        keys = (measure.subject, measure.against or measure.subject)
        return frozenset(program_of[key] for key in keys)

    left = list(records)
    while left:
        placed: frozenset[LoadKey] = frozenset()
        for record in left:
            union = placed | programs(record)
            if len(union) <= session.capacity:
                placed = union
        if not placed:
            raise ValueError(f"a measure needs more than {session.capacity} programs at once")
        yield [record for record in left if programs(record) <= placed]
        left = [record for record in left if not programs(record) <= placed]


class _Calls:
    """Timed calls in which no other task had the CPU; `preempted` were made again for that.

    What is not pinned is not watched: threads that move about are switched all the time.
    """

    def __init__(self, is_watched: bool) -> None:
        self._is_watched = is_watched
        self.preempted = 0

    def timed(self, timer: Timer) -> int:
        """One call's nanoseconds. On a CPU that others never leave for that long, the last's."""
        for _ in range(_CALL_TRIES):
            switches = involuntary_switches()
            elapsed_ns = timer()
            if not self._is_watched or involuntary_switches() == switches:
                break
            self.preempted += 1
            # Who slept is let run for a whole slice when it wakes, and finds the caches cold.
            time.sleep(_REST_S)
            timer()
        return elapsed_ns


def _take_trial(
    session: Session, method: Method, record: _Record, stop: Stop, is_watched: bool
) -> None:
    measure = record.measure
    variant = session.timer(measure.subject)
    placement = session.placement(measure.subject)
    baseline, again, of_baseline = variant, variant, placement
    if measure.against is not None:
        baseline, of_baseline = session.timer(measure.against), session.placement(measure.against)
    elif method is not Method.OPERATION:
        # Gross: once the work against twice the work, so that entering the kernel falls out.
        again = session.timer(measure.subject, doubled=True)
    against_nothing = measure.against is None and method is Method.OPERATION
    baseline_ns: list[int] = []
    variant_ns: list[int] = []
    calls = _Calls(is_watched)
    # First calls meet cold caches and untrained branches.
    baseline()
    again()
    for _ in range(_QUADS[method]):
        if stop.asked:
            break
        first = 0 if against_nothing else calls.timed(baseline)
        variant_ns += (calls.timed(again), calls.timed(again))
        baseline_ns += (first, 0 if against_nothing else calls.timed(baseline))
    if baseline_ns:
        record.add(
            Trial(
                baseline_ns=tuple(baseline_ns),
                variant_ns=tuple(variant_ns),
                placement=(of_baseline, placement),
                interrupted=again.interrupted
                + (baseline.interrupted if baseline is not again else 0),
                duration_ns=again.duration_ns,
                clock_ghz=session.clock_ghz(),
                counts=dict(again.counts),
                preempted=calls.preempted,
            ),
            again.operations_per_call,
        )


def _rows(suite: Suite, engine: Engine, group: Group) -> list[Result]:
    """The group's rows as planned, without a figure."""
    chosen = {f"{CHOSEN_PREFIX}{name}": value for name, value in engine.chosen.items()}
    return [
        Result(
            suite=suite.name,
            engine=engine.name,
            variant=measure.variant,
            baseline=measure.baseline,
            parameters={**measure.parameters, **chosen},
            metric=measure.metric,
            method=group.method.value,
            estimate=None,
            resolution=None,
            verdict=TOO_FEW_LOADS,
        )
        for measure in group.measures
    ]


def _with_reasons(rows: Sequence[Result], group: Group, missing: Mapping[str, str]) -> list[Result]:
    """The rows, those with the reason that cannot be measured for lack of a subject."""
    return [
        replace(
            row, note=missing.get(measure.subject, "") or missing.get(measure.against or "", "")
        )
        for row, measure in zip(rows, group.measures, strict=True)
    ]


def _with_trials(rows: Sequence[Result], records: Sequence[_Record]) -> list[Result]:
    found = list(rows)
    for record in records:
        found[record.row] = replace(
            found[record.row],
            operations_per_call=record.operations,
            trials=tuple(record.trials),
        )
    return found
