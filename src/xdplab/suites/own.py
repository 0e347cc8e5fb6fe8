"""Anybody's own programs as a suite: one alone over the empty program, or several against the
first, on frames by class.

Nothing is known of such a program but what a run shows. Each is run once on each frame before it
is measured: its action names the row's path, and one that does something else when it is run
again on what it left of its packet is not measured where a timed call would do just that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdplab.engines.base import Engine, Entries, Method, Outcome, Repeating, Subject, action_name
from xdplab.errors import UsageError
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.records import Result
from xdplab.stats import estimates
from xdplab.suites.base import TWIN, Group, Measure, Plan, Results, Suite, Values
from xdplab.suites.table import Cell, Column, Figure, Row, Table

NAME = "bench"
EMPTY = "empty"


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
    """A frame that stands for others: `share` of the packets are of its class (0 to 1)."""

    label: str
    frame: Frame
    share: float


def own_suite(
    programs: Sequence[Own], classes: Sequence[FrameClass], operations: int | None
) -> Suite:
    """The suite of these programs on these frames.

    `operations` is how often one run performs what is asked for, None for a whole packet a run.
    """

    def plan(_values: Values, engine: Engine) -> Plan:
        return _plan(programs, classes, operations, engine)

    def tables(results: Results, notes: Sequence[str]) -> Sequence[Table]:
        return _tables(programs, classes, operations, results, notes)

    return Suite(NAME, "your own programs", (), plan, tables)


def classify(program: Own, frames: Sequence[Frame], engine: Engine) -> list[int]:
    """What the program returns for each frame, maps as they are loaded for each batch of frames."""
    found: list[int] = []
    for start in range(0, len(frames), _BATCH):
        batch = frames[start : start + _BATCH]
        subjects = [_subject(program, str(index), frame) for index, frame in enumerate(batch)]
        with engine.open(subjects, Method.PACKET) as session:
            if session.missing:
                raise UsageError(
                    f"{program.name} cannot run: {next(iter(session.missing.values()))}"
                )
            found += [session.run(one.key).retval for one in subjects]
    return found


_BATCH = 512


def _subject(own: Own, key: str, frame: Frame, operations: int = 1, instance: int = 0) -> Subject:
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
        instance=instance,
    )


def _loadable(name: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in name)


def _plan(
    programs: Sequence[Own],
    classes: Sequence[FrameClass],
    operations: int | None,
    engine: Engine,
) -> Plan:
    empty = Own(EMPTY, shipped_object("adjust_head"), "once_empty")
    subjects: list[Subject] = []
    measures: list[Measure] = []
    notes: list[str] = []
    count = operations or 1
    for one in classes:
        parameters: dict[str, int | str] = {"packet": one.label, "frame_bytes": len(one.frame.data)}
        baselines = [_subject(empty, f"{EMPTY}/{one.label}", one.frame)]
        own = [_subject(p, f"{p.name}/{one.label}", one.frame, count) for p in programs]
        twin = _subject(programs[0], f"{TWIN}/{one.label}", one.frame, count, instance=1)
        wanted, said = _steady(engine, own, programs)
        notes += [f"{one.label}: {text}" for text in said]
        actions = {p.name: action for p, action in zip(programs, wanted, strict=True)}
        differ = {action for action in actions.values() if action is not None}
        if len(differ) > 1:
            told = ", ".join(f"{name} {action}" for name, action in actions.items())
            notes.append(f"{one.label}: the programs do not return the same: {told}.")
        subjects += [*baselines, *own, twin]
        for program, subject, action in zip(programs, own, wanted, strict=True):
            if action is None:
                continue
            told_of = {**parameters, "action": action}
            measures.append(Measure(program.name, subject.key, told_of, EMPTY, baselines[0].key))
            if program is not programs[0] and wanted[0] is not None:
                measures.append(
                    Measure(program.name, subject.key, told_of, programs[0].name, own[0].key)
                )
        if wanted[0] is not None:
            measures.append(Measure(TWIN, twin.key, parameters, programs[0].name, own[0].key))
    if engine.name == "user":
        notes.append(
            "Every memory access is checked here, as no verifier has seen the programs; that is "
            "part of the figures."
        )
    if operations is not None:
        notes.append(
            f"A run performs {operations} operations; figures are of one, the run's own share of "
            "everything around them included."
        )
    return Plan([Group(Method.PACKET, subjects, measures, 1.0)], notes)


def _steady(
    engine: Engine, subjects: Sequence[Subject], programs: Sequence[Own]
) -> tuple[list[str | None], list[str]]:
    """The action of each subject, None for one that is another program when it is run again."""
    actions: list[str | None] = []
    notes = []
    with engine.open(subjects, Method.PACKET) as session:
        for subject, program in zip(subjects, programs, strict=True):
            if subject.key in session.missing:
                actions.append(None)
                notes.append(f"{program.name} was left out: {session.missing[subject.key]}.")
                continue
            first = session.run(subject.key)
            # Twice, for what takes turns is the same again after an even number of runs.
            last = session.run(subject.key)
            if isinstance(session, Repeating) and _is_same(first, last):
                last = session.repeated(subject.key)
            action = action_name(first.retval)
            if _is_same(first, last):
                actions.append(action)
                continue
            actions.append(None)
            notes.append(
                f"{program.name} was left out: it returned {action} with {len(first.data)} bytes "
                f"at first, and {action_name(last.retval)} with {len(last.data)} when it ran "
                "again, as it does in a timed call: each run finds the packet, and the maps, as "
                "the one before left them. Have it put back what it changes, or measure a version "
                "that does not."
            )
    return actions, notes


def _is_same(first: Outcome, last: Outcome) -> bool:
    return (first.retval, len(first.data)) == (last.retval, len(last.data))


def _tables(
    programs: Sequence[Own],
    classes: Sequence[FrameClass],
    operations: int | None,
    results: Results,
    notes: Sequence[str],
) -> Sequence[Table]:
    shares = {one.label: one.share for one in classes}
    unit = "ns" if operations is None else "ns/op"
    first = programs[0].name
    columns = [Column("program"), Column("packets"), Column("share", "%"), Column("action")]
    columns.append(Column("over the empty program", unit))
    if len(programs) > 1:
        columns.append(Column(f"over {first}", unit))
    rows = []
    for one in classes:
        begins = True
        for program in programs:
            found = _of(results, program, one)
            cost = _over(found, EMPTY)
            cells: list[Cell] = [
                program.name,
                one.label,
                f"{100 * shares[one.label]:.1f}",
                str(found[0].parameters["action"]) if found else None,
                Figure.of(cost) if cost else None,
            ]
            if len(programs) > 1:
                against = _over(found, first)
                cells.append(Figure.of(against, signed=True) if against else None)
            rows.append(Row(cells, note="" if cost else "left out", begins_section=begins))
            begins = False
    whole = _whole(programs, classes, results) if len(classes) > 1 else []
    rows += whole
    return [
        Table(
            "your programs, a packet each" if operations is None else "your programs, an operation",
            columns,
            rows,
            [*_verdicts(programs, results), *notes],
        )
    ]


def _of(results: Results, program: Own, one: FrameClass) -> list[Result]:
    return [
        result
        for result in results.all()
        if result.variant == program.name and result.parameters.get("packet") == one.label
    ]


def _over(results: Sequence[Result], baseline: str) -> Result | None:
    return next((r for r in results if r.baseline == baseline and r.estimate is not None), None)


def _whole(programs: Sequence[Own], classes: Sequence[FrameClass], results: Results) -> list[Row]:
    """Each program over all classes, weighed by their shares; none where a class is missing."""
    rows: list[Row] = []
    for program in programs:
        cells: list[Cell] = [program.name, "all, by share", "100.0", None]
        for baseline in (EMPTY, programs[0].name)[: min(2, len(programs))]:
            parts = []
            for one in classes:
                found = _over(_of(results, program, one), baseline)
                if found is not None and found.estimate is not None:
                    parts.append(estimates.scaled(found.estimate, one.share))
            cell = None
            if len(parts) == len(classes):
                whole = parts[0]
                for part in parts[1:]:
                    whole = estimates.total(whole, part)
                cell = Figure(whole, signed=baseline != EMPTY)
            cells.append(cell)
        rows.append(Row(cells, begins_section=not rows))
    return rows


def _verdicts(programs: Sequence[Own], results: Results) -> list[str]:
    found = []
    for result in results.all():
        if result.variant == TWIN or result.baseline != programs[0].name:
            continue
        if result.estimate is None:
            continue
        size = abs(result.estimate.point)
        where = f"{result.variant} on {result.parameters['packet']}"
        if result.verdict == "resolved":
            word = "slower" if result.estimate.point > 0 else "faster"
            found.append(f"{where}: {size:.2f} ns {word} than {result.baseline}.")
        else:
            known = "" if result.resolution is None else f" of {result.resolution:.2f} ns"
            found.append(f"{where}: no difference from {result.baseline} beyond the noise{known}.")
    return found
