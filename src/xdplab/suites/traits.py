"""traits: what a key/value store in front of the packet costs, next to a function call.

Published: nanoseconds per operation of a store in the kernel on three machines, ten thousand in one
program run, and what an inline move of words gains over a memmove() call. Here traits.bpf.h, which
is the same store in XDP metadata: each operation in a loop, as a program would have it, next to a
function call and an indirect call in the same run. On the native engine the same C is called as a
kernel's functions are, under mitigations, and has the published change in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdplab import traits
from xdplab.engines.base import Engine, Method, Subject
from xdplab.errors import UsageError
from xdplab.packets.frame import MAXIMUM_METADATA_BYTES, Frame
from xdplab.program.shipped import shipped_object
from xdplab.records import TWIN, Estimate, Result
from xdplab.stats import estimates
from xdplab.suites.base import Group, Measure, Option, Plan, Results, Suite, Values
from xdplab.suites.mitigations import mitigations_note, with_costs
from xdplab.suites.table import Cell, Column, Figure, Published, Row, Table
from xdplab.suites.traits_native import (
    CALL,
    EMPTY,
    FIRST_VALUE,
    GET,
    INDIRECT,
    KEY,
    MOVE,
    OPERATIONS,
    PUBLISHED_VALUES,
    SET,
    native_group,
    native_table,
    other_values,
)

VALUES = (1, 5, 8, 11)
MOST_VALUES = 24
"""Values of eight bytes besides the key's own: as many as keys from 40 on, and as an area holds."""

MACHINES = ("Intel E5-1650 v4", "AMD 9684X, IBPB", "AMD 9684X, SRSO")

IS_SET, INSERT, DEL = "is-set", "insert", "del"
GET_LAST, GET_MIXED, SET_LAST = "get-last", "get-last/mixed", "set-last"
HEADER = "put-header"
HEAD = "head"

PUBLISHED_NS: Mapping[str, tuple[float, float, float]] = {
    CALL: (1.319, 1.359, 5.703),
    INDIRECT: (8.922, 6.251, 10.329),
    GET: (5.530, 3.901, 9.188),
    SET: (7.538, 4.941, 10.050),
    MOVE: (14.245, 8.865, 14.834),
}
"""Variant -> ns per operation on MACHINES. Source: the mails around the patches that move traits
by words; a move in front of 8 values, its figure the mean of a set and a delete."""

MIXED_BYTES = (2, 4, 8, 8, 2, 4, 8, 2)
"""Lengths of the eight values in front of the key in GET_MIXED."""

MOVES = {"memmove": "a memmove call", "words": "words, inlined"}
"""Value of the data path's `trait_move`, and variant behind HEAD -> how metadata moves."""

_TITLES = {
    CALL: "function call",
    INDIRECT: "indirect call",
    IS_SET: "is_set",
    GET: "get",
    GET_LAST: "get, behind 8 values",
    GET_MIXED: "get, behind 8 of 2, 4 and 8 bytes",
    SET: "set, overwriting",
    SET_LAST: "set, behind 8 values",
    INSERT: "set, in front of 8",
    DEL: "del, in front of 8",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """A row's program, the values on its packets, what it is net of, operations in a turn.

    `header` is what the program puts back in each turn, as the keys that are then set.
    """

    program: str
    values: Mapping[int, bytes]
    against: str = EMPTY
    a_turn: int = 1
    header: Mapping[int, bytes] | None = None

    def subject(self, key: str, instance: int = 0) -> Subject:
        """In a frame whose metadata is the area."""
        globals_ = {}
        if self.header is not None:
            area = traits.encode(self.header)
            globals_ = {
                "header_high": int.from_bytes(area[:8], "little"),
                "header_low": int.from_bytes(area[8:16], "little"),
            }
        return Subject(
            key,
            shipped_object("traits"),
            f"loop_{self.program}",
            Frame(bytes(64), traits.encode(self.values, MAXIMUM_METADATA_BYTES)),
            operations=OPERATIONS * self.a_turn,
            globals=globals_,
            instance=instance,
            loop_in_function=True,
        )


def _operations() -> dict[str, Operation]:
    others = other_values(PUBLISHED_VALUES)
    first = {KEY: bytes(8), **others}
    last = {**others, 60: bytes(8)}
    mixed = {**other_values(len(MIXED_BYTES), MIXED_BYTES), 60: bytes(8)}
    return {
        EMPTY: Operation("empty", others),
        CALL: Operation("call", others),
        INDIRECT: Operation("indirect_call", others),
        HEADER: Operation("put_header", others, header=others),
        IS_SET: Operation("is_set", first),
        GET: Operation("get", first),
        GET_LAST: Operation("get_last", last),
        GET_MIXED: Operation("get_last", mixed),
        SET: Operation("set", first),
        SET_LAST: Operation("set_last", last),
        INSERT: Operation("insert", others, HEADER, header=others),
        DEL: Operation("del", first, HEADER, header=first),
    }


def _key(variant: str, count: int) -> str:
    return f"{variant}/{count}"


def _plan(values: Values, engine: Engine) -> Plan:
    counts = tuple(dict.fromkeys(values["values"]))
    for count in counts:
        if not 1 <= count <= MOST_VALUES:
            raise UsageError(
                f"--values has {count}; there are 1 to {MOST_VALUES}: keys {FIRST_VALUE} to "
                f"{traits.KEYS - 1}, and an area of {MAXIMUM_METADATA_BYTES} bytes"
            )
    if engine.name == "native":
        return Plan((native_group(counts),))
    moves = _metadata_moves(engine)
    group = _group(counts, share=0.75 if moves else 1.0)
    groups = (group, _head_group(counts, moves)) if moves else (group,)
    return Plan(groups, (mitigations_note(engine),))


def _group(counts: Sequence[int], share: float) -> Group:
    operations = _operations()
    subjects = [operation.subject(variant) for variant, operation in operations.items()]
    measures = [
        Measure(EMPTY, EMPTY),
        Measure(TWIN, TWIN, {}, GET, GET),
        *(
            Measure(variant, variant, {}, operation.against, operation.against)
            for variant, operation in operations.items()
            if variant != EMPTY
        ),
    ]
    for count in counts:
        move = Operation("move", other_values(count), a_turn=2)
        subjects.append(move.subject(_key(MOVE, count)))
        measures.append(Measure(MOVE, _key(MOVE, count), {"values": count}, EMPTY, EMPTY))
    subjects.append(operations[GET].subject(TWIN, instance=1))
    return Group(Method.OPERATION, subjects, measures, share)


def _metadata_moves(engine: Engine) -> Sequence[str]:
    """How bpf_xdp_adjust_head may move metadata, where the engine has a choice."""
    if "trait_move" not in engine.datapath:
        return ()
    chosen = engine.chosen.get("trait_move")
    return tuple(MOVES) if chosen is None else (chosen,)


def _head_group(counts: Sequence[int], moves: Sequence[str]) -> Group:
    def subject(key: str, metadata: bytes, move: str, instance: int = 0) -> Subject:
        return Subject(
            key,
            shipped_object("traits"),
            "loop_head",
            Frame(bytes(64), metadata),
            # Up and down again: two moves a turn.
            operations=2 * OPERATIONS,
            datapath={"trait_move": move},
            instance=instance,
            loop_in_function=True,
        )

    subjects, measures = [], []
    for move in moves:
        bare = _key(HEAD, 0) + f"/{move}"
        subjects.append(subject(bare, b"", move))
        for count in counts:
            key = f"{_key(HEAD, count)}/{move}"
            subjects.append(subject(key, traits.encode(other_values(count)), move))
            measures.append(Measure(f"{HEAD}/{move}", key, {"values": count}, HEAD, bare))
    first = moves[0]
    subjects.append(subject(TWIN, b"", first, instance=1))
    measures.append(Measure(TWIN, TWIN, {}, HEAD, f"{_key(HEAD, 0)}/{first}"))
    return Group(Method.OPERATION, subjects, measures, share=0.25)


def _tables(results: Results, notes: Sequence[str]) -> list[Table]:
    if any("code" in result.parameters for result in results.all()):
        return [native_table(results, notes)]
    tables = [_main_table(results, notes)]
    if rows := list(_head_rows(results)):
        tables.append(
            Table(
                "moving metadata in bpf_xdp_adjust_head",
                (
                    Column("metadata", "B"),
                    Column("moved by"),
                    Column("cost of a move", "ns"),
                    Column("cycles"),
                ),
                rows,
                (
                    "cost of a move: half of what bpf_xdp_adjust_head(ctx, -8), then (ctx, +8), "
                    "costs more with metadata than without. metadata: a header and as many values "
                    "of eight bytes as above.",
                ),
            )
        )
    return tables


def _main_table(results: Results, notes: Sequence[str]) -> Table:
    call = results.find(CALL, {}, baseline=EMPTY)
    rows = [
        _row(result, call, title)
        for variant, title in _TITLES.items()
        if (result := results.find(variant, {})) is not None
    ]
    for number, count in enumerate(results.values_of("values")):
        result = results.find(MOVE, {"values": count})
        if result is not None:
            rows.append(_row(result, call, f"move in front of {count}", begins=number == 0))
    columns = (
        Column("operation"),
        Column("cost", "ns"),
        Column("cycles"),
        Column("times a call"),
        *(Column(f"published, {machine}", "ns") for machine in MACHINES),
    )
    return Table(
        "cost of a key/value store in front of the packet",
        columns,
        rows,
        (*with_costs(notes, call, results.find(INDIRECT, {})), *_reading(results)),
    )


def _row(result: Result, call: Result | None, title: str, begins: bool = False) -> Row:
    return Row(
        (
            title,
            Figure.of(result),
            Figure.cycles_of(result),
            _times(result.estimate, call.estimate if call else None),
            *_published(result),
        ),
        note=result.note,
        begins_section=begins or result.variant in {CALL, IS_SET},
    )


def _times(estimate: Estimate | None, call: Estimate | None) -> Figure | None:
    if estimate is None or call is None or estimate is call:
        return None
    times = estimates.ratio(estimate, call)
    return Figure(times, digits=1) if times else None


def _published(result: Result) -> Iterator[Cell]:
    known = PUBLISHED_NS.get(result.variant)
    if known is None or result.parameters.get("values", PUBLISHED_VALUES) != PUBLISHED_VALUES:
        yield from (None for _ in MACHINES)
        return
    for of_operation, of_call in zip(known, PUBLISHED_NS[CALL], strict=True):
        times = "" if result.variant == CALL else f", {of_operation / of_call:.1f} calls"
        yield Published(f"{of_operation:.3f}{times}")


def _reading(results: Results) -> Iterator[str]:
    yield (
        "cost: net of a turn of an empty loop; in front of 8, of a turn that puts the header back. "
        "Keys and lengths are constants, values have eight bytes. get and set overwriting: of the "
        "lowest key that is set. move: mean of a set and a del of one key in front of so many "
        "values. indirect call: a turn of bpf_loop with one of two callbacks. times a call: over "
        "this run's function call."
    )
    loop = results.find(EMPTY, {}, metric="gross_ns")
    if loop and loop.estimate:
        yield from _same_run(results, loop.estimate)
    yield (
        "published: such a store in a kernel, called there as functions, with constant key 32; "
        "calls are how many of that machine's function calls it takes. Whether the loop is in "
        "these figures is not said."
    )


def _same_run(results: Results, loop: Estimate) -> Iterator[str]:
    parts = [f"a turn of the empty loop {loop.point:.2f} ns"]
    twin = next((r for r in results.all() if r.variant == TWIN and r.baseline == GET), None)
    if twin and twin.estimate:
        parts.append(f"get against itself {twin.estimate.point:+.3f} ns")
    yield "In the same run: " + ", ".join(parts) + "."
    call = results.find(CALL, {}, baseline=EMPTY)
    if call is None or call.estimate is None:
        return
    with_loop = []
    for variant, parameters, share in (
        (GET, {}, 1.0),
        (SET, {}, 1.0),
        (MOVE, {"values": PUBLISHED_VALUES}, 0.5),
    ):
        result = results.find(variant, parameters)
        if result and result.estimate:
            times = (result.estimate.point + share * loop.point) / (
                call.estimate.point + loop.point
            )
            with_loop.append(f"{variant} {times:.1f}")
    if with_loop:
        yield f"With the loop's turn on both sides, times a call: {', '.join(with_loop)}."


def _head_rows(results: Results) -> Iterator[Row]:
    for count in results.values_of("values"):
        first = True
        for move, title in MOVES.items():
            result = results.find(f"{HEAD}/{move}", {"values": count})
            if result is None:
                continue
            metadata_bytes = traits.HEADER_BYTES + 8 * count
            yield Row(
                (
                    metadata_bytes if first else None,
                    title,
                    Figure.of(result),
                    Figure.cycles_of(result),
                ),
                note=result.note,
                begins_section=first,
            )
            first = False


def _published_of_guest(result: Result) -> Published | None:
    """The three machines' figures beside a guest's operation."""
    known = PUBLISHED_NS.get(result.variant)
    is_theirs = result.parameters.get("values", PUBLISHED_VALUES) == PUBLISHED_VALUES
    if known is None or not is_theirs or result.baseline is None:
        return None
    return Published(f"{' / '.join(f'{ns:.3f}' for ns in known)} ns")


SUITE = Suite(
    name="traits",
    title="what a key/value store in front of the packet costs, next to a function call",
    options=(Option("values", VALUES, "values behind the key that move sets and deletes"),),
    plan=_plan,
    tables=_tables,
    engines=("kernel", "user", "native"),
    datapath=("trait_move",),
    published=_published_of_guest,
)
