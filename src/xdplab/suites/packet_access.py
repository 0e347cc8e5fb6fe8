"""packet-access: how a program reads its packet, and what each way costs.

Published: `xdp-bench drop` on a NIC, packets per second by what the program does. Here each
row is a program of its own, handled one packet a run, net of the program that touches nothing,
and "over the row above" as the published table has it. Beyond it: the ways that came later
(dynptr, pull-data), frame sizes with frags, IPv6 and VLAN tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdplab.engines.base import XDP_DROP, XDP_TX, Engine, Method, Subject
from xdplab.packets.frame import ETHERNET_BYTES, PACKETS, Frame, headers_bytes, udp_frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.records import TWIN, Estimate, Result
from xdplab.stats import estimates
from xdplab.suites.base import (
    Group,
    Measure,
    Option,
    Plan,
    Results,
    Suite,
    Values,
)
from xdplab.suites.picture import Picture, bars
from xdplab.suites.table import Cell, Column, Figure, Published, Row, Table
from xdplab.suites.waterfall import Step, waterfall

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
    Access("read-data", "read Ethernet header", "read_data", NO_TOUCH, published=("40.0", "+2.2")),
    Access(DPA, "parse IP, direct access", "parse_ip_dpa", "read-data", published=("41.5", "+1.5")),
    Access(ONE_CALL, "parse IP, load_bytes, one call", "parse_ip_load_bytes_1", DPA),
    Access(
        TWO_CALLS,
        "parse IP, load_bytes, two calls",
        "parse_ip_load_bytes_2",
        ONE_CALL,
        published=("65.3", "+23.8*"),
    ),
    Access(
        "parse-ip/dynptr-slice-1", "parse IP, dynptr, one slice", "parse_ip_dynptr_slice_1", DPA
    ),
    Access(
        "parse-ip/dynptr-slice-2",
        "parse IP, dynptr, two slices",
        "parse_ip_dynptr_slice_2",
        "parse-ip/dynptr-slice-1",
    ),
    Access("parse-ip/dynptr-read", "parse IP, dynptr, one read", "parse_ip_dynptr_read", DPA),
    Access("parse-ip/pull-data", "parse IP, pull_data", "parse_ip_pull_data", DPA),
    Access("swap-macs/dpa", "swap MACs, direct access", "swap_macs_dpa", NO_TOUCH, XDP_TX),
    Access(
        "swap-macs/store-bytes",
        "swap MACs, store_bytes",
        "swap_macs_store_bytes",
        "swap-macs/dpa",
        XDP_TX,
    ),
)


@dataclass(frozen=True, slots=True)
class Layout:
    """A frame to measure on: packet kind, frame bytes, and the linear part where it is set."""

    packet: str
    frame_bytes: int
    linear_bytes: int | None = None

    @property
    def parameters(self) -> dict[str, int | str]:
        """As they stand in the document."""
        known: dict[str, int | str] = {"packet": self.packet, "frame_bytes": self.frame_bytes}
        return known if self.linear_bytes is None else known | {"linear_bytes": self.linear_bytes}

    @property
    def frame(self) -> Frame:
        """The frame itself."""
        return replace(udp_frame(self.packet, self.frame_bytes), linear_bytes=self.linear_bytes)

    def key(self, variant: str) -> str:
        """The subject's key for a variant on this frame."""
        return f"{variant}/{self.packet}/{self.frame_bytes}/{self.linear_bytes}"


OUT_OF_REACH = {
    DPA: "out of reach",
    # It moves the headers once and for all, so that repeats on one frame would time nothing.
    "parse-ip/pull-data": "not repeatable",
}
"""Rows that say nothing where all behind the Ethernet header lies in frags, and why."""


def _layouts(sizes: Sequence[int]) -> list[Layout]:
    """The first size is the main one: every packet kind that fits comes in it."""
    return [
        *(Layout(PACKETS[0], size) for size in sizes),
        Layout(PACKETS[0], max(sizes), linear_bytes=ETHERNET_BYTES),
        *(Layout(packet, sizes[0]) for packet in PACKETS[1:] if headers_bytes(packet) <= sizes[0]),
    ]


def _rows_on(layout: Layout) -> list[Access]:
    split = layout.linear_bytes is not None
    return [row for row in ROWS if not (split and row.variant in OUT_OF_REACH)]


def _plan(values: Values, engine: Engine) -> Plan:
    sizes = tuple(dict.fromkeys(values["frame-sizes"]))
    spec = shipped_object("packet_access")
    layouts = _layouts(sizes)
    subjects = []
    for layout in layouts:
        frame = layout.frame
        subjects += [_subject(spec, row, layout, frame) for row in _rows_on(layout)]
    dpa = next(row for row in ROWS if row.variant == DPA)
    subjects.append(_subject(spec, dpa, layouts[0], layouts[0].frame, TWIN, instance=1))
    return Plan((Group(Method.PACKET, subjects, tuple(_measures(layouts)), share=1.0),))


def _subject(
    spec: ObjectSpec,
    row: Access,
    layout: Layout,
    frame: Frame,
    variant: str = "",
    instance: int = 0,
) -> Subject:
    return Subject(
        layout.key(variant or row.variant),
        spec,
        row.program,
        frame,
        action=row.action,
        instance=instance,
    )


def _measures(layouts: Sequence[Layout]) -> Iterator[Measure]:
    main = layouts[0]

    def against(variant: str, layout: Layout, baseline: str) -> Measure:
        return Measure(
            variant, layout.key(variant), layout.parameters, baseline, layout.key(baseline)
        )

    yield against(TWIN, main, DPA)
    for layout in layouts:
        yield Measure(NO_TOUCH, layout.key(NO_TOUCH), layout.parameters)
        for row in _rows_on(layout):
            if row.variant != NO_TOUCH:
                yield against(row.variant, layout, NO_TOUCH)
            if layout == main and row.above not in {None, NO_TOUCH}:
                yield against(row.variant, layout, str(row.above))
    yield against(TWO_CALLS, main, DPA)


def _tables(results: Results, notes: Sequence[str]) -> list[Table]:
    sizes = results.values_of("frame_bytes")
    if not sizes:
        return []
    layouts = _layouts(sizes)
    main = layouts[0]
    by_size = [layout for layout in layouts if layout.packet == main.packet]
    by_packet = [layout for layout in layouts if layout.frame_bytes == main.frame_bytes]
    by_packet = [layout for layout in by_packet if layout.linear_bytes is None]
    return [
        _main_table(results, main, notes),
        _cross_table(
            results,
            f"cost over no touch by frame size, {main.packet}",
            by_size,
            [
                f"{layout.frame_bytes} B" + (", split" if layout.linear_bytes else "")
                for layout in by_size
            ],
            (
                "What does not fit into a page beside headroom and tailroom (3,520 bytes of 4 KiB) "
                "continues in frags; split: all behind the Ethernet header lies in frags.",
                "out of reach: direct access ends with the linear part. not repeatable: pull_data "
                "moves the headers once, later repeats find them there; its other figures are for "
                "headers that are linear already.",
            ),
        ),
        _cross_table(
            results,
            f"cost over no touch by packet, {main.frame_bytes} B",
            by_packet,
            [layout.packet for layout in by_packet],
            ("A VLAN tag (vlan: one, qinq: two) is one more call or slice in the rows of two.",),
        ),
    ]


def _main_table(results: Results, main: Layout, notes: Sequence[str]) -> Table:
    where = main.parameters
    base = results.find(NO_TOUCH, where, metric="gross_ns")
    rows = []
    for row in ROWS:
        result = base
        if row.variant != NO_TOUCH:
            result = results.find(row.variant, where, baseline=NO_TOUCH)
        if result is not None:
            rows.append(_main_row(results, row, result, base, where))
    columns = (
        Column("program"),
        Column("per packet", "ns"),
        Column("over no touch", "ns"),
        Column("cycles"),
        Column("step", "ns"),
        Column("one core", "Mpps"),
        Column("published", "ns"),
        Column("published step", "ns"),
    )
    return Table(
        f"cost of packet access, {main.packet}, {main.frame_bytes} B",
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
        step = results.find(row.variant, where, baseline=row.above)
        above = Figure.of(step, signed=True) if step else None
        if gross:
            gross = estimates.total(gross, result.estimate) if result.estimate else None
    cells: tuple[Cell, ...] = (
        row.title,
        Figure(gross, digits=1) if gross else None,
        over,
        Figure.cycles_of(result) if row.variant != NO_TOUCH else None,
        above,
        Figure(_millions_per_second(gross), digits=1, bare=True)
        if gross and gross.low > 0
        else None,
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
    yield (
        "per packet: the loop around the program included (in the kernel the dispatcher, too), no "
        "driver and no NIC. step: "
        "over the row above; for one load_bytes call, dynptr and pull_data over direct access; for "
        "swapping by direct access over no touch. Each column is a comparison of its own: they "
        "need not add up."
    )
    one = results.find(ONE_CALL, where, baseline=DPA)
    two = results.find(TWO_CALLS, where, baseline=DPA)
    if one and two and one.estimate and two.estimate:
        times = estimates.ratio(two.estimate, one.estimate)
        if times:
            yield (
                f"Two load_bytes calls cost {times.point:.2f} "
                f"[{times.low:.2f}, {times.high:.2f}] times what one costs, over direct access."
            )
    yield (
        "published: xdp-bench drop on a NIC, machine unnamed; a NIC's receive path is in it: "
        "compare steps, not levels. *: two calls over direct access."
    )


def _cross_table(
    results: Results,
    title: str,
    layouts: Sequence[Layout],
    headings: Sequence[str],
    notes: Sequence[str],
) -> Table:
    rows = []
    blank: dict[str, list[str]] = {}
    for row in ROWS:
        if row.variant == NO_TOUCH:
            continue
        cells: list[Cell] = [row.title]
        why: dict[str, list[str]] = {}
        for layout, heading in zip(layouts, headings, strict=True):
            result = results.find(row.variant, layout.parameters, baseline=NO_TOUCH)
            if result is None and layout.linear_bytes is not None:
                cells.append(OUT_OF_REACH.get(row.variant))
                continue
            cells.append(Figure.of(result, digits=1, signed=True) if result else None)
            why.setdefault(result.note if result else "", []).append(heading)
        rows.append(Row(cells, note=next(iter(why)) if len(why) == 1 else ""))
        if len(why) > 1:
            blank |= {note: where for note, where in why.items() if note}
    columns = (Column("program"), *(Column(heading, "ns") for heading in headings))
    reasons = (f"Blank at {', '.join(where)}: {note}." for note, where in blank.items())
    return Table(title, columns, rows, (*notes, *reasons))


def _pictures(results: Results, tables: Sequence[Table]) -> list[Picture]:
    if not tables:
        return []
    where = _layouts(results.values_of("frame_bytes"))[0].parameters
    base = results.find(NO_TOUCH, where, metric="gross_ns")
    steps = []
    if base is not None and base.estimate is not None:
        level_ns = base.estimate.point
        steps.append(Step(NO_TOUCH, "no touch", level_ns, base))
        for row in ROWS[1:]:
            over = results.find(row.variant, where, baseline=NO_TOUCH)
            added = results.find(row.variant, where, baseline=row.above)
            if over is not None and over.estimate is not None and added is not None:
                whole_ns = level_ns + over.estimate.point
                steps.append(Step(row.variant, row.title, whole_ns, added, row.above))
    falls = waterfall(f"where the nanoseconds go, {tables[0].title}", steps)
    return [bars(tables[0], "over no touch"), *([falls] if falls else [])]


def _published(result: Result) -> Published | None:
    """A NIC's figure beside the whole run on the smallest frame."""
    where = result.parameters
    is_main = (where.get("packet"), where.get("frame_bytes")) == (PACKETS[0], FRAME_SIZES[0])
    if not is_main or "linear_bytes" in where or result.baseline is not None:
        return None
    row = next((row for row in ROWS if row.variant == result.variant and row.published), None)
    return None if row is None or row.published is None else Published(f"{row.published[0]} ns")


SUITE = Suite(
    name="packet-access",
    title="how a program reads its packet, and what each way costs",
    options=(Option("frame-sizes", FRAME_SIZES, "frame sizes in bytes, without the FCS"),),
    plan=_plan,
    tables=_tables,
    pictures=_pictures,
    published=_published,
)
