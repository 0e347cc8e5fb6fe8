"""veth on the scripted engine: the ways it plans, and tables that say what became of packets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from tests.suites.measured import Measured, defaults, engine, measure, shown
from xdplab.engines.base import Method
from xdplab.engines.live_ways import DATAPATH, WAYS
from xdplab.program.shipped import shipped_object
from xdplab.records import NOT_SUPPORTED, TWIN
from xdplab.suites import veth_ledger
from xdplab.suites.base import Results
from xdplab.suites.table import Figure, Row, Table
from xdplab.suites.veth import SUITE
from xdplab.suites.veth_model import PUBLISHED_PPS
from xdplab.suites.veth_routes import GENERATORS, ROUTES
from xdplab.views.text import markdown, org

_NS = {"tx": 30_000, "redirect": 40_000}


def _costs(_method: Method, key: str) -> int:
    """A way that drops takes 100 us a call of a thousand packets, others by their first word."""
    return 100_000 + _NS.get(key.partition("-")[0], 0)


def measured(
    monkeypatch: pytest.MonkeyPatch,
    missing: Mapping[str, str] | None = None,
    counts: Mapping[str, int] | None = None,
) -> Measured:
    on = engine(_costs, missing=missing, datapath=DATAPATH)
    on.counts = lambda _key: counts or {}
    return measure(monkeypatch, SUITE, defaults(SUITE), on, time_s=600)


def table_titled(found: Measured, title: str) -> Table:
    (table,) = (table for table in found.tables if table.title.startswith(title))
    return table


def row_of(table: Table, title: str, section: str) -> Row:
    """The row of that way, in the section that the first cell of its first row names."""
    here = ""
    for row in table.rows:
        here = str(row.cells[0] or here)
        if here == section and row.cells[1] == title:
            return row
    raise AssertionError(title)


def test_every_way_is_measured_with_both_generators_against_one_that_drops() -> None:
    groups = SUITE.plan({}, engine(datapath=DATAPATH)).groups
    assert sum(group.share for group in groups) == pytest.approx(1.0)
    programs = shipped_object("paths").programs
    for generator, group in zip(GENERATORS, groups, strict=False):
        subjects = {subject.key: subject for subject in group.subjects}
        assert group.method is Method.LIVE
        assert len(subjects) == len(ROUTES) + 1
        for subject in subjects.values():
            assert subject.program in programs
            assert subject.datapath["way"] in WAYS
            assert subject.datapath["generator"] == generator
        costs = [one for one in group.measures if one.metric == "cost_ns"]
        over_drop = [one for one in costs if one.baseline == "drop"]
        assert {one.variant for one in over_drop} == {TWIN} | {r.variant for r in ROUTES[1:]}
        assert {one.against for one in over_drop} == {f"drop/{generator}/native"}
        assert {(one.variant, one.baseline) for one in costs if one not in over_drop} == {
            ("redirect-trait", "redirect-drop"),
            ("cpu-trait", "cpu-drop"),
        }
        # The twin is another load on another topology.
        assert (
            subjects[f"{TWIN}/{generator}"].load_key
            != subjects[f"drop/{generator}/native"].load_key
        )
    published = {route.published for route in ROUTES} - {""}
    assert published == {*PUBLISHED_PPS, "xsk-drop"}


def test_what_v0_returns_is_what_the_way_wants() -> None:
    for route in ROUTES:
        first = WAYS[route.way].path.hops[0]
        assert (
            first.action
            == ("XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT")[route.action]
        )


def test_the_ledger_has_the_same_programs_at_three_stages() -> None:
    groups = veth_ledger.groups()
    assert [group.method for group in groups] == [Method.PACKET, Method.LIVE, Method.LIVE]
    programs = [[subject.program for subject in group.subjects] for group in groups]
    assert programs[0] == programs[1] == programs[2]
    assert len(set(programs[0])) == len(veth_ledger.LEDGER) >= 5


def test_a_row_has_time_rate_difference_ratio_and_what_was_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = measured(monkeypatch)
    table = table_titled(found, "whole ways")
    # Calls of one packet on the scripted engine: 100 us, whatever the way's first word adds.
    drop = shown(row_of(table, "-> v0 DROP", "skbs"))
    assert drop[2:6] == [100_000, 0.01, None, None]
    tx = shown(row_of(table, "-> v0 TX -> v1 DROP", "skbs"))
    assert tx[2:6] == [130_000, round(1e3 / 130_000, 4), 30_000, 1.3]
    assert tx[-2:] == ["published 2,033,439", "published 2,167,749"]
    assert shown(row_of(table, "-> v0 REDIRECT by cpumap DROP", "live frames"))[-2:] == [None, None]
    assert len(table.rows) == len(GENERATORS) * len(ROUTES)


def test_what_arrived_and_what_was_lost_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {
        "generated": 1000,
        "sink": 990,
        "elapsed_ns": 500,
        "on_cpu_ns": 400,
        "lost: peer's ring full behind v1": 10,
    }
    found = measured(monkeypatch, counts=counts)
    table = table_titled(found, "whole ways")
    row = shown(row_of(table, "-> v0 TX -> v1 DROP", "live frames"))
    (result,) = (
        r
        for r in found.results.all()
        if (r.variant, r.parameters.get("generator")) == ("tx-drop", "frames")
    )
    trials = len(result.trials)
    assert row[6] == 99.0
    assert row[7] == 10 * trials
    assert row[8] == 80.0
    total = sum(len(r.trials) for r in found.results.all())
    assert any(f"{10 * total} peer's ring full behind v1" in note for note in table.notes)
    assert {"off-cpu", "packets-lost"} <= {warning.code for warning in found.outcome.warnings}


def test_a_way_that_loses_packets_is_a_row_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = measured(monkeypatch, missing={"tx-drop/skb/native": "v1 has no program"})
    row = row_of(table_titled(found, "whole ways"), "-> v0 TX -> v1 DROP", "skbs")
    assert row.note == "v1 has no program"
    (result,) = (r for r in found.results.all() if r.note)
    assert result.verdict == NOT_SUPPORTED


def test_generic_mode_stands_beside_native(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_titled(measured(monkeypatch), "native and generic")
    assert [row.cells[1] for row in table.rows] == ["native", "generic"] * 3
    assert [bool(row.cells[0]) for row in table.rows] == [True, False] * 3


def test_the_ledger_has_a_packet_and_a_cost_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_titled(measured(monkeypatch), "one ledger")
    assert [row.cells[0] for row in table.rows] == [row.title for row in veth_ledger.LEDGER]
    assert len(table.columns) == 1 + 2 * len(veth_ledger.STAGES)
    first, *others = table.rows
    assert [isinstance(cell, Figure) for cell in first.cells[1:]] == [True, False] * 3
    for row in others:
        assert all(isinstance(cell, Figure) for cell in row.cells[1:])


def test_tables_bear_results_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(monkeypatch)
    assert SUITE.tables(Results(()), ()) == []
    bare = [
        dataclasses.replace(result, estimate=None, note="stopped") for result in found.results.all()
    ]
    for table in SUITE.tables(Results(bare), ()):
        assert markdown(table)
        assert org(table)
