"""The tables of suite veth on the live engine: pure, from results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdplab.records import RESOLVED, TWIN, Estimate, Result
from xdplab.stats import estimates
from xdplab.suites import veth_ledger
from xdplab.suites.base import Results
from xdplab.suites.table import Cell, Column, Figure, Published, Row, Table
from xdplab.suites.veth_routes import (
    BOTH_MODES,
    CARRYING,
    DROP,
    GENERATORS,
    GENERIC,
    NATIVE,
    PUBLISHED_PPS,
    ROUTES,
    Route,
    parameters,
)


def tables(results: Results, notes: Sequence[str]) -> list[Table]:
    """The ways, the two modes, the ledger; those that have rows."""
    made = [_ways_table(results, notes), _modes_table(results), veth_ledger.table(results)]
    return [table for table in made if table.rows]


def _ways_table(results: Results, notes: Sequence[str]) -> Table:
    rows = []
    for generator, of in GENERATORS.items():
        gross = results.find(DROP, parameters(generator), metric="gross_ns")
        for route in ROUTES:
            result = _find(results, route, generator)
            if result is not None:
                first = route is ROUTES[0]
                rows.append(_ways_row(route, of if first else None, result, gross))
    columns = (
        Column("packets"),
        Column("way"),
        Column("per packet", "ns"),
        Column("rate", "Mpps"),
        Column("over DROP", "ns"),
        Column("times DROP"),
        Column("arrived", "%"),
        Column("lost"),
        Column("on its CPU", "%"),
        Column("published before", "pps"),
        Column("published after", "pps"),
    )
    return Table("whole ways through veth", columns, rows, (*notes, *_reading(results)))


def _find(results: Results, route: Route, generator: str, mode: str = NATIVE) -> Result | None:
    where = parameters(generator, mode)
    if route.variant == DROP and mode == NATIVE:
        return results.find(DROP, where, metric="gross_ns")
    return results.find(route.variant, where, baseline=DROP)


def _ways_row(route: Route, of: str | None, result: Result, gross: Result | None) -> Row:
    before, after, _ = PUBLISHED_PPS.get(route.published, (None, None, ""))
    cells: tuple[Cell, ...] = (
        of,
        route.title,
        *_figures(result, gross),
        _share(result, "sink", "generated"),
        result.count("generated") - result.count("sink") if result.estimate else None,
        _share(result, "on_cpu_ns", "elapsed_ns"),
        Published(f"{before:,}") if before else None,
        Published(f"{after:,}") if after else None,
    )
    return Row(cells, note=result.note, begins_section=of is not None)


def _figures(result: Result, gross: Result | None) -> tuple[Cell, Cell, Cell, Cell]:
    """A packet's time, the rate, the difference and the ratio to the way that drops at once."""
    whole = result.estimate
    over = times = None
    if result.metric == "cost_ns" and result.estimate is not None:
        over = Figure.of(result, digits=1, signed=True)
        whole = None
        if gross is not None and gross.estimate is not None:
            whole = estimates.total(gross.estimate, result.estimate)
            times = _times(result.estimate, gross.estimate)
    return (
        Figure(whole, digits=1) if whole else None,
        Figure(_millions_per_second(whole), bare=True) if whole and _has_rate(whole) else None,
        over,
        Figure(times) if times else None,
    )


def _times(over: Estimate, gross: Estimate) -> Estimate | None:
    """How many times DROP's time: one, and the difference as a part of it."""
    part = estimates.ratio(over, gross)
    if part is None:
        return None
    return Estimate(1 + part.point, 1 + part.low, 1 + part.high, part.level, part.n)


def _has_rate(per_packet_ns: Estimate) -> bool:
    # With too few loads there is a rate, if none with an interval.
    return per_packet_ns.low > 0 or (per_packet_ns.point > 0 and math.isinf(per_packet_ns.low))


def _millions_per_second(per_packet_ns: Estimate) -> Estimate:
    if math.isinf(per_packet_ns.low):
        point, level = 1e3 / per_packet_ns.point, per_packet_ns.level
        return Estimate(point, -math.inf, math.inf, level, per_packet_ns.n)
    return Estimate(
        1e3 / per_packet_ns.point,
        1e3 / per_packet_ns.high,
        1e3 / per_packet_ns.low,
        per_packet_ns.level,
        per_packet_ns.n,
    )


def _share(result: Result, part: str, of: str) -> Figure | None:
    whole = result.count(of)
    if not whole:
        return None
    percent = 100 * result.count(part) / whole
    return Figure(Estimate(percent, percent, percent, 1.0, len(result.trials)), bare=True)


def _modes_table(results: Results) -> Table:
    rows = []
    gross = results.find(DROP, parameters("ring"), metric="gross_ns")
    for route in BOTH_MODES:
        for mode in (NATIVE, GENERIC):
            result = _find(results, route, "ring", mode)
            if result is None:
                continue
            title = route.title if mode == NATIVE else None
            cells = (
                title,
                mode,
                *_figures(result, gross),
                _share(result, "sink", "generated"),
            )
            rows.append(Row(cells, note=result.note, begins_section=mode == NATIVE))
    columns = (
        Column("way"),
        Column("mode at v0"),
        Column("per packet", "ns"),
        Column("rate", "Mpps"),
        Column("over DROP", "ns"),
        Column("times DROP"),
        Column("arrived", "%"),
    )
    return Table(
        "native and generic mode",
        columns,
        rows,
        (
            "Packets come from user space through a packet socket's ring: generic mode passes by "
            "what BPF redirected, as the other generators do. DROP is the native one.",
        ),
    )


def _reading(results: Results) -> Iterator[str]:
    yield (
        "v0 and v1, v2 and v3 are veth pairs; v0 and v2 in one namespace, v1 and v3 in another. "
        "Packets of 64 B are sent into v1 and so arrive at v0. skbs: each an skb of its own, 64 at "
        "a time, as the published ones; live frames: frames of XDP without an skb."
    )
    yield (
        "per packet: generator, drivers and programs together, all of it on one CPU and one after "
        "the other, so that the rate is what one CPU does. The generator's part is in all rows of "
        "its section: over DROP is free of it. PASS ends in the stack, whose host has no such "
        "address."
    )
    yield (
        "arrived: of all packets made, those counted at the end of the way. on its CPU: the part "
        "of the time that the generator's thread ran; less where other threads take the packets, "
        "or where something else had the CPU."
    )
    yield from _losses(results)
    yield from _traits(results)
    twin = [
        f"{GENERATORS[generator]} {found.estimate.point:+.1f} ns"
        for generator in GENERATORS
        if (found := results.find(TWIN, parameters(generator))) and found.estimate
    ]
    if twin:
        yield f"In the same run: DROP against itself on a second topology: {', '.join(twin)}."
    yield (
        "published: before and after a change of veth that was never merged, on a machine that was "
        "not named. Today's driver goes another way, so that shapes may come back and levels not; "
        "the change itself is modelled on the user-space engine."
    )


def _traits(results: Results) -> Iterator[str]:
    """What it costs to set a value for a packet and to get it behind a redirect."""
    found = []
    for carrying, bare in CARRYING.items():
        for generator, of in GENERATORS.items():
            result = results.find(carrying, parameters(generator), baseline=bare)
            if result and result.estimate and result.verdict == RESOLVED:
                cost = result.estimate
                words = f"{cost.point:+.1f} [{cost.low:+.1f}, {cost.high:+.1f}] ns"
                found.append(f"{words} ({bare}, {of})")
    if found:
        yield (
            "A trait is eight bytes in the packet's metadata (traits.bpf.h), set at v0 and got "
            f"where the packet ends; over the same way without one: {', '.join(found)}."
        )


def _losses(results: Results) -> Iterator[str]:
    lost: dict[str, int] = {}
    for result in results.all():
        for trial in result.trials:
            for name, count in trial.counts.items():
                cause = name.removeprefix("lost: ")
                if cause != name:
                    lost[cause] = lost.get(cause, 0) + count
    if lost:
        causes = ", ".join(f"{count} {cause}" for cause, count in lost.items())
        yield f"Packets lost, by the drivers' own counters: {causes}."
