"""packet-access: how a program reads its packet, and what each way costs.

Published: `xdp-bench drop` on a NIC, packets per second by what the program does. Here each
row is a program of its own, handled one packet a run, net of the program that touches nothing,
and "over the row above" as the published table has it. Beyond it: the ways that came later
(dynptr, pull-data), frame sizes with frags, IPv6 and VLAN tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdplab.engines.base import XDP_DROP, XDP_TX, Engine, Method, Subject
from xdplab.errors import UsageError
from xdplab.packets.frame import PACKETS, Frame, udp_frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.records import Estimate, Result
from xdplab.stats import estimates
from xdplab.suites.base import (
    TWIN,
    Group,
    Measure,
    Option,
    Plan,
    Results,
    Suite,
    Values,
)
from xdplab.suites.table import Cell, Column, Figure, Published, Row, Table

FRAME_SIZES = (64, 128, 1500, 9000)


@dataclass(frozen=True, slots=True)
class Access:
    """One row: the variant's stable name, what it says, its program, what it is compared with.

    `above` is the variant of the row that "over the row above" means. `published` are ns per
    packet on a NIC and over the row above, from the mails on xdp-bench's load-bytes mode.
    """

    variant: str
    title: str
    program: str
    above: str | None = None
    action: int = XDP_DROP
    published: tuple[str, str] | None = None


NO_TOUCH, DPA = "no-touch", "parse-ip/dpa"
ONE_CALL, TWO_CALLS = "parse-ip/load-bytes-1", "parse-ip/load-bytes-2"

ROWS = (
    Access(NO_TOUCH, "no touch", "no_touch", published=("37.8", "")),
    Access("read-data", "read the Ethernet header", "read_data", NO_TOUCH, published=("40.0", "+2.2")),
    Access(DPA, "parse IP, direct access", "parse_ip_dpa", "read-data", published=("41.5", "+1.5")),
    Access(ONE_CALL, "parse IP, load_bytes, one call", "parse_ip_load_bytes_1", DPA),
    Access(
        TWO_CALLS,
        "parse IP, load_bytes, two calls",
        "parse_ip_load_bytes_2",
        ONE_CALL,
        published=("65.3", "+23.8 over direct access"),
    ),
    Access("parse-ip/dynptr-slice-1", "parse IP, dynptr, one slice", "parse_ip_dynptr_slice_1", DPA),
    Access(
        "parse-ip/dynptr-slice-2",
        "parse IP, dynptr, two slices",
        "parse_ip_dynptr_slice_2",
        "parse-ip/dynptr-slice-1",
    ),
    Access("parse-ip/dynptr-read", "parse IP, dynptr, one read", "parse_ip_dynptr_read", DPA),
    Access("parse-ip/pull-data", "parse IP, pull_data, direct access", "parse_ip_pull_data", DPA),
    Access("swap-macs/dpa", "swap MACs, direct access", "swap_macs_dpa", NO_TOUCH, XDP_TX),
    Access(
        "swap-macs/store-bytes",
        "swap MACs, load_bytes and store_bytes",
        "swap_macs_store_bytes",
        "swap-macs/dpa",
        XDP_TX,
    ),
)

Layout = tuple[str, int]
"""Packet kind and frame bytes."""


def _key(variant: str, layout: Layout) -> str:
    return f"{variant}/{layout[0]}/{layout[1]}"


def _parameters(layout: Layout) -> dict[str, int | str]:
    return {"packet": layout[0], "frame_bytes": layout[1]}


def _plan(values: Values, engine: Engine) -> Plan:
    sizes = tuple(dict.fromkeys(values["frame-sizes"]))
    if not sizes:
        raise UsageError("--frame-sizes is empty; give at least one size, such as 64")
    spec = shipped_object("packet_access")
    main: Layout = (PACKETS[0], sizes[0])
    layouts = [(PACKETS[0], size) for size in sizes]
    layouts += [(packet, sizes[0]) for packet in PACKETS[1:]]
    frames = {layout: udp_frame(*layout) for layout in layouts}
    subjects = [
        _subject(spec, row, layout, frame) for layout, frame in frames.items() for row in ROWS
    ]
    dpa = next(row for row in ROWS if row.variant == DPA)
    subjects.append(_subject(spec, dpa, main, frames[main], TWIN, instance=1))
    return Plan((Group(Method.PACKET, subjects, tuple(_measures(layouts, main)), share=1.0),))


def _subject(
    spec: ObjectSpec,
    row: Access,
    layout: Layout,
    frame: Frame,
    variant: str = "",
    instance: int = 0,
) -> Subject:
    return Subject(
        _key(variant or row.variant, layout),
        spec,
        row.program,
        frame,
        action=row.action,
        instance=instance,
    )


def _measures(layouts: Sequence[Layout], main: Layout) -> Iterator[Measure]:
    yield Measure(TWIN, _key(TWIN, main), _parameters(main), DPA, _key(DPA, main))
    for layout in layouts:
        yield Measure(NO_TOUCH, _key(NO_TOUCH, layout), _parameters(layout))
        for row in ROWS:
            if row.variant == NO_TOUCH:
                continue
            key = _key(row.variant, layout)
            yield Measure(
                row.variant, key, _parameters(layout), NO_TOUCH, _key(NO_TOUCH, layout)
            )
            if layout == main and row.above not in (None, NO_TOUCH):
                above = str(row.above)
                yield Measure(row.variant, key, _parameters(layout), above, _key(above, main))
    yield Measure(TWO_CALLS, _key(TWO_CALLS, main), _parameters(main), DPA, _key(DPA, main))


def _tables(results: Results, notes: Sequence[str]) -> list[Table]:
    sizes = results.values_of("frame_bytes")
    if not sizes:
        return []
    main: Layout = (PACKETS[0], sizes[0])
    tables = [_main_table(results, main, notes)]
    if len(sizes) > 1:
        tables.append(
            _cross_table(
                results,
                f"over no touch by frame size, {PACKETS[0]}",
                [(PACKETS[0], size) for size in sizes],
                [f"{size} B" for size in sizes],
                "Frames larger than a page lie in frags behind the linear part.",
            )
        )
    tables.append(
        _cross_table(
            results,
            f"over no touch by packet, {sizes[0]} B",
            [(packet, sizes[0]) for packet in PACKETS],
            list(PACKETS),
            "A VLAN tag (vlan: one, qinq: two) is one more call or slice in the rows of two.",
        )
    )
    return tables


def _main_table(results: Results, main: Layout, notes: Sequence[str]) -> Table:
    where = _parameters(main)
    base = results.find(NO_TOUCH, metric="gross_ns", **where)
    rows = []
    for row in ROWS:
        result = base if row.variant == NO_TOUCH else results.find(row.variant, baseline=NO_TOUCH, **where)
        if result is None:
            continue
        rows.append(_main_row(results, row, result, base, where))
    columns = (
        Column("program"),
        Column("per packet", "ns"),
        Column("over no touch", "ns"),
        Column("over the row it builds on", "ns"),
        Column("one core", "Mpps"),
        Column("published, NIC", "ns"),
        Column("published step", "ns"),
    )
    return Table(
        f"packet access, {main[0]}, {main[1]} B",
        columns,
        rows,
        (*notes, *_reading(results, where)),
    )


def _main_row(
    results: Results,
    row: Access,
    result: Result,
    base: Result | None,
    where: dict[str, int | str],
) -> Row:
    gross: Estimate | None = base.estimate if base else None
    over = above = None
    if row.variant != NO_TOUCH:
        over = Figure.of(result, signed=True)
        step = results.find(row.variant, baseline=row.above, **where)
        above = Figure.of(step, signed=True) if step else None
        if gross and result.estimate:
            gross = estimates.total(gross, result.estimate)
    cells: tuple[Cell, ...] = (
        row.title,
        Figure(gross, digits=1) if gross else None,
        over,
        above,
        Figure(_millions_per_second(gross), digits=1) if gross and gross.low > 0 else None,
        Published(row.published[0]) if row.published else None,
        Published(row.published[1]) if row.published and row.published[1] else None,
    )
    return Row(cells, note=result.note)


def _millions_per_second(per_packet_ns: Estimate) -> Estimate:
    return Estimate(
        1e3 / per_packet_ns.point,
        1e3 / per_packet_ns.high,
        1e3 / per_packet_ns.low,
        per_packet_ns.level,
        per_packet_ns.n,
    )


def _reading(results: Results, where: dict[str, int | str]) -> Iterator[str]:
    one = results.find(ONE_CALL, baseline=DPA, **where)
    two = results.find(TWO_CALLS, baseline=DPA, **where)
    if one and two and one.estimate and two.estimate:
        times = estimates.ratio(two.estimate, one.estimate)
        if times:
            yield (
                f"Two load_bytes calls cost {times.point:.2f} "
                f"[{times.low:.2f}, {times.high:.2f}] times what one costs, over direct access."
            )
    yield (
        "Test runs: no driver, no NIC. The published rates hold a NIC's receive path, too: "
        "compare steps, not levels."
    )


def _cross_table(
    results: Results, title: str, layouts: Sequence[Layout], headings: Sequence[str], note: str
) -> Table:
    rows = []
    for row in ROWS:
        if row.variant == NO_TOUCH:
            continue
        cells: list[Cell] = [row.title]
        notes = set()
        for layout in layouts:
            result = results.find(row.variant, baseline=NO_TOUCH, **_parameters(layout))
            cells.append(Figure.of(result, digits=1, signed=True) if result else None)
            notes.add(result.note if result else "")
        rows.append(Row(cells, note=notes.pop() if len(notes) == 1 else ""))
    columns = (Column("program"), *(Column(heading, "ns") for heading in headings))
    return Table(title, columns, rows, (note,))


SUITE = Suite(
    name="packet-access",
    title="how a program reads its packet, and what each way costs",
    options=(
        Option("frame-sizes", FRAME_SIZES, "frame sizes in bytes for packet-access, without FCS"),
    ),
    plan=_plan,
    tables=_tables,
)
