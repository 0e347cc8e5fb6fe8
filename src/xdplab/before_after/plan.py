"""Suites and one's own programs as one bundle that any guest runs, and its questions beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdplab.engines.base import Method, Subject
from xdplab.guests.bundle import Bundle
from xdplab.guests.console import GuestReport
from xdplab.guests.planning import GuestEngine, Question
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.suites.base import Group, Measure, Suite, Values, find_suites

SUITES = ("adjust-head", "packet-access", "traits", "calls")
"""Suites that guests can run, in the order in which they are measured."""

OWN = "prog"
"""What one's own programs are called where a suite has its name."""

EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class OwnProgram:
    """A program of the user's and the frames to run it on, by what they are called."""

    spec: ObjectSpec
    program: str
    frames: Mapping[str, Frame]


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A group of a suite; `place` is its name in the bundle, `control` what it is measured against
    most: a patch that leaves that alone must not move it."""

    suite: str
    place: str
    group: Group
    control: str | None


@dataclass(frozen=True, slots=True)
class Planned:
    """All that a run measures, for every kernel the same."""

    suites: Sequence[tuple[Suite, Values]]
    groups: Sequence[PlannedGroup]
    bundle: Bundle

    def notes(self, suite: Suite, values: Values, report: GuestReport) -> Sequence[str]:
        """What the suite's plan says of that kernel, from what it answered."""
        answers: dict[Question, bytes] = {}
        engine = GuestEngine()
        suite.plan(values, engine)
        for key, name in engine.wanted.items():
            row = self.bundle.rows.get((_questions(suite.name), key))
            answer = None if row is None else report.rows.get(row.number)
            if answer is not None and answer.value is not None:
                answers[key, name] = answer.value
        # A question without an answer would be answered by whatever the plan takes for granted.
        if len(answers) < len(engine.wanted):
            return ()
        return suite.plan(values, GuestEngine(report, answers)).notes


def choose(names: Sequence[str]) -> list[Suite]:
    """The suites of these names that guests can run; UsageError for any other."""
    from xdplab.errors import UsageError

    wrong = [name for name in names if name not in SUITES]
    if wrong:
        raise UsageError(
            f"there is no suite {wrong[0]!r} for guest kernels. There are: {', '.join(SUITES)}"
        )
    suites = find_suites()
    return [suites[name] for name in SUITES if name in names]


def plan(chosen: Sequence[tuple[Suite, Values]], own: Sequence[OwnProgram]) -> Planned:
    """Plan suites with their options' values, and one's own programs."""
    bundle, groups = Bundle(), []
    for suite, values in chosen:
        engine = GuestEngine()
        for number, group in enumerate(suite.plan(values, engine).groups):
            place = f"{suite.name}/{number}"
            groups.append(PlannedGroup(suite.name, place, group, _control(group)))
        bundle.add(_questions(suite.name), engine.asked.values(), Method.OPERATION, engine.wanted)
    if own:
        group = _own_group(own)
        groups.append(PlannedGroup(OWN, OWN, group, EMPTY))
    for planned in groups:
        bundle.add(planned.place, planned.group.subjects, planned.group.method)
    return Planned(chosen, groups, bundle)


def _questions(suite: str) -> str:
    return f"{suite}/questions"


def _control(group: Group) -> str | None:
    against = Counter(measure.against for measure in group.measures if measure.against)
    return against.most_common(1)[0][0] if against else None


def _own_group(own: Sequence[OwnProgram]) -> Group:
    """One's own programs by the packet method, and an empty one that no patch should move."""
    subjects, measures = [], []
    frame = next(iter(own[0].frames.values()))
    subjects.append(Subject(EMPTY, shipped_object("adjust_head"), "once_empty", frame))
    measures.append(Measure(EMPTY, EMPTY))
    for number, one in enumerate(own):
        for name, frame in one.frames.items():
            key = f"{number}/{name}"
            subjects.append(Subject(key, one.spec, one.program, frame, action=None))
            parameters = {"object": one.spec.name, "frame": name}
            measures.append(Measure(one.program, key, parameters, EMPTY, EMPTY))
    return Group(Method.PACKET, subjects, measures, share=1.0)
