"""The model of suite veth on the scripted engine: its plan, and a table that says what it is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.measured import defaults, engine, measure, shown
from xdplab.engines.base import Method
from xdplab.engines.user import UserEngine
from xdplab.program.shipped import shipped_object
from xdplab.records import TWIN, Estimate
from xdplab.suites.table import Figure, Published
from xdplab.suites.veth import SUITE
from xdplab.suites.veth_model import (
    NAPI_CACHE,
    PATHS,
    PUBLISHED_PPS,
    SLAB,
    rate_change,
)
from xdplab.views.text import markdown, org

_PS = {"tx-drop": 40_000, "tx-pass": 60_000, "redirect-drop": 50_000, "redirect-pass": 80_000}
"""What a thousand packets of a path take with heads from the slab; the cache saves 5 ns each."""


def _costs(_method: Method, key: str) -> int:
    path, _, kind = key.partition("/")
    return _PS[next(iter(PATHS)) if key == TWIN else path] - (5000 if kind == NAPI_CACHE else 0)


def test_it_runs_where_the_model_is() -> None:
    assert SUITE.runs_on("user")
    assert not SUITE.runs_on("kernel")
    assert UserEngine.datapath["skb_reuse"] == (SLAB, NAPI_CACHE)


def test_every_path_has_both_kinds_and_their_difference() -> None:
    (group,) = SUITE.plan({}, engine()).groups
    assert group.method is Method.PACKET
    subjects = {subject.key: subject for subject in group.subjects}
    assert len(subjects) == len(group.subjects) == 2 * len(PATHS) + 1
    spec = shipped_object("veth_model")
    for key, subject in subjects.items():
        path, _, kind = key.partition("/")
        if key == TWIN:
            path, kind = "tx-drop", SLAB
        assert subject.program in spec.programs
        assert subject.program == path.replace("-", "_")
        assert subject.action == PATHS[path][1]
        assert subject.datapath == {"receive": "veth-model", "skb_reuse": kind}
    # Both kinds of a path share their load, so that placement is no difference.
    for path in PATHS:
        assert subjects[f"{path}/{SLAB}"].load_key == subjects[f"{path}/{NAPI_CACHE}"].load_key
    assert subjects[TWIN].load_key != subjects[f"tx-drop/{SLAB}"].load_key
    for planned in group.measures:
        assert planned.parameters["model"] == "veth"
        assert planned.subject in subjects
        assert planned.against is None or planned.against in subjects
    costs = [m for m in group.measures if m.metric == "cost_ns" and m.variant != TWIN]
    assert [(m.variant, m.baseline) for m in costs] == [(NAPI_CACHE, SLAB)] * 4
    assert all(m.subject.split("/")[0] == (m.against or "").split("/")[0] for m in costs)


def test_a_run_that_chooses_one_kind_has_that_one_alone() -> None:
    for kind in (SLAB, NAPI_CACHE):
        on = engine()
        on.chosen = {"skb_reuse": kind}
        (group,) = SUITE.plan({}, on).groups
        assert {subject.datapath["skb_reuse"] for subject in group.subjects} == {kind}
        assert {m.variant for m in group.measures} == {kind, TWIN}
        assert all(m.metric == "gross_ns" for m in group.measures if m.variant != TWIN)


def test_the_table_says_what_a_packet_takes_and_what_reuse_saves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The scripted timer counts one operation a call.
    measured = measure(monkeypatch, SUITE, defaults(SUITE), engine(_costs, clock_ghz=2.0))
    (table,) = measured.tables
    rows = [shown(row) for row in table.rows]
    assert len(rows) == 2 * len(PATHS)
    for number, (path, (title, _)) in enumerate(PATHS.items()):
        before, after = rows[2 * number : 2 * number + 2]
        ns = _PS[path]
        assert before == [title, "to the slab", ns, 2 * ns, None, None, None]
        rate = 100 * 5000 / (ns - 5000)
        published = f"published {PUBLISHED_PPS[path][2]}"
        assert after == [
            None,
            "to the NAPI cache",
            ns - 5000,
            2 * (ns - 5000),
            -5000,
            pytest.approx(rate, abs=0.001),
            published,
        ]
        assert table.rows[2 * number].begins_section
        assert not table.rows[2 * number + 1].begins_section
    for row in table.rows[1::2]:
        change, rate_cell = row.cells[4], row.cells[5]
        assert isinstance(change, Figure)
        assert isinstance(rate_cell, Figure)
        assert change.signed
        assert rate_cell.signed
        assert change.resolved == rate_cell.resolved
        assert isinstance(row.cells[6], Published)


def test_model_is_in_title_heading_notes_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = measure(monkeypatch, SUITE, defaults(SUITE), engine(_costs))
    (table,) = measured.tables
    assert "model" in table.title
    assert any("modelled" in column.heading for column in table.columns)
    assert table.notes[0].startswith("A model, not a kernel")
    assert "nanoseconds are the figure" in table.notes[1]
    assert "TX -> DROP 30 of 492" in table.notes[-1]
    assert all(r.to_json()["parameters"]["model"] == "veth" for r in measured.results.all())
    for text in (markdown(table), org(table)):
        assert "a model of veth's receive path" in text


def test_one_kind_alone_has_a_table_without_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    on = engine(_costs)
    on.chosen = {"skb_reuse": NAPI_CACHE}
    measured = measure(monkeypatch, SUITE, defaults(SUITE), on)
    (table,) = measured.tables
    assert [shown(row)[:2] for row in table.rows] == [
        [title, "to the NAPI cache"] for title, _ in PATHS.values()
    ]
    assert all(shown(row)[4:6] == [None, None] for row in table.rows)
    # And results tell of the choice, by which they are still found.
    assert {r.parameters["datapath.skb_reuse"] for r in measured.results.all()} == {NAPI_CACHE}


def test_a_path_that_cannot_be_run_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    on = engine(_costs, missing={f"tx-pass/{NAPI_CACHE}": "it is not there"})
    (table,) = measure(monkeypatch, SUITE, defaults(SUITE), on).tables
    assert [row.note for row in table.rows] == ["", "", "", "it is not there", "", "", "", ""]


@given(
    gross=st.floats(1, 1e4),
    share=st.floats(-0.9, 10),
    width=st.floats(0, 0.09),
)
def test_a_change_of_rate_is_that_of_the_times(gross: float, share: float, width: float) -> None:
    change = gross * share
    difference = Estimate(change, change - width * gross, change + width * gross, 0.95, 9)
    rate = rate_change(difference, Estimate(gross, gross, gross, 0.95, 9))
    assert rate is not None
    before, after = 1 / gross, 1 / (gross + change)
    assert math.isclose(rate.point, 100 * (after / before - 1), rel_tol=1e-6, abs_tol=1e-6)
    assert rate.low <= rate.point <= rate.high
    assert (rate.low > 0) == (difference.high < 0) or width == 0
    assert (rate.level, rate.n) == (0.95, 9)


def test_a_rate_is_no_surer_than_the_time_that_it_is_a_share_of() -> None:
    difference = Estimate(-5, -5.1, -4.9, 0.95, 9)
    sure = rate_change(difference, Estimate(40, 40, 40, 0.95, 9))
    unsure = rate_change(difference, Estimate(40, 25, 90, 0.95, 9))
    assert sure is not None
    assert unsure is not None
    assert unsure.point == sure.point
    # Of 90 ns and of 25 ns, 5 are 5.9 % and 25 % of the rate behind.
    assert unsure.low < 6 < sure.low < sure.high < 25 < unsure.high


def test_no_rate_where_the_time_is_all_gone() -> None:
    gross = Estimate(10, 9, 11, 0.95, 9)
    assert rate_change(Estimate(-8, -10, -7, 0.95, 9), gross) is None
    unknown = rate_change(Estimate(-2, -math.inf, math.inf, 0.95, 3), gross)
    assert unknown is None
