"""calls on the scripted engine: what it plans, and its table's order, ratios and notes."""

from __future__ import annotations

import pytest

from tests.suites.measured import Measured, engine, measure, shown
from xdplab.engines.base import Method
from xdplab.program.shipped import shipped_object
from xdplab.program.uses import uses
from xdplab.records import TWIN
from xdplab.suites.base import Plan
from xdplab.suites.calls import FILLED, NETWORK, SUITE
from xdplab.suites.picture import Bars
from xdplab.suites.prices import (
    CALL,
    EMPTY,
    INDIRECT,
    KEY,
    OPERATIONS,
    PRICES,
    TAIL_CALLS_A_RUN,
)

_OBJECTS = ("calls", "calls_kfunc", "calls_maps", "calls_packet", "calls_tail")
_NO_ROWS = {
    *("empty", "key_alone"),  # what rows are net of
    *("no_tail_call_constant", "no_tail_call_variable", "spoiled", "tail_calls_counted"),
}


def _plan() -> Plan:
    return SUITE.plan({}, engine())


def _costs(_method: Method, key: str) -> int:
    """Whole ns of a call: as PRICES says for the kernel, over what the row is net of."""
    prices = {price.variant: price for price in PRICES}
    if key == TWIN:
        return _costs(_method, CALL)
    if key not in prices:
        return 1000
    price = prices[key]
    return round(price.kernel_ns * price.operations) + _costs(_method, price.against)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    on = engine(_costs, clock_ghz=2.0)
    on.name = "kernel"
    on.mitigations = ("retpolines", "return thunks (ITS)")
    return measure(monkeypatch, SUITE, {}, on)


# --- plan


def test_every_program_of_the_objects_has_a_row() -> None:
    programs = {name for one in _OBJECTS for name in shipped_object(one).programs}
    assert {price.program for price in PRICES} == programs - _NO_ROWS
    assert len({price.variant for price in PRICES}) == len({p.title for p in PRICES})
    for price in PRICES:
        assert price.program in shipped_object(price.object).programs


def test_every_row_is_measured_once_against_what_it_is_net_of() -> None:
    loops, in_a_row = _plan().groups
    assert (loops.method, in_a_row.method) == (Method.OPERATION, Method.PACKET)
    assert loops.share + in_a_row.share == pytest.approx(1)
    measures = {m.variant: m for group in (loops, in_a_row) for m in group.measures}
    for price in PRICES:
        planned = measures[price.variant]
        assert (planned.subject, planned.against) == (price.variant, price.against)
        assert planned.baseline == price.against
    for group in (loops, in_a_row):
        subjects = {subject.key: subject for subject in group.subjects}
        assert len(subjects) == len(group.subjects)
        for planned in group.measures:
            assert planned.subject in subjects
            assert planned.against is None or planned.against in subjects
        twin = next(m for m in group.measures if m.variant == TWIN)
        assert twin.against is not None
        one, other = subjects[twin.subject], subjects[twin.against]
        assert one.program == other.program
        assert one.load_key != other.load_key


def test_what_is_compared_makes_as_many_turns() -> None:
    for group in _plan().groups:
        subjects = {subject.key: subject for subject in group.subjects}
        for planned in group.measures:
            if planned.against is not None:
                pair = subjects[planned.subject], subjects[planned.against]
                assert pair[0].operations == pair[1].operations
    # An entry is a turn where a map is walked.
    assert shipped_object("calls_maps").maps["array_walked"].max_entries == OPERATIONS


def test_maps_are_filled_and_keys_go_round_all_entries() -> None:
    spec = shipped_object("calls_maps")
    for subject in _plan().groups[0].subjects:
        if subject.object is not spec:
            continue
        _, used = uses(spec, [subject.program])
        filled = used & FILLED.keys()
        assert {name for name in filled if spec.maps[name].inner is None} == set(subject.entries)
        for name, entries in subject.entries.items():
            found = spec.maps[name]
            assert len(entries) == FILLED[name] <= found.max_entries
            assert len({key for key, _ in entries}) == len(entries)
            assert {(len(key), len(value)) for key, value in entries} == {
                (found.key_size, found.value_size)
            }
        for name in filled:
            # Programs take numbers modulo a power of two.
            assert FILLED[name] & (FILLED[name] - 1) == 0
            assert subject.globals["mask"] == FILLED[name] - 1


def test_only_what_needs_a_network_asks_for_one() -> None:
    asking = [s for group in _plan().groups for s in group.subjects if s.network]
    assert {subject.key for subject in asking} == {"fib-lookup", "redirect-map"}
    assert {subject.network for subject in asking} == {NETWORK}


def test_where_a_run_may_make_another_number_of_tail_calls_they_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on = engine(_costs, missing={"counted": "it returned XDP_DROP"})
    measured = measure(monkeypatch, SUITE, {}, on)
    (table,) = measured.tables
    assert not any("tail call," in str(row.cells[0]) for row in table.rows)
    assert any(f"does not end at {TAIL_CALLS_A_RUN}" in note for note in table.notes)


# --- table


def test_the_table_has_every_row_cheapest_first(measured: Measured) -> None:
    (table,) = measured.tables
    expected = sorted(PRICES, key=lambda price: price.kernel_ns)
    assert [row.cells[0] for row in table.rows] == [price.title for price in expected]
    call_ns = next(price for price in PRICES if price.variant == CALL).kernel_ns
    for row, price in zip(table.rows, expected, strict=True):
        # What a clock of whole nanoseconds leaves of it.
        step_ns = 1 / price.operations if price.object != "calls_tail" else 1 / TAIL_CALLS_A_RUN
        kind, cost, cycles, times = shown(row)[1:]
        assert kind == price.kind
        assert cost == pytest.approx(price.kernel_ns, abs=step_ns)
        assert cycles == pytest.approx(2 * price.kernel_ns, abs=2 * step_ns)
        assert times == pytest.approx(price.kernel_ns / call_ns, rel=0.01, abs=2 * step_ns)


def test_ties_stand_as_they_usually_do_on_that_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def alike(_method: Method, key: str) -> int:
        return 1000 if key in {EMPTY, KEY} or key.startswith("no-tail") else 3000

    for name in ("kernel", "user"):
        on = engine(alike)
        on.name = name
        (table,) = measure(monkeypatch, SUITE, {}, on).tables
        # One turn of a loop is net of a function call, which costs as much as all the rest.
        in_a_call = [price for price in PRICES if price.against == CALL]
        others = [price for price in PRICES if price not in in_a_call]
        others = [p for p in others if p.operations == OPERATIONS]
        usual = sorted(others, key=lambda p: p.kernel_ns if name == "kernel" else p.user_ns)
        titles = [row.cells[0] for row in table.rows]
        places = [titles.index(price.title) for price in usual]
        assert places == sorted(places)


def test_each_kind_has_its_picture_with_all_its_rows(measured: Measured) -> None:
    pictures = SUITE.pictures(measured.results, measured.tables)
    kinds = dict.fromkeys(price.kind for price in PRICES)
    assert [picture.title for picture in pictures] == [
        f"price list, {kind}: cost" for kind in kinds
    ]
    for picture, kind in zip(pictures, kinds, strict=True):
        assert isinstance(picture, Bars)
        assert picture.unit == "ns"
        (group,) = picture.groups
        wanted = {price.title for price in PRICES if price.kind == kind}
        assert {bar.label for bar in group.bars} == wanted
        assert all(bar.estimate for bar in group.bars)


def test_a_kind_without_a_figure_has_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {price.variant: "not here" for price in PRICES if price.kind == "ring"}
    found = measure(monkeypatch, SUITE, {}, engine(_costs, missing))
    titles = [picture.title for picture in SUITE.pictures(found.results, found.tables)]
    assert titles
    assert not any("ring" in title for title in titles)


def test_the_cost_of_mitigations_is_one_note(measured: Measured) -> None:
    (table,) = measured.tables
    (note,) = [note for note in table.notes if "itigations" in note]
    costs = {price.variant: price.kernel_ns for price in PRICES}
    times = costs[INDIRECT] / costs[CALL]
    assert note == (
        f"What mitigations cost here: a function call {costs[CALL]:.2f} ns, an indirect call "
        f"{costs[INDIRECT]:.2f} ns, {times:.1f} times as much. "
        "Mitigations in force around calls: retpolines, return thunks (ITS)."
    )


def test_a_row_that_could_not_be_measured_stands_last_with_its_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = {"fib-lookup": "this kernel has no routes", CALL: "nobody calls here"}
    (table,) = measure(monkeypatch, SUITE, {}, engine(_costs, missing)).tables
    noted = [bool(row.note) for row in table.rows]
    assert noted == sorted(noted)
    lines = {row.cells[0]: row for row in table.rows}
    assert lines["bpf_fib_lookup, next hop known"].note == missing["fib-lookup"]
    # Nothing can be told in function calls where that has no figure, nor what is net of it.
    assert {row.cells[4] for row in table.rows} == {None}
    assert lines["bpf_loop, called for one turn"].note == missing[CALL]
    (note,) = [note for note in table.notes if "itigations" in note]
    assert note == "Mitigations in force around calls: none."
