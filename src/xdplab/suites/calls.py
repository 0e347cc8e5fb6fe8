"""calls: the price list of this machine, from an addition to a route.

Each row is an operation hundreds of times in a loop, net of the same loop without it; its program
fails where the operation does not do what it should. Tail calls cannot go round a loop: they are
as many in a row as a run may have, a packet at a time, net of the same program whose slot is empty.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from xdplab.engines.base import Engine, Entries, Method, Network, Subject
from xdplab.packets.frame import Frame
from xdplab.program import MapSpec, ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.program.uses import uses
from xdplab.records import TWIN, Result
from xdplab.stats.estimates import ratio
from xdplab.stats.ranking import LEAST_NS, LEAST_PART, ranked
from xdplab.suites.base import Group, Measure, Plan, Results, Suite, Values
from xdplab.suites.mitigations import mitigations_note, with_costs
from xdplab.suites.picture import Picture, bars, has_figures
from xdplab.suites.prices import (
    CALL,
    EMPTY,
    INDIRECT,
    KEY,
    OPERATIONS,
    PRICES,
    TAIL_CALLS_A_RUN,
    Price,
)
from xdplab.suites.table import Cell, Column, Figure, Row, Table

_FRAME = Frame(bytes(number % 251 for number in range(600)))

FILLED = {
    "array_16": 16,
    "array_1024": 1024,
    "array_values64": 1024,
    "percpu_array": 1024,
    "hash_16": 16,
    "hash_1024": 1024,
    "hash_4096": 4096,
    "hash_keys16": 1024,
    "hash_keys64": 1024,
    "hash_allocating": 1024,
    "hash_roomy": 1024,
    "percpu_hash": 1024,
    "lru_hash": 1024,
    "lru_hash_full": 1024,
    "lpm_trie_16": 16,
    "lpm_trie_64": 64,
    "array_of_maps": 16,
    "hash_of_maps": 16,
}
"""Map of calls_maps.bpf.c -> its entries, a power of two: programs go round all of them. The source
fills maps of maps itself."""

_MOST_ENTRIES = 1024
_LPM_TRIE = 11  # enum bpf_map_type
_PREFIX_BITS = 16

NETWORK = Network("198.18.0.0/15", "192.0.2.2", bytes((2, 0, 0, 0, 0, 2)))
"""Addresses that RFC 2544 and RFC 5737 set aside for benchmarks and for examples."""

_DESTINATION = ipaddress.IPv4Address("198.18.0.1")

_DEVMAP = "devices"
_DEVICES: Entries = ((bytes(4), (1).to_bytes(4, "little")),)
_IN_NETWORK = frozenset({"fib_lookup", "redirect_map"})


_TAIL_CALLS = tuple(price for price in PRICES if price.object == "calls_tail")


def _plan(values: Values, engine: Engine) -> Plan:
    groups, notes = [_in_loops()], [mitigations_note(engine)]
    if _counts(engine):
        groups.append(_in_a_row())
    else:
        notes.append(
            f"Tail calls are not in it: a run here does not end at {TAIL_CALLS_A_RUN} of them."
        )
    return Plan(groups, notes)


def _subject(
    key: str, program: str, spec: ObjectSpec, operations: int, instance: int = 0
) -> Subject:
    """A program with its maps filled and its globals set."""
    _, used = uses(spec, (program,))
    filled = {name: FILLED[name] for name in sorted(used) if name in FILLED}
    entries = {
        name: _entries(spec.maps[name], count)
        for name, count in filled.items()
        if spec.maps[name].inner is None
    }
    known: dict[str, int] = {
        "mask": max(filled.values(), default=_MOST_ENTRIES) - 1,
        "destination": int.from_bytes(_DESTINATION.packed, "little"),
        "next_hop": int.from_bytes(NETWORK.gateway_mac, "little"),
    }
    return Subject(
        key,
        spec,
        program,
        _FRAME,
        globals={name: value for name, value in known.items() if name in spec.globals},
        entries={**entries, **({_DEVMAP: _DEVICES} if _DEVMAP in used else {})},
        network=NETWORK if program in _IN_NETWORK else None,
        operations=operations,
        instance=instance,
    )


def _entries(spec: MapSpec, count: int) -> Entries:
    """Numbers from 0 to below `count`: the value of n is n."""

    def key(number: int) -> bytes:
        if spec.type == _LPM_TRIE:
            # As many bits as tell entries apart, then the address.
            return _PREFIX_BITS.to_bytes(4, "little") + number.to_bytes(4, "little")
        return number.to_bytes(spec.key_size, "little")

    return [(key(number), number.to_bytes(spec.value_size, "little")) for number in range(count)]


def _measures(price: Price) -> Measure:
    return Measure(price.variant, price.variant, {}, price.against, price.against)


def _in_loops() -> Group:
    prices = [price for price in PRICES if price not in _TAIL_CALLS]
    maps, calls = shipped_object("calls_maps"), shipped_object("calls")
    return Group(
        Method.OPERATION,
        (
            _subject(EMPTY, "empty", calls, OPERATIONS),
            _subject(KEY, "key_alone", maps, OPERATIONS),
            _subject(TWIN, "function_call", calls, OPERATIONS, instance=1),
            *(
                _subject(one.variant, one.program, shipped_object(one.object), one.operations)
                for one in prices
            ),
        ),
        (
            *map(_measures, prices),
            Measure(TWIN, TWIN, {}, CALL, CALL),
            Measure(EMPTY, EMPTY, {}),
        ),
        share=0.85,
    )


def _in_a_row() -> Group:
    spec = shipped_object("calls_tail")
    twin = _TAIL_CALLS[0]
    pairs = [(one.variant, one.program) for one in _TAIL_CALLS]
    pairs += [(one.against, one.against.replace("-", "_")) for one in _TAIL_CALLS]
    return Group(
        Method.PACKET,
        (
            *(_subject(key, program, spec, TAIL_CALLS_A_RUN) for key, program in pairs),
            _subject(TWIN, twin.program, spec, TAIL_CALLS_A_RUN, instance=1),
        ),
        (*map(_measures, _TAIL_CALLS), Measure(TWIN, TWIN, {}, twin.variant, twin.variant)),
        share=0.15,
    )


def _counts(engine: Engine) -> bool:
    """Whether a run may make just as many tail calls as figures are divided by."""
    subject = Subject(
        "counted",
        shipped_object("calls_tail"),
        "tail_calls_counted",
        _FRAME,
        globals={"runs": 0, "expected": TAIL_CALLS_A_RUN},
    )
    with engine.open([subject], Method.OPERATION) as session:
        return subject.key not in session.missing


def _tables(results: Results, notes: Sequence[str]) -> list[Table]:
    call = results.find(CALL, {})
    rows = []
    in_user_space = any(result.engine == "user" for result in results.all())
    listed = sorted(PRICES, key=lambda one: one.user_ns if in_user_space else one.kernel_ns)
    found = [
        (price, result)
        for price in listed
        if (result := results.find(price.variant, {})) is not None
    ]
    priced = [(p, r, r.estimate) for p, r in found if r.estimate is not None]
    for place in ranked([estimate for _, _, estimate in priced]):
        price, result, _ = priced[place]
        rows.append(_row(price, result, call))
    rows += [_row(price, result, call) for price, result in found if result.estimate is None]
    columns = (
        Column("operation"),
        Column("kind"),
        Column("cost", "ns"),
        Column("cost", "cycles"),
        Column("function calls"),
    )
    told = with_costs(notes, call, results.find(INDIRECT, {}))
    return [
        Table("price list: what an operation costs", columns, rows, (*told, *_reading(results)))
    ]


def _row(price: Price, result: Result, call: Result | None) -> Row:
    times = None
    if call is not None and call.estimate is not None and result.estimate is not None:
        times = ratio(result.estimate, call.estimate)
    cells: tuple[Cell, ...] = (
        price.title,
        price.kind,
        Figure.of(result),
        Figure.cycles_of(result),
        None if times is None else Figure(times, digits=1, bare=True),
    )
    return Row(cells, note=result.note)


def _pictures(_results: Results, tables: Sequence[Table]) -> list[Picture]:
    """A picture of each kind, since what is cheap would not be seen beside what is dear."""
    (table,) = tables
    kinds = dict.fromkeys(price.kind for price in PRICES)
    of_kind = {
        kind: [
            Row((row.cells[0], row.cells[2]), row.note)
            for row in table.rows
            if row.cells[1] == kind
        ]
        for kind in kinds
    }
    columns = (table.columns[0], table.columns[2])
    parts = [Table(f"price list, {kind}", columns, rows) for kind, rows in of_kind.items()]
    return [bars(part) for part in parts if has_figures(part)]


def _reading(results: Results) -> Iterator[str]:
    yield (
        f"cost: the operation {OPERATIONS} times in a loop, net of the same loop without it (of "
        "map operations: with the key alone); the program's look at the answer is in it. Maps have "
        "1024 entries, keys of 4 B and values of 8 B where nothing else is said; keys come in no "
        "order that could be learnt."
    )
    yield (
        f"Tail calls: {TAIL_CALLS_A_RUN} in a row, as many as there may be, net of the same "
        "program whose slot is empty, by the packet method. Loops of one turn: net of the function "
        "call that they are in."
    )
    if any(result.engine == "user" for result in results.all()):
        yield "On one thread nobody else holds a lock: bpf_spin_lock is an exchange and a store."
    yield (
        f"Cheapest first. Rows that differ by less than {LEAST_PART:.0%} or {LEAST_NS} ns, or "
        "whose intervals meet, stand as they usually do."
    )


SUITE = Suite(
    name="calls",
    title="the price list of this machine: calls, maps, atomics, helpers",
    options=(),
    plan=_plan,
    tables=_tables,
    pictures=_pictures,
    weight=1.5,
)
