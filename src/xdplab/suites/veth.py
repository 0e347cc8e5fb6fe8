"""veth: whole ways of packets through the stack, live; and their published change, as a model.

Published: packets per second of five ways through two veth pairs, packets made as skbs, before and
after a change that was never merged (veth_model.py has it). On the live engine the ways
themselves are measured, with two generators, beside a program that drops at once; further ways;
native against generic mode; and what packet access costs on the way that it costs without one
(veth_ledger.py). On the user-space engine the change is a model, and labelled so.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdplab.engines.base import Engine, Method, Subject
from xdplab.engines.live_ways import explain, topology
from xdplab.packets.frame import udp_frame
from xdplab.program.shipped import shipped_object
from xdplab.records import TWIN
from xdplab.suites import veth_ledger, veth_model, veth_tables
from xdplab.suites.base import Group, Measure, Plan, Results, Suite, Values
from xdplab.suites.picture import Picture, bars, has_figures
from xdplab.suites.table import Table
from xdplab.suites.veth_routes import (
    BOTH_MODES,
    CARRYING,
    DROP,
    FRAME_BYTES,
    GENERATORS,
    GENERIC,
    NATIVE,
    ROUTES,
    Route,
    parameters,
)

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


def _key(route: Route, generator: str, mode: str = NATIVE) -> str:
    return f"{route.variant}/{generator}/{mode}"


def _subject(route: Route, generator: str, mode: str = NATIVE, twin: bool = False) -> Subject:
    return Subject(
        f"{TWIN}/{generator}" if twin else _key(route, generator, mode),
        shipped_object("paths"),
        route.program,
        udp_frame("ipv4", FRAME_BYTES),
        action=route.action,
        instance=int(twin),
        datapath={"way": route.way, "generator": generator, "mode": mode},
    )


def _against_drop(route: Route, generator: str, mode: str = NATIVE) -> Measure:
    return Measure(
        route.variant,
        _key(route, generator, mode),
        parameters(generator, mode),
        DROP,
        _key(ROUTES[0], generator),
    )


def _reference(generator: str) -> tuple[list[Subject], list[Measure]]:
    """The way that drops at once: in itself, and against a second one like it."""
    drop = ROUTES[0]
    key, where = _key(drop, generator), parameters(generator)
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
    for carrying, bare in CARRYING.items():
        keys = [_key(by_variant[variant], generator) for variant in (carrying, bare)]
        measures.append(Measure(carrying, keys[0], parameters(generator), bare, keys[1]))
    return Group(Method.LIVE, subjects, measures, _SHARES[generator])


def _modes_group() -> Group:
    """Native against generic mode, with the generator whose packets both of them see."""
    subjects, measures = _reference("ring")
    for route in BOTH_MODES:
        for mode in (NATIVE, GENERIC):
            if (route.variant, mode) != (DROP, NATIVE):
                subjects.append(_subject(route, "ring", mode))
                measures.append(_against_drop(route, "ring", mode))
    return Group(Method.LIVE, subjects, measures, _SHARES["ring"])


def _tables(results: Results, notes: Sequence[str]) -> list[Table]:
    if any("model" in result.parameters for result in results.all()):
        return veth_model.tables(results, notes)
    return veth_tables.tables(results, notes)


def _pictures(results: Results, tables: Sequence[Table]) -> list[Picture]:
    if any("model" in result.parameters for result in results.all()):
        return [bars(table) for table in tables[:1] if has_figures(table)]
    ways = [table for table in tables if any(one.heading == "rate" for one in table.columns)]
    ledger = veth_ledger.picture(results)
    return [*(bars(table, "rate") for table in ways[:1]), *([ledger] if ledger else [])]


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
    pictures=_pictures,
)
