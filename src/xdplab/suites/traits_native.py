"""traits on the native engine: the same C called as a kernel's functions are, under mitigations.

With it the change that was published: a move of words that is inlined in place of a memmove() call.
What this plan shares with that of the programs (traits.py) is here, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdplab import traits
from xdplab.engines.base import Method, Subject
from xdplab.packets.frame import MAXIMUM_METADATA_BYTES, Frame
from xdplab.program.native import PLAIN, CodeVariant, NativeSpec
from xdplab.records import TWIN
from xdplab.suites.base import Group, Measure, Results
from xdplab.suites.table import Cell, Column, Figure, Row, Table

KEY = 32
FIRST_VALUE = 40
"""The key that is worked on and the first of the others, as published."""

PUBLISHED_VALUES = 8
OPERATIONS = 1000
"""Turns of a loop in one run."""

EMPTY, CALL, INDIRECT = "empty", "function-call", "indirect-call"
GET, SET, MOVE = "get", "set", "move"
NATIVE_VARIANTS = (
    PLAIN,
    CodeVariant(returns="thunk"),
    CodeVariant(returns="safe"),
    CodeVariant(branches="retpoline"),
    CodeVariant(returns="thunk", branches="retpoline"),
)
MOVE_MEMMOVE, MOVE_WORDS = "move/memmove", "move/words"

_FUNCTIONS = {
    CALL: ("function call", "function_call"),
    INDIRECT: ("indirect call", "indirect_call"),
    GET: ("get", "call_get"),
    SET: ("set, overwriting", "call_set"),
    MOVE: ("move", "call_move"),
    MOVE_MEMMOVE: ("move in a kernel, memmove call", "call_move_by_memmove"),
    MOVE_WORDS: ("move in a kernel, words inlined", "call_move_by_words"),
}
"""Variant -> its title and its function in native/traits.c."""


def other_values(count: int, lengths: Sequence[int] = (8,)) -> dict[int, bytes]:
    """So many values from FIRST_VALUE on, of these lengths in turn."""
    return {FIRST_VALUE + n: bytes([n + 1]) * lengths[n % len(lengths)] for n in range(count)}


def native_group(counts: Sequence[int]) -> Group:
    """Every operation in every variant of code; moves in front of each of `counts` values."""

    def subject(
        variant: str, code: CodeVariant, values: Mapping[int, bytes], key: str, instance: int = 0
    ) -> Subject:
        function = _FUNCTIONS[variant][1] if variant in _FUNCTIONS else "empty"
        area = traits.encode(values, MAXIMUM_METADATA_BYTES)
        return Subject(
            key,
            NativeSpec("traits", code),
            function,
            Frame(area),
            operations=OPERATIONS * (2 if variant.startswith(MOVE) else 1),
            globals={"area_bytes": len(area)},
            instance=instance,
        )

    others = other_values(PUBLISHED_VALUES)
    first = {KEY: bytes(8), **others}
    subjects, measures = [], []
    for code in NATIVE_VARIANTS:
        empty = f"{EMPTY}/{code.name}"
        subjects.append(subject(EMPTY, code, others, empty))
        for variant in _FUNCTIONS:
            for count in counts if variant.startswith(MOVE) else (None,):
                key = f"{variant}/{count}/{code.name}"
                parameters: dict[str, int | str] = {"code": code.name}
                values = first
                if count is not None:
                    parameters["values"] = count
                    values = other_values(count)
                subjects.append(subject(variant, code, values, key))
                measures.append(Measure(variant, key, parameters, EMPTY, empty))
    subjects.append(subject(GET, PLAIN, first, TWIN, instance=1))
    twin = f"{GET}/None/{PLAIN.name}"
    measures.append(Measure(TWIN, TWIN, {"code": PLAIN.name}, GET, twin))
    return Group(Method.OPERATION, subjects, measures, share=1.0)


def native_table(results: Results, notes: Sequence[str]) -> Table:
    """Operations down, variants of code across."""
    rows = []
    blank: dict[str, list[str]] = {}
    for variant, (title, _) in _FUNCTIONS.items():
        for count in results.values_of("values") if variant.startswith(MOVE) else (None,):
            where = {} if count is None else {"values": count}
            cells: list[Cell] = [title if count is None else f"{title}, in front of {count}"]
            for code in NATIVE_VARIANTS:
                result = results.find(variant, {"code": code.name, **where})
                cells.append(Figure.of(result) if result else None)
                if result and result.note and code.name not in blank.get(result.note, ()):
                    blank.setdefault(result.note, []).append(code.name)
            rows.append(Row(cells))
    columns = (
        Column("operation"),
        *(Column(code.name, "ns") for code in NATIVE_VARIANTS),
    )
    return Table(
        "traits as functions of a kernel, by mitigation",
        columns,
        rows,
        (
            *notes,
            "The C of traits.bpf.h for this processor, called with a key and a length, net of an "
            "empty loop. in a kernel: counts by the processor's instruction, exact moves; the "
            "memmove in the manner of the kernel's. move: mean of a set and a del in front of so "
            "many values of eight bytes.",
            *(f"Blank at {', '.join(where)}: {note}." for note, where in blank.items()),
        ),
    )
