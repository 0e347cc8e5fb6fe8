"""Measure one's own program, alone or against another, and what came of it."""

from __future__ import annotations

import statistics
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from xdplab import __version__
from xdplab.engines.base import Engine, Method, Subject
from xdplab.errors import NotPossibleError, UsageError
from xdplab.experiment import Stop, run_suite
from xdplab.lab.columns import Columns, figures
from xdplab.lab.running import Entries, Packet, chosen_of, entries_of, frame_of, loaded, why_not
from xdplab.packets.frame import MINIMUM_BYTES, Frame
from xdplab.program.chosen import Chosen
from xdplab.program.shipped import shipped_object
from xdplab.records import Document, Result, RunInfo
from xdplab.suites.base import TWIN, Group, Measure, Plan, Suite, Values

EMPTY = "empty"
"""Variant name of the program that does nothing: others are net of it."""

_SUITE = "lab"

_STEADY_RUNS = 125
"""A timed call runs a program that often on one buffer of the user-space engine; who still does the
same after as many runs does so in all of them."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured. `cost` is the program net of the empty one, `difference` the program over
    its baseline, None where it had none; `document` has all of it, with samples and environment.
    """

    cost: Result
    difference: Result | None
    document: Document

    def figures(self) -> Columns:
        """The figures as columns; see `lab.figures`."""
        return figures([self.document])


def measure(
    program: str | Path | Chosen,
    baseline: str | Path | Chosen | None = None,
    *,
    packet: Packet,
    engine: str = "user",
    time_s: float = 2.0,
    maps: Entries | None = None,
) -> Measured:
    """Measure what a program takes for a packet, in nanoseconds, interleaved with a baseline's.

    `maps` are entries that both programs find; each has maps of its own. The figures are those of
    docs/method.md's packet method; about `time_s` seconds are spent. On the user-space engine
    programs run as the JIT made them, after every access to this packet was checked.

    UsageError where a program cannot be measured, as one that changes its packet or its maps so
    that it does something else when it meets the packet again; errors of `load`.
    """
    reason = why_not(engine)
    if reason:
        raise NotPossibleError(reason)
    if time_s <= 0:
        raise UsageError(f"a time of {time_s:g} s measures nothing. Give more than 0")
    frame, entries = frame_of(packet), maps or {}
    named = {"program": chosen_of(program)}
    if baseline is not None:
        named = {"baseline": chosen_of(baseline), **named}
    known = {name for one in named.values() for name in one.spec.maps}
    for name in entries:
        if name not in known:
            raise UsageError(f"no program has a map {name!r}. Maps: {', '.join(sorted(known))}")
    actions = {role: _steady_action(one, engine, frame, entries) for role, one in named.items()}
    suite = Suite(
        _SUITE,
        "your own programs",
        (),
        lambda _values, _engine: _plan(named, actions, frame, entries),
        lambda _results, _notes: (),
    )
    return _measured(suite, _engine(engine), time_s)


def _steady_action(chosen: Chosen, engine: str, frame: Frame, entries: Entries) -> int:
    """What the program returns, which must be the same whenever it meets the packet again."""
    with loaded(chosen, engine, entries) as one:
        first = ran = one.run(frame)
        for number in range(1, _STEADY_RUNS):
            if len(ran.data) >= MINIMUM_BYTES:
                ran = one.run(replace(frame, data=ran.data, metadata=ran.metadata))
            if (ran.retval, len(ran.data)) != (first.retval, len(first.data)):
                raise UsageError(
                    f"{chosen.program.name} cannot be measured: it returned {first.action} with "
                    f"{len(first.data)} bytes at first, {ran.action} with {len(ran.data)} in run "
                    f"{number + 1}. A timed call runs it again on what it left: have it put back "
                    "what it changes"
                )
    return first.retval


def _plan(
    named: Mapping[str, Chosen], actions: Mapping[str, int], frame: Frame, entries: Entries
) -> Plan:
    names = {role: one.program.name for role, one in named.items()}
    if len(set(names.values())) < len(names):
        names["baseline"] += " (baseline)"

    def subject(role: str, instance: int = 0) -> Subject:
        chosen = named[role]
        return Subject(
            key=role if not instance else TWIN,
            # Objects before and after a change have one name; engines tell loads apart by it.
            object=replace(chosen.spec, name=f"{role}_{chosen.spec.name}"),
            program=chosen.program.name,
            frame=frame,
            action=actions[role],
            instance=instance,
            entries=entries_of(chosen, entries),
        )

    empty = Subject(EMPTY, shipped_object("adjust_head"), "once_empty", frame)
    subjects = [empty, *map(subject, named), subject("program", instance=1)]
    size = {"frame_bytes": len(frame.data)}
    measures = [Measure(names[role], role, size, EMPTY, EMPTY) for role in named]
    if "baseline" in named:
        measures.append(Measure(names["program"], "program", size, names["baseline"], "baseline"))
    measures.append(Measure(TWIN, TWIN, size, names["program"], "program"))
    return Plan([Group(Method.PACKET, subjects, measures, 1.0)])


def _engine(name: str) -> Engine:
    if name == "kernel":
        from xdplab.engines.kernel import KernelEngine

        return KernelEngine()
    from xdplab.engines.user import UserEngine

    return UserEngine()


def _measured(suite: Suite, engine: Engine, time_s: float) -> Measured:
    from xdplab.kernel.host import environment

    around = environment()
    around["cpu"]["pinned"] = engine.cpu
    started, start = datetime.now(UTC), time.monotonic()
    values: Values = {}
    outcome = run_suite(suite, values, engine, time_s, Stop(), lambda _label, _share: None)
    if outcome.error is not None:
        raise outcome.error
    if outcome.clock_ghz:
        around["clock"]["measured_ghz"] = round(statistics.median(outcome.clock_ghz), 3)
    document = Document(
        run=RunInfo(
            id=f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}",
            started_at=started.isoformat(timespec="seconds"),
            duration_s=round(time.monotonic() - start, 3),
            command=tuple(sys.argv),
            xdplab_version=__version__,
        ),
        environment=around,
        results=outcome.results,
        warnings=outcome.warnings,
    )
    own = [one for one in outcome.results if one.variant != TWIN]
    for one in own:
        if one.estimate is None:
            raise NotPossibleError(
                f"{one.variant} could not be measured on the {engine.name} engine: {one.note}"
            )
    has_baseline = len(own) > 1
    return Measured(own[1 if has_baseline else 0], own[2] if has_baseline else None, document)
