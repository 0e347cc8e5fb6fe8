"""Anybody's own programs as a suite: one alone over a program that does nothing, or several
against the first, on frames by class.

Nothing is known of such a program but what a run shows. Each is run on each frame before it is
measured: its action names the row's path, and one that does something else when it is run
again is not measured where a timed call would do just that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdplab.engines import live_ways
from xdplab.engines.base import (
    Engine,
    Entries,
    Method,
    Outcome,
    Repeating,
    Subject,
    Surrounded,
    action_name,
)
from xdplab.errors import NotPossibleError
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.records import TWIN
from xdplab.suites import own_tables
from xdplab.suites.base import BPF_ENGINES, Group, Measure, Plan, Suite, Values
from xdplab.suites.own_tables import ACTION, EMPTY, NAME, OPERATIONS, PACKET, PLAIN, SHARE

_BATCH = 512

GENERATOR = "frames"
"""What makes the packets of live paths: of all generators the one that costs least itself."""


@dataclass(frozen=True, slots=True)
class Own:
    """One program: a name to show, unique among those compared, and what it is loaded with."""

    name: str
    object: ObjectSpec
    program: str
    constants: Mapping[str, int | bytes] = field(default_factory=dict)
    globals: Mapping[str, int] = field(default_factory=dict)
    entries: Mapping[str, Entries] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FrameClass:
    """A frame that stands for others: `share` of a capture's packets (0 to 1) are of its class,
    None where it stands for itself."""

    label: str
    frame: Frame
    share: float | None = None


def own_suite(
    programs: Sequence[Own],
    classes: Sequence[FrameClass],
    operations: int | None,
    notes: Sequence[str] = (),
) -> Suite:
    """The suite of these programs on these frames.

    `operations` is how often one run performs what is asked for, None for a whole packet a run.
    `notes` are what must be known besides what the plan itself finds out.
    """

    def plan(_values: Values, engine: Engine) -> Plan:
        found = own_plan(programs, classes, operations, engine)
        return replace(found, notes=(*found.notes, *notes))

    return Suite(
        NAME, "your own programs", (), plan, own_tables.tables, engines=(*BPF_ENGINES, "live")
    )


def classify(program: Own, frames: Sequence[Frame], engine: Engine) -> list[int]:
    """What the program returns for each frame, maps as they are loaded for each batch of frames.

    NotPossibleError where the engine cannot run it."""
    found: list[int] = []
    for start in range(0, len(frames), _BATCH):
        batch = frames[start : start + _BATCH]
        subjects = [_subject(program, str(index), frame) for index, frame in enumerate(batch)]
        with _around(engine), engine.open(subjects, Method.PACKET) as session:
            if session.missing:
                reason = next(iter(session.missing.values()))
                raise NotPossibleError(f"{program.name} cannot run: {reason}")
            found += [session.run(one.key).retval for one in subjects]
    return found


def own_plan(
    programs: Sequence[Own],
    classes: Sequence[FrameClass],
    operations: int | None,
    engine: Engine,
) -> Plan:
    """What is measured of these programs on that engine, after each was run there on each frame.

    Those that cannot be measured on a frame have no measures on it, and a note says why.
    """
    is_live = "generator" in engine.datapath
    subjects: list[Subject] = []
    measures: list[Measure] = []
    notes: list[str] = []
    with _around(engine) as numbers:
        for one in classes:
            own = [
                _subject(p, f"{p.name}/{one.label}", one.frame, operations or 1) for p in programs
            ]
            found, said = _looked_at(engine, own, programs)
            notes += [f"{one.label}: {text}" for text in said]
            if len({action for action in found if action}) > 1:
                pairs = zip(programs, found, strict=True)
                told = ", ".join(f"{program.name} {action}" for program, action in pairs if action)
                notes.append(f"{one.label}: the programs do not return the same: {told}.")
            baselines = {
                action: _plain(one, action, numbers) if is_live else _empty(one)
                for action in found
                if action
            }
            if is_live:
                own = [
                    _on_its_way(subject, action) if action else subject
                    for subject, action in zip(own, found, strict=True)
                ]
            wanted = _of_class(programs, own, found, baselines, _parameters(one, operations))
            subjects += wanted[0]
            measures += wanted[1]
    if is_live:
        notes.append(
            "A packet's whole way: made as a live frame, over a veth pair, through the program, to "
            "where its action takes it. Each packet is a fresh copy; its destination MAC address "
            "is the interface's that it goes to."
        )
    if operations is not None:
        notes.append(
            f"A run performs {operations} operations; figures are of one, the run's own share of "
            "everything around them included."
        )
    method = Method.LIVE if is_live else Method.PACKET
    return Plan([Group(method, subjects, measures, 1.0)], notes)


def _of_class(
    programs: Sequence[Own],
    own: Sequence[Subject],
    actions: Sequence[str | None],
    baselines: Mapping[str, tuple[str, Subject]],
    parameters: Mapping[str, int | str],
) -> tuple[list[Subject], list[Measure]]:
    """What is measured on one frame: each program with an action over the baseline of that action,
    and over the first one, which has a twin."""
    subjects = {subject.key: subject for _, subject in baselines.values()}
    measures = []
    for program, subject, action in zip(programs, own, actions, strict=True):
        if action is None:
            continue
        subjects[subject.key] = subject
        told_of = {**parameters, ACTION: action}
        name, baseline = baselines[action]
        if subject.datapath:
            measures.append(Measure(program.name, subject.key, told_of))
        measures.append(Measure(program.name, subject.key, told_of, name, baseline.key))
        if program is not programs[0] and actions[0] is not None:
            measures.append(
                Measure(program.name, subject.key, told_of, programs[0].name, own[0].key)
            )
    if actions[0] is not None:
        twin = replace(own[0], key=f"{TWIN}/{parameters[PACKET]}", instance=1)
        subjects[twin.key] = twin
        measures.append(Measure(TWIN, twin.key, parameters, programs[0].name, own[0].key))
    return list(subjects.values()), measures


def _subject(own: Own, key: str, frame: Frame, operations: int = 1) -> Subject:
    # Objects of the same file name are told apart by the name that is shown.
    return Subject(
        key=key,
        object=replace(own.object, name=_loadable(own.name)),
        program=own.program,
        frame=frame,
        action=None,
        operations=operations,
        globals=own.globals,
        constants=own.constants,
        entries=own.entries,
    )


def _loadable(name: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in name)


def _parameters(one: FrameClass, operations: int | None) -> dict[str, int | str]:
    parameters: dict[str, int | str] = {PACKET: one.label, "frame_bytes": len(one.frame.data)}
    if one.share is not None:
        parameters[SHARE] = f"{100 * one.share:.3g}"
    if operations is not None:
        parameters[OPERATIONS] = operations
    return parameters


def _on_its_way(subject: Subject, action: str) -> Subject:
    way = {"way": live_ways.WAY_OF_ACTION[action], "generator": GENERATOR, "mode": "native"}
    return replace(subject, datapath=way)


def _empty(one: FrameClass) -> tuple[str, Subject]:
    """What a test run's program is net of, and its name."""
    empty = Own(EMPTY, shipped_object("adjust_head"), "once_empty")
    return EMPTY, _subject(empty, f"{EMPTY}/{one.label}", one.frame)


def _plain(one: FrameClass, action: str, numbers: Mapping[str, int]) -> tuple[str, Subject]:
    """What a program on a live path is net of, and its name: one that does no more than return
    the same action."""
    kind = "drop" if action == "XDP_ABORTED" else action.removeprefix("XDP_").lower()
    constants = {"out_ifindex": numbers[live_ways.OUT]}
    plain = Own(f"{PLAIN}{kind}", shipped_object("plain"), kind, constants)
    subject = _subject(plain, f"{plain.name}/{one.label}", one.frame)
    return plain.name, _on_its_way(subject, action)


def _around(engine: Engine) -> contextlib.AbstractContextManager[Mapping[str, int]]:
    """Where programs find the interfaces that they will be measured with, and these."""
    return engine.surroundings() if isinstance(engine, Surrounded) else contextlib.nullcontext({})


def _looked_at(
    engine: Engine, subjects: Sequence[Subject], programs: Sequence[Own]
) -> tuple[list[str | None], list[str]]:
    """The action of each subject, None for one that is another program when it is run again."""
    actions: list[str | None] = []
    notes = []
    is_live = "generator" in engine.datapath
    with engine.open(subjects, Method.PACKET) as session:
        for subject, program in zip(subjects, programs, strict=True):
            actions.append(None)
            if subject.key in session.missing:
                notes.append(f"{program.name} was left out: {session.missing[subject.key]}.")
                continue
            first = session.run(subject.key)
            # Twice, for what takes turns is the same again after an even number of runs.
            last = session.run(subject.key)
            # On live paths each packet comes as it was sent.
            if not is_live and isinstance(session, Repeating) and _is_same(first, last):
                last = session.repeated(subject.key)
            action = action_name(first.retval)
            if not _is_same(first, last):
                notes.append(
                    f"{program.name} was left out: it returned {action} with {len(first.data)} "
                    f"bytes at first, and {action_name(last.retval)} with {len(last.data)} when it "
                    "ran again, as it does in a timed call: each run finds the packet, and the "
                    "maps, as the one before left them. Have it put back what it changes, or "
                    "measure a version that does not."
                )
            elif is_live and action not in live_ways.WAY_OF_ACTION:
                notes.append(f"{program.name} was left out: it returned {action}, which is none.")
            else:
                actions[-1] = action
    return actions, notes


def _is_same(first: Outcome, last: Outcome) -> bool:
    return (first.retval, len(first.data)) == (last.retval, len(last.data))
