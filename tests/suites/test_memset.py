"""The suite memset: every published family and size, crossings from figures, reasons in rows."""

from __future__ import annotations

import pytest

from tests.suites.measured import Measured, engine, measure, shown
from xdplab.engines.base import Method
from xdplab.engines.native import NativeEngine
from xdplab.records import Result
from xdplab.suites.memset import SUITE
from xdplab.suites.memset_families import BLOCK_SIZES, CONSTANT_SIZES, PLACES, RUN_TIME_SIZES
from xdplab.suites.memset_tables import STORES, STOSQ, costs_by_size
from xdplab.suites.picture import Curves
from xdplab.suites.table import Figure, Row, Table

TURNS = 1000
LOOP_PS = 300


def cost_ps(key: str) -> int:
    """Picoseconds a turn, the loop included: a store each 125 ps, rep stosq for 8 ns and little
    more, and the C library's memset in between."""
    if key == "loop":
        return LOOP_PS
    if key == "reference-cycle":
        return 400
    name, _, text = key.partition("/")
    size = int(text or 256)
    if name in {"run-time", "rep-stosb", "page-rep-stosb", "page-rep-stosq"}:
        return LOOP_PS + 8000 + size
    if name == "constant" and size > 128:
        return LOOP_PS + 8000 + size
    if name == "libc":
        return LOOP_PS + 1000 + 2 * size
    return LOOP_PS + 125 * size // 8


def costs(_method: Method, key: str) -> int:
    """Whole nanoseconds of a call: so many turns of its cost."""
    turns = 100_000 if key == "reference-cycle" else TURNS
    return cost_ps(key) * turns // 1000


def native(monkeypatch: pytest.MonkeyPatch, missing: dict[str, str] | None = None) -> Measured:
    """The suite on an engine that is called native and follows the costs above."""
    on = engine(costs, missing=missing, clock_ghz=2.5, name="native")
    return measure(monkeypatch, SUITE, {}, on)


def row_of(table: Table, first: object) -> Row:
    """The row that begins with this cell."""
    return next(row for row in table.rows if row.cells[0] == first)


def cell(table: Table, first: object, heading: str) -> object:
    """A row's cell below a heading."""
    headings = [column.heading for column in table.columns]
    return row_of(table, first).cells[headings.index(heading)]


def test_every_published_size_of_every_family_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    results = native(monkeypatch).outcome.results

    def sizes(variant: str) -> tuple[object, ...]:
        return tuple(
            r.parameters["size_bytes"]
            for r in results
            if r.variant == variant and r.metric == "cost_ns" and r.estimate
        )

    assert sizes("constant") == CONSTANT_SIZES
    assert sizes("blocks") == BLOCK_SIZES
    for variant in ("run-time", "rep-stosb", "words", "avx2", "libc"):
        assert sizes(variant) == RUN_TIME_SIZES
    assert {r.baseline for r in results if r.metric == "cost_ns"} == {"loop", "words"}
    libraries = {r.parameters["libc"] for r in results if r.variant == "libc"}
    assert len(libraries) == 1
    assert libraries.pop()


def test_the_loop_has_a_row_of_its_own_and_is_in_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    table, _, beside = native(monkeypatch).tables
    assert shown(row_of(table, "loop alone"))[1] == 0.3
    cost = cell(table, 256, "words")
    assert isinstance(cost, Figure)
    assert cost.estimate.point == pytest.approx(4.0)
    # With its loop, net, and what somebody else's loop took.
    words = shown(row_of(beside, "words"))
    assert words[:4] == ["words", 256, 4.3, 4.0]
    assert words[-1] == "published 8.435"
    assert shown(row_of(beside, "loop alone"))[-1] == "published 0.562"


def test_rates_are_in_reference_cycles_and_named_so(monkeypatch: pytest.MonkeyPatch) -> None:
    table = native(monkeypatch).tables[1]
    assert "reference cycle (TSC)" in table.title
    # 256 bytes in 4 ns, which are 10 counts of 0.4 ns each.
    rate = cell(table, 256, "words")
    assert isinstance(rate, Figure)
    assert rate.estimate.point == pytest.approx(25.6)
    assert rate.bare
    assert any("2.500 GHz" in note for note in table.notes)


def test_no_counter_is_a_reason_in_place_of_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = native(monkeypatch, {"reference-cycle": "there is no counter"})
    table = measured.tables[1]
    assert all(one is None for row in table.rows for one in row.cells[1:])
    assert table.notes == ["No reference cycles: there is no counter."]


def test_crossings_come_from_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = native(monkeypatch).tables[0].notes
    # Stores: 12 ns for 768 bytes against 8.8, 8 against 8.5 for 512.
    assert (
        "constant, stores / constant, rep stosq: constant, stores up to 512 B, constant, rep stosq "
        "from 768 B on."
    ) in notes
    assert "words / C library: words up to 64 B, C library from 128 B on." in notes
    # Equal figures are told from one another by nobody.
    (same,) = [note for note in notes if note.startswith("blocks + switch / words:")]
    assert "no size at which they could be told apart" in same


def test_stores_and_repeated_stores_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    results = native(monkeypatch).results
    stores, repeated = costs_by_size(results, STORES), costs_by_size(results, STOSQ)
    assert tuple(stores) == CONSTANT_SIZES
    assert tuple(repeated) == tuple(size for size in CONSTANT_SIZES if size > 128)
    assert repeated[192].point > stores[192].point


def test_what_is_missing_is_said_once_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "this processor has no avx2"
    measured = native(monkeypatch, {f"avx2/{size}": why for size in RUN_TIME_SIZES})
    table, _, beside = measured.tables
    assert [note for note in table.notes if why in note] == [f"AVX2, not everywhere: {why}."]
    assert row_of(beside, "AVX2").note == why
    assert not any("AVX2 /" in note for note in table.notes)


@pytest.mark.parametrize(
    ("name", "places"), [("kernel", list(PLACES)), ("user", ["map", "packet", "metadata"])]
)
def test_bpf_programs_where_a_program_may_write(
    monkeypatch: pytest.MonkeyPatch, name: str, places: list[str]
) -> None:
    measured = measure(monkeypatch, SUITE, {}, engine(costs, clock_ghz=2.5, name=name))
    (table,) = measured.tables
    assert [column.heading for column in table.columns] == ["size", *places]
    assert [row.cells[0] for row in table.rows] == ["loop alone", "function call", *CONSTANT_SIZES]
    found = {
        (r.parameters["place"], r.parameters["size_bytes"])
        for r in measured.outcome.results
        if r.variant == "constant" and r.estimate
    }
    assert found == {(place, size) for place in places for size in PLACES[place]}


def test_a_place_that_cannot_be_had_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    on = engine(costs, missing={"map/32": "no such map"}, name="kernel")
    (table,) = measure(monkeypatch, SUITE, {}, on).tables
    assert row_of(table, 32).note == "no such map"


def test_every_program_does_its_work_natively() -> None:
    """Nothing but what this processor lacks is missing, and places are in the plan's functions."""
    (group,) = SUITE.plan({}, NativeEngine()).groups
    with NativeEngine().open(group.subjects, group.method) as session:
        assert all("this processor" in why for why in session.missing.values())
        keys = [subject.key for subject in group.subjects if subject.key not in session.missing]
        session.place(keys)
        for key in ("constant/32", "libc/16", "loop"):
            assert session.timer(key)() > 0


def _cost(results: tuple[Result, ...], variant: str, size: int) -> float:
    (found,) = [
        r
        for r in results
        if r.variant == variant
        and r.parameters.get("size_bytes") == size
        and r.metric == "cost_ns"
        and r.baseline == "loop"
    ]
    assert found.estimate is not None
    return found.estimate.point


def test_what_must_hold_on_any_machine() -> None:
    from xdplab.experiment import Stop, run_suite

    outcome = run_suite(SUITE, {}, NativeEngine(), 1.0, Stop(), lambda _label, _share: None)
    # 256 times the stores: however fast a processor is, not as fast as 32 bytes.
    assert _cost(outcome.results, "words", 8192) > 10 * _cost(outcome.results, "words", 32)
    stores = [_cost(outcome.results, "constant-stores", size) for size in (256, 1024, 8192)]
    assert stores == sorted(stores)


def test_the_picture_has_every_way_and_its_crossings(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = native(monkeypatch)
    (picture,) = SUITE.pictures(measured.results, measured.tables)
    assert isinstance(picture, Curves)
    assert [one.label for one in picture.series] == [
        "constant, stores",
        "constant, rep stosq",
        "blocks + switch",
        "run-time size",
        "rep stosb",
        "words",
        "AVX2",
        "C library",
    ]
    crossing = next(one for one in picture.marks if one.text.startswith("words up to 64 B, C lib"))
    assert (crossing.low_x, crossing.high_x) == (64, 128)
    # Between 1 ns against 1.128 and 2 ns against 1.256.
    assert 64 < crossing.x < 128
    assert 1 < crossing.y < 2


def test_the_picture_in_bpf_has_every_place_and_nothing_native(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = measure(monkeypatch, SUITE, {}, engine(costs, name="kernel"))
    (picture,) = SUITE.pictures(measured.results, measured.tables)
    assert isinstance(picture, Curves)
    assert [one.label for one in picture.series] == list(PLACES)
    assert not picture.marks
    assert [size for size, _ in picture.series[0].points] == list(CONSTANT_SIZES)
