"""adjust-head: what bpf_xdp_adjust_head costs, and what clearing the exposed bytes would add.

Published: a selftest's whole nanoseconds per run on two kernels, before and after a patch that
clears the bytes in the helper. Here on one kernel: the helper pair (-size, then +size) net of
an empty loop, and the same with the clearing done by the program. "After" is therefore a
program that clears, not a patched kernel; the probe says whether this kernel clears already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdplab.engines.base import Engine, Method, Subject
from xdplab.errors import UsageError
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.records import TWIN, Result
from xdplab.suites.base import (
    Group,
    Measure,
    Option,
    Plan,
    Results,
    Suite,
    Values,
)
from xdplab.suites.table import Cell, Column, Figure, Published, Row, Table

SIZES = (6, 20, 40, 200)
"""Ethernet addresses' half, an IPv4 header, an IPv6 header, and about all that there is."""

PUBLISHED_NS = {6: (56, 58), 20: (56, 58), 40: (56, 58), 200: (56, 66)}
"""Size in bytes -> whole ns per run of the selftest: helper as it is, helper that clears.
Source: the mails around the patch that clears memory in bpf_xdp_adjust_head; hardware unnamed."""

EMPTY, HELPER, CONSTANT, WORDS = "empty", "helper", "helper+memset-constant", "helper+clear-words"
CALL, TWICE = "function-call", "helper-twice"

CLEARS = {
    "helper-clears/memset": "memset",
    "helper-clears/rep-stosb": "rep-stosb",
    "helper-clears/words": "words",
    "helper-clears/constant": "constant",
}
"""Variants in which the helper itself clears, on engines whose data path has `clear_head`."""

_TITLES = {
    HELPER: "helper pair",
    "helper-clears/memset": "helper clears, memset call",
    "helper-clears/rep-stosb": "helper clears, rep stosb",
    "helper-clears/words": "helper clears, loop of words",
    "helper-clears/constant": "helper clears, by size",
    CONSTANT: "+ clearing, constant memset",
    WORDS: "+ clearing, loop of words",
}
_FRAME = Frame(bytes(100))
_OPERATIONS = 1000


def _constants(spec: ObjectSpec) -> frozenset[int]:
    """Sizes for which the object has a program that the compiler knew the size of."""
    prefix = "loop_constant_"
    return frozenset(
        int(name.removeprefix(prefix)) for name in spec.programs if name.startswith(prefix)
    )


def _program(variant: str, size: int) -> str:
    return {WORDS: "words", CONSTANT: f"constant_{size}"}.get(variant, "helper")


def _datapath(variant: str) -> dict[str, str]:
    return {"clear_head": CLEARS[variant]} if variant in CLEARS else {}


def _plan(values: Values, engine: Engine) -> Plan:
    spec = shipped_object("adjust_head")
    sizes = tuple(dict.fromkeys(values["sizes"]))
    _check_sizes(spec, sizes, engine)
    kinds = (HELPER, *(CLEARS if "clear_head" in engine.datapath else ()), CONSTANT, WORDS)
    variants = [
        (variant, size)
        for size in sizes
        for variant in kinds
        if variant != CONSTANT or size in _constants(spec)
    ]
    return Plan((_net(spec, sizes, variants), _gross(spec, variants)), _notes(spec, engine))


def _check_sizes(spec: ObjectSpec, sizes: Sequence[int], engine: Engine) -> None:
    if wrong := [size for size in sizes if size < 1]:
        raise UsageError(f"--sizes has {wrong[0]}; a size is 1 byte or more")
    refused = _refused(spec, sizes, engine)
    if refused:
        # Only now is the limit worth asking for: a test run for every size there may be.
        every = range(1, 257)
        limit = max(set(every) - set(_refused(spec, every, engine)), default=0)
        raise UsageError(
            f"--sizes has {refused[0]}, but bpf_xdp_adjust_head refuses to expose that many "
            f"bytes; the limit here is {limit}: the headroom less the kernel's struct xdp_frame"
        )


def _refused(spec: ObjectSpec, sizes: Sequence[int], engine: Engine) -> list[int]:
    subjects = [
        Subject(str(size), spec, "once_helper", _FRAME, globals={"size": size}) for size in sizes
    ]
    with engine.open(subjects, Method.OPERATION) as session:
        return [size for size in sizes if str(size) in session.missing]


def _notes(spec: ObjectSpec, engine: Engine) -> tuple[str, ...]:
    subject = Subject("probe", spec, "probe_clears", _FRAME)
    with engine.open([subject], Method.OPERATION) as session:
        if "probe" in session.missing:
            return ()
        session.run("probe")
        found = session.read_global("probe", "pattern_kept")
    who = (
        "this kernel"
        if engine.name in {"kernel", "guest"}
        else f"the {engine.name} engine's helper pair"
    )
    says = {
        1: f"{who} does not clear the bytes that it exposes",
        2: f"{who} clears the bytes that it exposes",
    }
    answer = says.get(found if isinstance(found, int) else 0, "neither pattern nor zeros came back")
    return (f"Probe (a pattern written, hidden, exposed, read): {answer}.",)


def _net(spec: ObjectSpec, sizes: Sequence[int], variants: Sequence[tuple[str, int]]) -> Group:
    def subject(
        key: str,
        program: str,
        size: int = 6,
        instance: int = 0,
        datapath: Mapping[str, str] | None = None,
    ) -> Subject:
        return Subject(
            key,
            spec,
            f"loop_{program}",
            _FRAME,
            operations=_OPERATIONS,
            globals={"size": size},
            instance=instance,
            datapath=datapath or {},
        )

    def measures() -> Iterator[Measure]:
        for variant, size in variants:
            key, parameters = f"{variant}/{size}", {"size_bytes": size}
            yield Measure(variant, key, parameters, EMPTY, EMPTY)
            if variant != HELPER:
                yield Measure(variant, key, parameters, HELPER, f"{HELPER}/{size}")
        yield Measure(TWICE, TWICE, {"size_bytes": sizes[0]}, EMPTY, EMPTY)
        yield Measure(TWIN, TWIN, {"size_bytes": sizes[0]}, HELPER, f"{HELPER}/{sizes[0]}")
        yield Measure(CALL, CALL, {}, EMPTY, EMPTY)
        yield Measure(EMPTY, EMPTY, {})

    return Group(
        Method.OPERATION,
        (
            subject(EMPTY, "empty"),
            subject(CALL, "call"),
            subject(TWICE, "helper_twice", sizes[0]),
            subject(TWIN, "helper", sizes[0], instance=1),
            *(
                subject(f"{v}/{size}", _program(v, size), size, datapath=_datapath(v))
                for v, size in variants
            ),
        ),
        tuple(measures()),
        share=0.65,
        doubles=((HELPER, TWICE),),
    )


def _gross(spec: ObjectSpec, variants: Sequence[tuple[str, int]]) -> Group:
    subjects = [
        Subject(
            f"{v}/{size}",
            spec,
            f"once_{_program(v, size)}",
            _FRAME,
            globals={"size": size},
            datapath=_datapath(v),
        )
        for v, size in variants
    ]
    empty = Subject(EMPTY, spec, "once_empty", _FRAME)
    twin = Subject(TWIN, spec, "once_empty", _FRAME, instance=1)
    return Group(
        Method.PACKET,
        (empty, twin, *subjects),
        (
            Measure(EMPTY, EMPTY, {}),
            Measure(TWIN, TWIN, {}, EMPTY, EMPTY),
            *(Measure(v, f"{v}/{size}", {"size_bytes": size}) for v, size in variants),
        ),
        share=0.35,
    )


def _tables(results: Results, notes: Sequence[str]) -> list[Table]:
    rows: list[Row] = []
    for size in results.values_of("size_bytes"):
        for variant in _TITLES:
            net = results.find(variant, {"size_bytes": size}, baseline=EMPTY)
            if net is None:
                continue
            rows.append(_row(results, net, variant, size))
    columns = (
        Column("size", "B"),
        Column("program"),
        Column("cost", "ns"),
        Column("cost", "cycles"),
        Column("over the helper pair", "ns"),
        Column("whole run", "ns"),
        Column("published run", "ns"),
    )
    return [
        Table(
            "cost of bpf_xdp_adjust_head(ctx, -size), then (ctx, +size)",
            columns,
            rows,
            (*notes, *_reading(results), *_selftest_lines(results)),
        )
    ]


def _row(results: Results, net: Result, variant: str, size: int) -> Row:
    over = results.find(variant, {"size_bytes": size}, baseline=HELPER)
    gross = results.find(variant, {"size_bytes": size}, metric="gross_ns", method=Method.PACKET)
    published = PUBLISHED_NS.get(size)
    # Their helper clears by memset; where no helper here does, the program that does stands in.
    after = "helper-clears/memset" if _has_clearing_helper(results) else CONSTANT
    column = {HELPER: 0, after: 1}.get(variant)
    cells: tuple[Cell, ...] = (
        size if variant == HELPER else None,
        _TITLES[variant],
        Figure.of(net),
        Figure.cycles_of(net),
        Figure.of(over, signed=True) if over else None,
        Figure.of(gross, digits=1) if gross else None,
        Published(str(published[column])) if published and column is not None else None,
    )
    return Row(cells, note=net.note, begins_section=variant == HELPER)


def _has_clearing_helper(results: Results) -> bool:
    return any(result.variant in CLEARS for result in results.all())


def _reading(results: Results) -> Iterator[str]:
    yield (
        "cost: net of an empty loop, the operation a thousand times in a loop. whole run: a "
        "program that does it once, with the test run's own work around it. loop of words: for a "
        "size known at run time, in a function of its own, whose call is included."
    )
    call = results.find(CALL, {}, baseline=EMPTY)
    twin = next((r for r in results.all() if r.variant == TWIN and r.baseline == HELPER), None)
    loop = results.find(EMPTY, {}, metric="gross_ns", method=Method.OPERATION)
    parts = []
    if loop and loop.estimate:
        parts.append(f"a turn of the empty loop {loop.estimate.point:.2f} ns")
    if call and call.estimate:
        parts.append(f"a BPF-to-BPF call {call.estimate.point:.2f} ns over it")
    parts += _second_pair(results)
    if twin and twin.estimate:
        parts.append(f"the helper pair against itself {twin.estimate.point:+.3f} ns")
    if parts:
        yield "In the same run: " + ", ".join(parts) + "."
    if any(size in PUBLISHED_NS for size in results.values_of("size_bytes")):
        yield (
            "published run: the selftest's whole nanoseconds on two kernels, the helper as it is "
            "and the helper clearing; machine unnamed. Compare steps, not levels."
        )


def _second_pair(results: Results) -> Iterator[str]:
    for size in results.values_of("size_bytes")[:1]:
        once = results.find(HELPER, {"size_bytes": size}, baseline=EMPTY)
        twice = results.find(TWICE, {"size_bytes": size}, baseline=EMPTY)
        if once and twice and once.estimate and twice.estimate:
            more = twice.estimate.point - once.estimate.point
            yield f"a second pair of {size} B right behind the first {more:.2f} ns"


def _selftest_lines(results: Results) -> Iterator[str]:
    lines = []
    for size in results.values_of("size_bytes"):
        gross = results.find(HELPER, {"size_bytes": size}, metric="gross_ns", method=Method.PACKET)
        if gross and gross.kernel_duration_ns is not None:
            lines.append(f"run adjust head with size {size} cost {gross.kernel_duration_ns} ns")
    if lines:
        yield "As the selftest prints it, from the kernel's own whole nanoseconds:"
        yield from lines


def _published(result: Result) -> Published | None:
    """The selftest's two kernels beside the whole run of the helper pair."""
    size = result.parameters.get("size_bytes")
    if result.variant != HELPER or result.baseline is not None or not isinstance(size, int):
        return None
    known = PUBLISHED_NS.get(size)
    return None if known is None else Published(f"{known[0]} -> {known[1]} ns")


SUITE = Suite(
    name="adjust-head",
    title="what bpf_xdp_adjust_head costs, and clearing what it exposes",
    options=(Option("sizes", SIZES, "bytes to expose and to hide again"),),
    plan=_plan,
    tables=_tables,
    datapath=("clear_head",),
    published=_published,
)
