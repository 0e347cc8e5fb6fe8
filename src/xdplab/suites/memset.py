"""memset: what clearing memory costs, by size and by way of doing it.

Published: a micro-benchmark of memset in a kernel, a loop around each way, whose families and sizes
are measured here as native functions, compiled as a kernel's. Beside them the C library's memset
and, on the engines that run BPF, stores of constant size where a program may write.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdplab.engines.base import Engine, Method, Subject
from xdplab.engines.c_library import libc_function, libc_name
from xdplab.packets.frame import Frame
from xdplab.program.native import NativeSpec
from xdplab.program.shipped import shipped_object
from xdplab.records import TWIN
from xdplab.suites.base import Group, Measure, Plan, Suite, Values
from xdplab.suites.memset_families import (
    CALL,
    FAMILIES,
    LOOP,
    PAGE,
    PAGE_BYTES,
    PLACES,
    PUBLISHED_NS,
    REFERENCE_CYCLE,
    Family,
)
from xdplab.suites.memset_pictures import pictures
from xdplab.suites.memset_tables import tables

_OPERATIONS = 1000
# Long enough for what ends the wait, some ten nanoseconds, to be nothing.
_REFERENCE_CYCLES = 100_000
_MEMORY = Frame(bytes(8192))
# The packet's places fit into it, and so does every size into the metadata.
_PACKET = Frame(bytes(1024), metadata=bytes(216))
_TWIN_BYTES = 256


def _plan(values: Values, engine: Engine) -> Plan:
    if engine.name == "native":
        return Plan((_native(),))
    return Plan((_bpf(on_stack=engine.name != "user"),))


def _native() -> Group:
    spec = NativeSpec("memset")
    libc_memset = libc_function("memset")
    libc = libc_name()

    def subject(family: Family, size: int, instance: int = 0) -> Subject:
        return Subject(
            TWIN if instance else f"{family.variant}/{size}",
            spec,
            family.function.format(size),
            _MEMORY,
            operations=_OPERATIONS,
            globals={"size": size, "libc_memset": libc_memset},
            instance=instance,
            requires=family.requires,
        )

    def plain(key: str, source: str, function: str, operations: int = _OPERATIONS) -> Subject:
        return Subject(key, NativeSpec(source), function, _MEMORY, operations=operations)

    def measures() -> Iterator[Measure]:
        for family in FAMILIES:
            for size in family.sizes:
                parameters: dict[str, int | str] = {"size_bytes": size}
                if family.variant == "libc":
                    parameters["libc"] = libc
                key = f"{family.variant}/{size}"
                yield Measure(family.variant, key, parameters, LOOP, LOOP)
                if (family.variant, size) in PUBLISHED_NS:
                    yield Measure(family.variant, key, parameters)
        for variant in PAGE:
            yield Measure(variant, variant, {"size_bytes": PAGE_BYTES}, LOOP, LOOP)
        yield Measure(LOOP, LOOP)
        yield Measure(REFERENCE_CYCLE, REFERENCE_CYCLE)
        yield Measure(TWIN, TWIN, {"size_bytes": _TWIN_BYTES}, "words", f"words/{_TWIN_BYTES}")

    words = next(family for family in FAMILIES if family.variant == "words")
    return Group(
        Method.OPERATION,
        (
            plain(LOOP, "memset", "loop"),
            plain(REFERENCE_CYCLE, "clock", "reference_cycles", _REFERENCE_CYCLES),
            *(plain(variant, "memset", variant.replace("-", "_")) for variant in PAGE),
            *(subject(family, size) for family in FAMILIES for size in family.sizes),
            subject(words, _TWIN_BYTES, instance=1),
        ),
        tuple(measures()),
        share=1.0,
    )


def _bpf(on_stack: bool) -> Group:
    """`on_stack`: whether stores that nobody reads take place there; a compiler drops them."""
    spec = shipped_object("memset")
    places = {name: sizes for name, sizes in PLACES.items() if on_stack or name != "stack"}

    def subject(key: str, program: str, instance: int = 0) -> Subject:
        return Subject(key, spec, program, _PACKET, operations=_OPERATIONS, instance=instance)

    def measures() -> Iterator[Measure]:
        for place, sizes in places.items():
            for size in sizes:
                parameters: dict[str, int | str] = {"size_bytes": size, "place": place}
                yield Measure("constant", f"{place}/{size}", parameters, LOOP, LOOP)
        yield Measure(LOOP, LOOP)
        yield Measure(CALL, CALL, {}, LOOP, LOOP)
        twin: dict[str, int | str] = {"size_bytes": _TWIN_BYTES, "place": "map"}
        yield Measure(TWIN, TWIN, twin, "constant", f"map/{_TWIN_BYTES}")

    return Group(
        Method.OPERATION,
        (
            subject(LOOP, "loop"),
            subject(CALL, "function_call"),
            *(
                subject(f"{place}/{size}", f"{place}_{size}")
                for place, sizes in places.items()
                for size in sizes
            ),
            subject(TWIN, f"map_{_TWIN_BYTES}", instance=1),
        ),
        tuple(measures()),
        # Two or three hundredths of a nanosecond take no longer; a run has other suites.
        share=0.6,
    )


SUITE = Suite(
    name="memset",
    title="what clearing memory costs, by size and by way of doing it",
    options=(),
    plan=_plan,
    tables=tables,
    engines=("kernel", "user", "native"),
    pictures=pictures,
)
