"""veth: whole ways of packets through the stack, live; and their published change, as a model.

Published: packets per second of five ways through two veth pairs, packets made as skbs, before and
after a change that was never merged (veth_model.py has it). On the live engine the ways
themselves are measured, with two generators, beside a program that drops at once; further ways;
native against generic mode; and what packet access costs on the way that it costs without one
(veth_ledger.py). On the user-space engine the change is a model, and labelled so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdplab.engines.base import (
    XDP_DROP,
    XDP_REDIRECT,
    XDP_TX,
    Engine,
    Method,
    Subject,
)
from xdplab.engines.live_ways import explain, topology
from xdplab.packets.frame import udp_frame
from xdplab.program.shipped import shipped_object
from xdplab.records import RESOLVED, Estimate, Result
from xdplab.stats import estimates
from xdplab.suites import veth_ledger, veth_model
from xdplab.suites.base import TWIN, Group, Measure, Plan, Results, Suite, Values
from xdplab.suites.table import Cell, Column, Figure, Published, Row, Table

DROP = "drop"
"""The way that all others are compared with: v0 drops."""

_NATIVE, _GENERIC = "native", "generic"


@dataclass(frozen=True, slots=True)
class Route:
    """A row: the variant's stable name, what it says, v0's program and what it must return.

    `way` is the live engine's name of the way. `published` names the row of PUBLISHED_PPS.
    """

    variant: str
    title: str
    program: str
    action: int
    way: str
    published: str = ""


ROUTES = (
    Route(DROP, "-> v0 DROP", "drop", XDP_DROP, "drop"),
    Route("tx-drop", "-> v0 TX -> v1 DROP", "tx", XDP_TX, "tx-drop", "tx-drop"),
    Route("tx-pass", "-> v0 TX -> v1 PASS", "tx", XDP_TX, "tx-pass", "tx-pass"),
    Route(
        "redirect-drop",
        "-> v0 REDIRECT -> v2 -> v3 DROP",
        "redirect",
        XDP_REDIRECT,
        "redirect-drop",
        "redirect-drop",
    ),
    Route(
        "redirect-pass",
        "-> v0 REDIRECT -> v2 -> v3 PASS",
        "redirect",
        XDP_REDIRECT,
        "redirect-pass",
        "redirect-pass",
    ),
    Route(
        "xsk-drop",
        "-> v0 AF_XDP -> user space",
        "redirect_socket",
        XDP_REDIRECT,
        "xsk-drop",
        "xsk-drop",
    ),
    Route(
        "redirect-map-drop",
        "-> v0 REDIRECT by devmap -> v2 -> v3 DROP",
        "redirect_map",
        XDP_REDIRECT,
        "redirect-drop",
    ),
    Route(
        "redirect-trait",
        "-> v0 set a trait, REDIRECT -> v2 -> v3 get it, DROP",
        "redirect_setting",
        XDP_REDIRECT,
        "redirect-trait",
    ),
    Route("cpu-drop", "-> v0 REDIRECT by cpumap DROP", "redirect_cpu", XDP_REDIRECT, "cpu-drop"),
    Route(
        "cpu-trait",
        "-> v0 set a trait, REDIRECT by cpumap get it, DROP",
        "redirect_cpu_setting",
        XDP_REDIRECT,
        "cpu-trait",
    ),
)

_CARRYING = {"redirect-trait": "redirect-drop", "cpu-trait": "cpu-drop"}
"""Ways that carry a trait -> the same way without one."""

_BOTH_MODES = tuple(
    route for route in ROUTES if route.variant in {DROP, "tx-drop", "redirect-drop"}
)

GENERATORS = {"skb": "skbs", "frames": "live frames"}
"""Generators of the published ways, and what makes up their packets."""

_PUBLISHED_PPS = {**veth_model.PUBLISHED_PPS, "xsk-drop": (1_811_844, 1_861_027, "~3")}
"""Packets per second before and after; the model has no AF_XDP."""

_SHARES = {"skb": 0.27, "frames": 0.22, "ring": 0.16}
"""Parts of the suite's time by generator; the ledger has the rest."""


def _plan(values: Values, engine: Engine) -> Plan:
    if "generator" not in engine.datapath:
        return veth_model.plan(values, engine)
    return Plan(
        (
            *(_group(generator, ROUTES) for generator in GENERATORS),
            _modes_group(),
            *veth_ledger.groups(),
        )
    )


def _parameters(generator: str, mode: str = _NATIVE) -> dict[str, int | str]:
    return {"generator": generator, "mode": mode, "frame_bytes": len(udp_frame("ipv4", 64).data)}


def _key(route: Route, generator: str, mode: str = _NATIVE) -> str:
    return f"{route.variant}/{generator}/{mode}"


def _subject(route: Route, generator: str, mode: str = _NATIVE, twin: bool = False) -> Subject:
    return Subject(
        f"{TWIN}/{generator}" if twin else _key(route, generator, mode),
        shipped_object("paths"),
        route.program,
        udp_frame("ipv4", 64),
        action=route.action,
        instance=int(twin),
        datapath={"way": route.way, "generator": generator, "mode": mode},
    )


def _against_drop(route: Route, generator: str, mode: str = _NATIVE) -> Measure:
    return Measure(
        route.variant,
        _key(route, generator, mode),
        _parameters(generator, mode),
        DROP,
        _key(ROUTES[0], generator),
    )


def _reference(generator: str) -> tuple[list[Subject], list[Measure]]:
    """The way that drops at once: in itself, and against a second one like it."""
    drop = ROUTES[0]
    key, where = _key(drop, generator), _parameters(generator)
    return [_subject(drop, generator), _subject(drop, generator, twin=True)], [
        Measure(DROP, key, where),
        Measure(TWIN, f"{TWIN}/{generator}", where, DROP, key),
    ]


def _group(generator: str, routes: Sequence[Route]) -> Group:
    subjects, measures = _reference(generator)
    for route in routes[1:]:
        subjects.append(_subject(route, generator))
        measures.append(_against_drop(route, generator))
    by_variant = {route.variant: route for route in routes}
    for carrying, bare in _CARRYING.items():
        keys = [_key(by_variant[variant], generator) for variant in (carrying, bare)]
        measures.append(Measure(carrying, keys[0], _parameters(generator), bare, keys[1]))
    return Group(Method.LIVE, subjects, measures, _SHARES[generator])


def _modes_group() -> Group:
    """Native against generic mode, with the generator whose packets both of them see."""
    subjects, measures = _reference("ring")
    for route in _BOTH_MODES:
        for mode in (_NATIVE, _GENERIC):
            if (route.variant, mode) != (DROP, _NATIVE):
                subjects.append(_subject(route, "ring", mode))
                measures.append(_against_drop(route, "ring", mode))
    return Group(Method.LIVE, subjects, measures, _SHARES["ring"])


def _tables(results: Results, notes: Sequence[str]) -> list[Table]:
    if any("model" in result.parameters for result in results.all()):
        return veth_model.tables(results, notes)
    made = [_ways_table(results, notes), _modes_table(results), veth_ledger.table(results)]
    return [table for table in made if table.rows]


def _ways_table(results: Results, notes: Sequence[str]) -> Table:
    rows = []
    for generator, of in GENERATORS.items():
        gross = results.find(DROP, _parameters(generator), metric="gross_ns")
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


def _find(results: Results, route: Route, generator: str, mode: str = _NATIVE) -> Result | None:
    where = _parameters(generator, mode)
    if route.variant == DROP and mode == _NATIVE:
        return results.find(DROP, where, metric="gross_ns")
    return results.find(route.variant, where, baseline=DROP)


def _ways_row(route: Route, of: str | None, result: Result, gross: Result | None) -> Row:
    before, after, _ = _PUBLISHED_PPS.get(route.published, (None, None, ""))
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
        Figure(_millions_per_second(whole), bare=True) if whole and whole.low > 0 else None,
        over,
        Figure(times) if times else None,
    )


def _times(over: Estimate, gross: Estimate) -> Estimate | None:
    """How many times DROP's time: one, and the difference as a part of it."""
    part = estimates.ratio(over, gross)
    if part is None:
        return None
    return Estimate(1 + part.point, 1 + part.low, 1 + part.high, part.level, part.n)


def _millions_per_second(per_packet_ns: Estimate) -> Estimate:
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
    gross = results.find(DROP, _parameters("ring"), metric="gross_ns")
    for route in _BOTH_MODES:
        for mode in (_NATIVE, _GENERIC):
            result = _find(results, route, "ring", mode)
            if result is None:
                continue
            title = route.title if mode == _NATIVE else None
            cells = (
                title,
                mode,
                *_figures(result, gross),
                _share(result, "sink", "generated"),
            )
            rows.append(Row(cells, note=result.note, begins_section=mode == _NATIVE))
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
        if (found := results.find(TWIN, _parameters(generator))) and found.estimate
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
    for carrying, bare in _CARRYING.items():
        for generator, of in GENERATORS.items():
            result = results.find(carrying, _parameters(generator), baseline=bare)
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


def _explain() -> str:
    """The topology, and the way of each row."""
    ways = [f"{route.title}\n{explain(route.way, route.program)}" for route in ROUTES]
    return "\n\n".join(["A topology for each row:", topology(), *ways])


SUITE = Suite(
    name="veth",
    title="whole ways through veth, live; what reusing skb heads is worth to it, as a model",
    options=(),
    plan=_plan,
    tables=_tables,
    engines=("live", "user"),
    datapath=("napi", "skb_reuse"),
    explain=_explain,
)
