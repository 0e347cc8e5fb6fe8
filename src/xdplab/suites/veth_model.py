"""The model of suite veth: what reusing skb heads is worth on veth's receive path.

Published: packets per second of whole paths through a kernel, before and after a change that was
never merged: a head that the driver allocated itself goes back to the NAPI cache that it came
from instead of the slab, once its frame was sent or redirected. Here a model in user space:
allocator, caches, rings and the driver's poll as code on memory, and nothing else of a kernel.
So nanoseconds can be compared, and the share of a packet's time cannot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdplab.engines.base import XDP_REDIRECT, XDP_TX, Engine, Method, Subject
from xdplab.packets.frame import udp_frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.records import RESOLVED, TWIN, Estimate, Result
from xdplab.suites.base import Group, Measure, Plan, Results, Values
from xdplab.suites.table import Cell, Column, Figure, Published, Row, Table

SLAB, NAPI_CACHE = "off", "napi-cache"
"""Where heads go, as variant names and as values of the data path's `skb_reuse`."""

PATHS = {
    "tx-drop": ("TX -> DROP", XDP_TX),
    "tx-pass": ("TX -> PASS", XDP_TX),
    "redirect-drop": ("REDIRECT -> DROP", XDP_REDIRECT),
    "redirect-pass": ("REDIRECT -> PASS", XDP_REDIRECT),
}
"""Value of the parameter `path` -> its title and what the first interface's program returns."""

PUBLISHED_PPS = {
    "tx-drop": (2_033_439, 2_167_749, "~6"),
    "tx-pass": (1_585_462, 1_650_572, "~4"),
    "redirect-drop": (1_787_342, 1_848_516, "~3"),
    "redirect-pass": (1_391_587, 1_439_866, "~3"),
}
"""Packets per second before and after, and the change in percent as printed. Source: the mails
around the patch that gives such heads back to the NAPI cache; hardware unnamed."""

_HEADS = {SLAB: "to the slab", NAPI_CACHE: "to the NAPI cache"}


_MODEL = "veth"


def plan(values: Values, engine: Engine) -> Plan:
    spec = shipped_object("veth_model")
    # A run that chooses one has that one's figures, and nothing to compare them with.
    chosen = engine.chosen.get("skb_reuse")
    kinds = (SLAB, NAPI_CACHE) if chosen is None else (chosen,)
    first = next(iter(PATHS))
    return Plan(
        (
            Group(
                Method.PACKET,
                (
                    *(_subject(spec, path, kind) for path in PATHS for kind in kinds),
                    _subject(spec, first, kinds[0], instance=1),
                ),
                (
                    *_measures(kinds),
                    Measure(TWIN, TWIN, _parameters(first), kinds[0], f"{first}/{kinds[0]}"),
                ),
                share=1.0,
            ),
        )
    )


def _parameters(path: str) -> dict[str, int | str]:
    return {"path": path, "model": _MODEL}


def _subject(spec: ObjectSpec, path: str, kind: str, instance: int = 0) -> Subject:
    return Subject(
        TWIN if instance else f"{path}/{kind}",
        spec,
        path.replace("-", "_"),
        udp_frame("ipv4", 64),
        action=PATHS[path][1],
        instance=instance,
        datapath={"receive": "veth-model", "skb_reuse": kind},
    )


def _measures(kinds: Sequence[str]) -> Iterator[Measure]:
    for path in PATHS:
        for kind in kinds:
            yield Measure(kind, f"{path}/{kind}", _parameters(path))
        if NAPI_CACHE in kinds and SLAB in kinds:
            yield Measure(
                NAPI_CACHE, f"{path}/{NAPI_CACHE}", _parameters(path), SLAB, f"{path}/{SLAB}"
            )


def rate_change(difference: Estimate, gross: Estimate) -> Estimate | None:
    """The change of packets per second, in percent, where a packet's time changes by `difference`.

    The interval is of both, what one of them adds to it and the other as roots of squares do. None
    where the change may be as large as the whole.
    """

    if gross.low + difference.low <= 0:
        return None

    def percent(change_ns: float, gross_ns: float) -> float:
        return -100 * change_ns / (gross_ns + change_ns)

    point = percent(difference.point, gross.point)
    by_gross = [percent(difference.point, end_ns) for end_ns in (gross.low, gross.high)]
    return Estimate(
        point,
        point - math.hypot(point - percent(difference.high, gross.point), point - min(by_gross)),
        point + math.hypot(percent(difference.low, gross.point) - point, max(by_gross) - point),
        difference.level,
        difference.n,
    )


def tables(results: Results, notes: Sequence[str]) -> list[Table]:
    rows = [
        _row(results, path, kind, gross)
        for path in PATHS
        for kind in (SLAB, NAPI_CACHE)
        if (gross := results.find(kind, _parameters(path), metric="gross_ns"))
    ]
    return [
        Table(
            "a model of veth's receive path: skb heads reused",
            (
                Column("path"),
                Column("heads go"),
                Column("modelled packet", "ns"),
                Column("", "cycles"),
                Column("change", "ns"),
                Column("of its rate", "%"),
                Column("published rate", "%"),
            ),
            rows,
            notes=(*notes, *_reading(results)),
        )
    ]


def _row(results: Results, path: str, kind: str, gross: Result) -> Row:
    change = rate = None
    published: Cell = None
    if kind == NAPI_CACHE:
        change = results.find(kind, _parameters(path), baseline=SLAB)
        rate = _rate(results, path, change)
        published = Published(PUBLISHED_PPS[path][2])
    first = kind == SLAB or results.find(SLAB, _parameters(path), metric="gross_ns") is None
    return Row(
        (
            PATHS[path][0] if first else None,
            _HEADS[kind],
            Figure.of(gross, digits=1),
            Figure.cycles_of(gross),
            Figure.of(change, signed=True) if change else None,
            rate,
            published,
        ),
        note=gross.note,
        begins_section=first,
    )


def _rate(results: Results, path: str, change: Result | None) -> Figure | None:
    before = results.find(SLAB, _parameters(path), metric="gross_ns")
    if change is None or before is None or not change.estimate or not before.estimate:
        return None
    estimate = rate_change(change.estimate, before.estimate)
    if estimate is None:
        return None
    return Figure(estimate, digits=1, signed=True, resolved=change.verdict == RESOLVED)


def _reading(results: Results) -> Iterator[str]:
    yield (
        "A model, not a kernel: an allocator in SLUB's manner, the NAPI cache of heads, pointer "
        "rings, the driver's poll (copy into a head and a page of its own, program, bulk "
        "transmission) and an skb on what is passed, as code that runs here. Not in it: the stack "
        "behind PASS, interrupts, locks that others hold, other CPUs' caches, the generator's time."
    )
    yield (
        "Before and after differ in where a head goes whose frame was sent or redirected; both "
        "take heads by way of the NAPI cache. The percentage depends on the work that is assumed "
        "around it: nanoseconds are the figure."
    )
    twin = next((r for r in results.all() if r.variant == TWIN), None)
    if twin and twin.estimate:
        yield f"In the same run: a path against itself {twin.estimate.point:+.2f} ns."
    saved = ", ".join(
        f"{PATHS[path][0]} {1e9 / before - 1e9 / after:.0f} of {1e9 / before:.0f}"
        for path, (before, after, _) in PUBLISHED_PPS.items()
    )
    yield f"The published rates as time, ns a packet that the change saved: {saved}."
