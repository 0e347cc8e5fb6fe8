"""Exact counts of a program: instructions per packet and per source line, actions, helper calls.

Each frame goes through two loads of the program, one that checks every access and one that counts
every block: counting alone does not guard memory, and checking would count its own work. Both
start from equal maps, times and random numbers, so that both take the same way.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdplab.engines.base import action_name
from xdplab.errors import FrameError, XdplabError
from xdplab.packets.frame import Frame
from xdplab.program import LineInfo, ObjectSpec
from xdplab.records import LINE_INSNS, RESOLVED, Estimate, Result
from xdplab.suites.table import Column, Row, Table
from xdplab.user.cache import ObjectCache
from xdplab.user.machine import UserObject
from xdplab.user.options import Mode, Options

_NO_LINE = "(of no line: the compiler's own)"

_TIME_NS = 1_000_000_000
"""What bpf_ktime_get_ns answers while counting: real time would make ways differ."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What was counted of one program over `len(instructions)` packets.

    `instructions` has one number a packet, in their order; `actions` packets by action name,
    `helpers` calls by helper or kfunc name, `lines` instructions by source line, and `sources`
    the text of those lines. Instructions without a line are under ("", 0), and those of a file
    that are of no line of it under (FILE, 0). `failure` is what ended counting early.
    """

    object: str
    program: str
    instructions: tuple[int, ...]
    actions: Mapping[str, int]
    helpers: Mapping[str, int]
    lines: Mapping[tuple[str, int], int]
    sources: Mapping[tuple[str, int], str]
    failure: XdplabError | None = None


def count(
    spec: ObjectSpec,
    program: str,
    frames: Iterable[Frame],
    place: Callable[[], str] | None = None,
) -> Tally:
    """Run a program on frames, one after the other, maps kept between them, and count.

    Where the program accesses memory that it must not, or does not end, or where `frames` raises
    an XdplabError, that is the tally's `failure` behind the packets until then; it is raised where
    there is none. `place` says which packet was given last, by default the how manieth. FrameError
    without frames. MissingFeatureError where the program needs what the user-space engine lacks.
    """
    cache = ObjectCache()
    instructions: list[int] = []
    actions: Counter[str] = Counter()
    failure: XdplabError | None = None
    with (
        UserObject(spec, Options(Mode.CHECKED, quick=True), cache=cache) as guard,
        UserObject(spec, Options(Mode.COUNTED, quick=True), cache=cache) as counter,
    ):
        for one in (guard, counter):
            one.state.fixed_time, one.state.time_ns = 1, _TIME_NS
        checked, counted = guard.program(program), counter.program(program)
        try:
            for frame in frames:
                safe = checked.run(frame)
                if safe.fault is not None:
                    where = place() if place else f"packet {len(instructions) + 1}"
                    raise XdplabError(
                        f"counting {program} of {spec.name} ended at {where}: {safe.fault.message}"
                    )
                outcome = counted.run(frame)
                instructions.append(outcome.instructions)
                actions[action_name(outcome.retval)] += 1
        except XdplabError as error:
            if not instructions:
                raise
            failure = error
        if not instructions:
            raise FrameError("there is no frame to run the program on")
        counts = counted.counts()
        return Tally(
            object=spec.name,
            program=program,
            instructions=tuple(instructions),
            actions=dict(actions),
            helpers={name: number for name, number in counts.by_helper().items() if number},
            lines=dict(counts.by_line()),
            sources=_sources(line for line in counts.program.lines if line is not None),
            failure=failure,
        )


def _sources(lines: Iterable[LineInfo]) -> dict[tuple[str, int], str]:
    return {(line.file, line.line): line.text for line in lines}


def results_of(tally: Tally) -> Iterator[Result]:
    """The tally as results: exact, so that low and high are the extremes over the packets.

    The note of a source line's result is its text.
    """

    def result(
        metric: str, parameters: Mapping[str, int | str], values: Sequence[int], note: str = ""
    ) -> Result:
        return Result(
            suite="count",
            engine="user",
            variant=tally.program,
            baseline=None,
            parameters=parameters,
            metric=metric,
            method="counted",
            estimate=Estimate(
                statistics.median(values), min(values), max(values), 1.0, len(tally.instructions)
            ),
            resolution=0.0,
            verdict=RESOLVED,
            note=note,
        )

    yield result("insns", {"object": tally.object}, tally.instructions)
    for name, number in tally.actions.items():
        yield result("packets", {"object": tally.object, "action": name}, [number])
    for name, number in tally.helpers.items():
        yield result("calls", {"object": tally.object, "helper": name}, [number])
    for (file, line), number in sorted(tally.lines.items()):
        yield result(
            LINE_INSNS,
            {"object": tally.object, "file": file, "line": line},
            [number],
            tally.sources.get((file, line), ""),
        )


def tables_of(results: Sequence[Result], notes: Sequence[str] = ()) -> list[Table]:
    """Per packet, by helper, and the annotated source, of which lines that never ran are left.

    `results` are those of `results_of`, fresh or read back. `notes` say what must be known of the
    packets; they stand below the first table.
    """

    def of(metric: str, parameter: str) -> list[tuple[str, int | str]]:
        return sorted(
            (str(result.parameters[parameter]), _plain(result.estimate.point))
            for result in results
            if result.metric == metric and result.estimate is not None
        )

    insns = next(result for result in results if result.metric == "insns")
    summary = []
    if insns.estimate is not None:
        summary = [
            Row(("packets", insns.estimate.n)),
            Row(("instructions per packet, least", _plain(insns.estimate.low))),
            Row(("instructions per packet, median", _plain(insns.estimate.point))),
            Row(("instructions per packet, most", _plain(insns.estimate.high))),
        ]
    summary += [Row((f"{name}, packets", number)) for name, number in of("packets", "action")]
    summary += [Row((f"calls of {name}", number)) for name, number in of("calls", "helper")]
    title = f"{insns.variant} of {insns.parameters['object']}: exact counts, eBPF instructions"
    return [Table(title, (Column(""), Column("count")), summary, notes), *_listings(results)]


def _listings(results: Sequence[Result]) -> Iterator[Table]:
    lines = [
        (result, result.estimate.point)
        for result in results
        if result.metric == LINE_INSNS and result.estimate is not None
    ]
    total = sum(number for _, number in lines)
    by_file: dict[str, list[Row]] = {}
    for result, number in lines:
        share = f"{100 * number / total:.1f} %" if total else ""
        text = result.note if result.parameters["line"] else _NO_LINE
        row = Row((_plain(number), share, result.parameters["line"] or None, text))
        by_file.setdefault(str(result.parameters["file"] or "without a source line"), []).append(
            row
        )
    columns = (Column("instructions"), Column("share"), Column("line"), Column("source"))
    for file, rows in by_file.items():
        yield Table(file, columns, rows)


def _plain(value: float) -> int | str:
    return int(value) if float(value).is_integer() else str(value)
