"""The ledger of packet access: the same programs by test run, on live frames, and behind veth.

A test run has a frame in the first-level cache and nothing around the program; live frames have a
page pool and the frames' structures; veth a driver, its ring, and a packet that was made a moment
ago. If a program's cost is the program's, it is the same in all three.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdplab.engines.base import XDP_DROP, Method, Subject
from xdplab.packets.frame import udp_frame
from xdplab.program.shipped import shipped_object
from xdplab.records import RESOLVED, TWIN, Result
from xdplab.stats import estimates
from xdplab.suites.base import Group, Measure, Results
from xdplab.suites.packet_access import NO_TOUCH, ROWS, Access
from xdplab.suites.picture import Bar, BarGroup, Bars
from xdplab.suites.table import Cell, Column, Figure, Row, Table
from xdplab.suites.veth_routes import FRAME_BYTES

_VARIANTS = (
    NO_TOUCH,
    "read-data",
    "parse-ip/dpa",
    "parse-ip/load-bytes-1",
    "parse-ip/load-bytes-2",
    "parse-ip/dynptr-slice-1",
)
LEDGER: tuple[Access, ...] = tuple(row for row in ROWS if row.variant in _VARIANTS)
"""The rows of packet-access that say most, for each takes a topology of its own."""

STAGES = {
    "test-run": (Method.PACKET, "by test run"),
    "live-frames": (Method.LIVE, "on live frames"),
    "veth": (Method.LIVE, "behind veth"),
}
"""Value of the parameter `stage` -> the method, and what a table calls it."""

_DATAPATH = {
    "test-run": {},
    "live-frames": {"way": "live-frames"},
    "veth": {"way": "drop", "generator": "frames"},
}


def _where(stage: str) -> dict[str, int | str]:
    return {"stage": stage, "packet": "ipv4", "frame_bytes": FRAME_BYTES}


_SHARES = {"test-run": 0.08, "live-frames": 0.07, "veth": 0.2}
"""Parts of the suite's time. Topologies take most of a second to make."""


def groups() -> list[Group]:
    """A group a stage: figures of two stages are never measured against each other."""
    return [_group(stage) for stage in STAGES]


def _group(stage: str) -> Group:
    method, _ = STAGES[stage]

    def subject(row: Access, twin: bool = False) -> Subject:
        return Subject(
            f"{TWIN}/{stage}" if twin else f"{row.variant}/{stage}",
            shipped_object("packet_access"),
            row.program,
            udp_frame("ipv4", FRAME_BYTES),
            action=XDP_DROP,
            instance=int(twin),
            datapath=_DATAPATH[stage],
        )

    base = LEDGER[0]
    key, where = f"{base.variant}/{stage}", _where(stage)
    return Group(
        method,
        [*map(subject, LEDGER), subject(base, twin=True)],
        [
            Measure(NO_TOUCH, key, where),
            Measure(TWIN, f"{TWIN}/{stage}", where, NO_TOUCH, key),
            *(
                Measure(row.variant, f"{row.variant}/{stage}", where, NO_TOUCH, key)
                for row in LEDGER[1:]
            ),
        ],
        _SHARES[stage],
    )


def table(results: Results) -> Table:
    """A row a program: its packet's whole time at each stage, and its cost over no touch."""
    rows = []
    for row in LEDGER:
        found = {stage: _find(results, row, stage) for stage in STAGES}
        if not any(found.values()):
            continue
        cells: list[Cell] = [row.title]
        for stage, result in found.items():
            cells += _cells(result, results.find(NO_TOUCH, _where(stage), metric="gross_ns"))
        notes = {result.note for result in found.values() if result is not None}
        rows.append(Row(cells, note=notes.pop() if len(notes) == 1 else ""))
    columns = [Column("program")]
    for _, words in STAGES.values():
        columns += [Column(f"packet {words}", "ns"), Column(f"cost {words}", "ns")]
    return Table(
        "one ledger: the same programs from test run to veth",
        columns,
        rows,
        (
            "packet: all that is timed, a test run's loop, the page pool, or generator and veth "
            "included. cost: over no touch, at the same stage.",
        ),
    )


def picture(results: Results) -> Bars | None:
    """What each program costs over no touch, a bar a stage; None where nothing was measured."""
    groups = []
    for row in LEDGER[1:]:
        shown = []
        for stage, (_, words) in STAGES.items():
            result = _find(results, row, stage)
            if result is not None:
                resolved = result.verdict == RESOLVED
                shown.append(
                    Bar(words, result.estimate, resolved, note=result.note, digits=1, signed=True)
                )
        if any(bar.estimate for bar in shown):
            groups.append(BarGroup(row.title, shown))
    title = "one ledger: cost over no touch from test run to veth"
    return Bars(title, "ns", groups) if groups else None


def _find(results: Results, row: Access, stage: str) -> Result | None:
    if row.variant == NO_TOUCH:
        return results.find(NO_TOUCH, _where(stage), metric="gross_ns")
    return results.find(row.variant, _where(stage), baseline=NO_TOUCH)


def _cells(result: Result | None, gross: Result | None) -> Sequence[Cell]:
    if result is None or result.estimate is None:
        return None, None
    if result.metric == "gross_ns":
        return Figure(result.estimate, digits=1), None
    over = Figure.of(result, digits=1, signed=True)
    if gross is None or gross.estimate is None:
        return None, over
    return Figure(estimates.total(gross.estimate, result.estimate), digits=1), over
