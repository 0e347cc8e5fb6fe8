"""packet-access on the scripted engine: layouts, what it plans on each, and its tables."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.suites.measured import Measured, defaults, engine, measure, shown
from xdplab.engines.base import XDP_DROP, XDP_TX, Method
from xdplab.errors import FrameError
from xdplab.packets.frame import ETHERNET_BYTES, PACKETS
from xdplab.program.shipped import shipped_object
from xdplab.records import TWIN
from xdplab.suites.base import Group, Results
from xdplab.suites.packet_access import DPA, FRAME_SIZES, NO_TOUCH, OUT_OF_REACH, ROWS, SUITE
from xdplab.suites.table import Figure
from xdplab.views.format import cell_texts
from xdplab.views.text import markdown, org

_COSTS_NS = {row.variant: 40 + 10 * number for number, row in enumerate(ROWS)} | {TWIN: 60}
"""No touch 40 ns, and each row ten more than the one before it."""

_DYNPTR = [row.variant for row in ROWS if "dynptr" in row.variant]


_CLOCK_GHZ = 2.5


def _variant(key: str) -> str:
    return key.rsplit("/", 3)[0]


def _costs(_method: Method, key: str) -> int:
    return _COSTS_NS[_variant(key)]


def _group(*sizes: int) -> Group:
    (group,) = SUITE.plan({"frame-sizes": sizes}, engine()).groups
    return group


def _keys(group: Group, variant: str) -> list[str]:
    return [subject.key for subject in group.subjects if _variant(subject.key) == variant]


# --- plan


def test_layouts_are_sizes_a_split_of_the_largest_and_packets_of_the_first() -> None:
    assert _keys(_group(64, 1500), NO_TOUCH) == [
        "no-touch/ipv4/64/None",
        "no-touch/ipv4/1500/None",
        "no-touch/ipv4/1500/14",
        "no-touch/ipv6/64/None",
        "no-touch/vlan/64/None",
        "no-touch/qinq/64/None",
    ]
    # The largest, wherever it was named; and the first, whatever its size.
    assert _keys(_group(1500, 64), NO_TOUCH) == [
        "no-touch/ipv4/1500/None",
        "no-touch/ipv4/64/None",
        "no-touch/ipv4/1500/14",
        "no-touch/ipv6/1500/None",
        "no-touch/vlan/1500/None",
        "no-touch/qinq/1500/None",
    ]


@pytest.mark.parametrize(
    ("first_bytes", "packets"),
    [
        (42, ["ipv4"]),
        (45, ["ipv4"]),
        (46, ["ipv4", "vlan"]),
        (50, ["ipv4", "vlan", "qinq"]),
        (61, ["ipv4", "vlan", "qinq"]),
        (62, ["ipv4", "ipv6", "vlan", "qinq"]),
    ],
)
def test_packets_whose_headers_do_not_fit_the_first_size_are_left_out(
    monkeypatch: pytest.MonkeyPatch, first_bytes: int, packets: list[str]
) -> None:
    sizes = (first_bytes, 1500)
    keys = _keys(_group(*sizes), NO_TOUCH)
    assert [key for key in keys if f"/{first_bytes}/" in key] == [
        f"no-touch/{packet}/{first_bytes}/None" for packet in packets
    ]
    # Larger sizes do not bring them back, and the tables know of none either.
    assert [key for key in keys if f"/{first_bytes}/" not in key] == [
        "no-touch/ipv4/1500/None",
        "no-touch/ipv4/1500/14",
    ]
    measured = measure(monkeypatch, SUITE, {"frame-sizes": sizes}, engine(_costs))
    by_packet = measured.tables[2]
    assert by_packet.title == f"cost over no touch by packet, {first_bytes} B"
    assert [column.heading for column in by_packet.columns] == ["program", *packets]
    assert not any(None in shown(row) for row in by_packet.rows)


def test_a_first_size_that_not_even_the_main_packet_fits_is_named() -> None:
    with pytest.raises(FrameError, match="41 bytes has no room for the 42 bytes"):
        _group(41, 1500)


def test_all_behind_the_ethernet_header_lies_in_frags_where_split() -> None:
    group = _group(64, 1500)
    split = [subject for subject in group.subjects if subject.key.endswith("/14")]
    assert {subject.frame.linear_bytes for subject in split} == {ETHERNET_BYTES}
    assert {len(subject.frame.data) for subject in split} == {1500}
    # What says nothing there is not measured there.
    assert {_variant(subject.key) for subject in split} == {
        row.variant for row in ROWS if row.variant not in OUT_OF_REACH
    }
    whole = [subject for subject in group.subjects if not subject.key.endswith("/14")]
    assert {subject.frame.linear_bytes for subject in whole} == {None}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(42, 9000), min_size=1, max_size=4))
def test_every_measure_has_its_subjects_and_no_subject_comes_twice(sizes: list[int]) -> None:
    group = _group(*sizes)
    keys = [subject.key for subject in group.subjects]
    assert len(keys) == len(set(keys))
    for planned in group.measures:
        assert planned.subject in keys
        assert planned.against is None or planned.against in keys
    # No two figures that a reader of the document could not tell apart.
    names = [(m.variant, m.baseline, tuple(m.parameters.items())) for m in group.measures]
    assert len(names) == len(set(names))
    assert _group(*sizes, *sizes) == group


def test_programs_are_there_and_do_what_their_row_says() -> None:
    spec = shipped_object("packet_access")
    for subject in _group(64).subjects:
        assert subject.program in spec.programs
        swaps = subject.program.startswith("swap")
        assert subject.action == (XDP_TX if swaps else XDP_DROP)


def test_the_twin_is_direct_access_in_a_load_of_its_own() -> None:
    group = _group(128, 64)
    (twin,) = (m for m in group.measures if m.variant == TWIN)
    assert (twin.baseline, twin.against) == (DPA, f"{DPA}/ipv4/128/None")
    one, other = (
        next(subject for subject in group.subjects if subject.key == key)
        for key in (twin.subject, twin.against)
    )
    assert (one.program, one.frame) == (other.program, other.frame)
    assert one.load_key != other.load_key


# --- tables


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    return measure(monkeypatch, SUITE, defaults(SUITE), engine(_costs, clock_ghz=_CLOCK_GHZ))


def test_headings_say_what_each_column_is(measured: Measured) -> None:
    main, by_size, by_packet = measured.tables
    assert [(column.heading, column.unit) for column in main.columns] == [
        ("program", ""),
        ("per packet", "ns"),
        ("over no touch", "ns"),
        ("cycles", ""),
        ("step", "ns"),
        ("one core", "Mpps"),
        ("published", "ns"),
        ("published step", "ns"),
    ]
    assert main.title == "cost of packet access, ipv4, 64 B"
    assert by_size.title == "cost over no touch by frame size, ipv4"
    assert by_packet.title == "cost over no touch by packet, 64 B"


def test_the_main_table_has_every_row_with_its_figures(measured: Measured) -> None:
    main = measured.tables[0]
    assert len(main.rows) == len(ROWS)
    for row, planned in zip(main.rows, ROWS, strict=True):
        cost_ns = _COSTS_NS[planned.variant]
        title, per_packet, over, cycles, above, mpps, published, step = shown(row)
        assert title == planned.title
        assert (per_packet, mpps) == (cost_ns, round(1e3 / cost_ns, 4))
        if planned.variant == NO_TOUCH:
            assert (over, cycles, above) == (None, None, None)
        else:
            assert planned.above is not None
            assert over == cost_ns - _COSTS_NS[NO_TOUCH]
            assert cycles == over * _CLOCK_GHZ
            assert above == cost_ns - _COSTS_NS[planned.above]
        figures = planned.published or ("", "")
        assert published == (f"published {figures[0]}" if figures[0] else None)
        assert step == (f"published {figures[1]}" if figures[1] else None)
        assert row.note == ""
        # What another column has with its interval is bare.
        bare = [cell.bare for cell in row.cells if isinstance(cell, Figure)]
        touches = planned.variant != NO_TOUCH
        assert bare == ([False, False, True, False, True] if touches else [False, True])


def test_without_a_clock_the_cycles_are_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    on = engine(_costs)
    main = measure(monkeypatch, SUITE, {"frame-sizes": (64,)}, on).tables[0]
    assert {row.cells[3] for row in main.rows} == {None}
    assert {row.cells[2] is None for row in main.rows[1:]} == {False}


def test_with_too_few_loads_every_figure_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    on = engine(_costs, clock_ghz=_CLOCK_GHZ)
    values = {"frame-sizes": (64, 1500)}
    measured = measure(monkeypatch, SUITE, values, on, time_s=1e-9)
    assert [warning.code for warning in measured.outcome.warnings] == ["too-few-loads"]
    for table in measured.tables:
        for text in (markdown(table), org(table)):
            assert "within noise" not in text
            for row, planned in zip(table.rows, cell_texts(table), strict=True):
                for cell, shown_ in zip(row.cells, planned, strict=True):
                    if isinstance(cell, Figure):
                        assert shown_.endswith("[too few loads]") != cell.bare
            assert "[too few loads]" in text
    # Without an interval nobody knows how far below zero a packet's time might reach.
    assert {row.cells[5] for row in measured.tables[0].rows} == {None}


def test_the_notes_say_how_to_read_the_columns(measured: Measured) -> None:
    main, by_size, _ = measured.tables
    columns, ratio, published = main.notes
    for part in ("per packet: ", "no driver and no NIC", "step: over the row above", "not add up"):
        assert part in columns
    # 30 over 10, net of direct access.
    assert ratio.startswith("Two load_bytes calls cost 2.00 ")
    for part in ("xdp-bench drop on a NIC", "machine unnamed", "*: two calls over direct access"):
        assert part in published
    assert "split: all behind the Ethernet header" in by_size.notes[0]
    assert "out of reach: " in by_size.notes[1]
    assert "not repeatable: " in by_size.notes[1]


def test_the_published_rows_are_those_of_the_published_table() -> None:
    published = {row.variant: row.published for row in ROWS if row.published}
    assert published == {
        "no-touch": ("37.8", ""),
        "read-data": ("40.0", "+2.2"),
        "parse-ip/dpa": ("41.5", "+1.5"),
        "parse-ip/load-bytes-2": ("65.3", "+23.8*"),
    }


def test_what_was_published_is_labelled(measured: Measured) -> None:
    for text in (markdown(measured.tables[0]), org(measured.tables[0])):
        heading = next(line for line in text.splitlines() if "per packet" in line)
        *_, nic, step = (part.strip() for part in heading.strip("| ").split("|"))
        assert "published" in nic
        assert "published" in step
        # A step that is none over the row above has a star, and the star its sentence.
        (row,) = (line for line in text.splitlines() if "+23.8" in line)
        assert row.replace("\\", "").rstrip("| ").endswith("+23.8*")
        assert "*: two calls over direct access" in text


def test_tables_by_size_and_by_packet_have_every_column(measured: Measured) -> None:
    _, by_size, by_packet = measured.tables
    headings = [column.heading for column in by_size.columns]
    assert headings == ["program", *(f"{size} B" for size in FRAME_SIZES), "9000 B, split"]
    assert [column.heading for column in by_packet.columns] == ["program", *PACKETS]
    for table in (by_size, by_packet):
        assert len(table.rows) == len(ROWS) - 1
        for row, planned in zip(table.rows, ROWS[1:], strict=True):
            over = _COSTS_NS[planned.variant] - _COSTS_NS[NO_TOUCH]
            expected: list[object] = [planned.title] + [over] * (len(table.columns) - 1)
            if table is by_size and planned.variant in OUT_OF_REACH:
                expected[-1] = OUT_OF_REACH[planned.variant]
            assert shown(row) == expected


def test_the_ratio_is_that_of_the_two_costs_over_direct_access(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = _COSTS_NS | {DPA: 60, "parse-ip/load-bytes-1": 70, "parse-ip/load-bytes-2": 90}
    on = engine(lambda _method, key: costs[_variant(key)])
    main = measure(monkeypatch, SUITE, {"frame-sizes": (64,)}, on).tables[0]
    found = [
        re.fullmatch(r"Two load_bytes calls cost (\S+) \[(\S+), (\S+)\] times what one.*", note)
        for note in main.notes
    ]
    (match,) = (one for one in found if one)
    # 30 / 10, each known within half a nanosecond: hypot(0.5 / 10, 3 * 0.5 / 10).
    assert match.groups() == ("3.00", "2.84", "3.16")


def test_without_a_cost_there_is_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = _COSTS_NS | {DPA: 60, "parse-ip/load-bytes-1": 60}
    on = engine(lambda _method, key: costs[_variant(key)])
    main = measure(monkeypatch, SUITE, {"frame-sizes": (64,)}, on).tables[0]
    assert not any("times what one costs" in note for note in main.notes)


def test_a_missing_kfunc_is_said_in_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    note = "this kernel lacks bpf_dynptr_from_xdp for XDP programs"
    group = _group(*FRAME_SIZES)
    missing = {key: note for variant in _DYNPTR for key in _keys(group, variant)}
    tables = measure(monkeypatch, SUITE, defaults(SUITE), engine(_costs, missing)).tables
    titles = {row.title for row in ROWS if row.variant in _DYNPTR}
    for table in tables:
        for row in table.rows:
            assert row.note == (note if row.cells[0] in titles else "")
            if row.note:
                # No figure at all, and none of another row's.
                assert shown(row)[1:] == [None] * (len(row.cells) - 1)
        for text in (markdown(table), org(table)):
            assert text.count(note) == len(_DYNPTR)


def test_what_is_missing_on_some_frames_only_is_said_below(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note = "this kernel's test run cannot set the linear part"
    group = _group(*FRAME_SIZES)
    missing = {s.key: note for s in group.subjects if s.frame.linear_bytes is not None}
    measured = measure(monkeypatch, SUITE, defaults(SUITE), engine(_costs, missing))
    _, by_size, by_packet = measured.tables
    for row, planned in zip(by_size.rows, ROWS[1:], strict=True):
        assert row.note == ""
        *others, split = shown(row)[1:]
        assert None not in others
        assert split == OUT_OF_REACH.get(planned.variant)
    assert [one for one in by_size.notes if note in one] == [f"Blank at 9000 B, split: {note}."]
    assert not any(note in one for one in by_packet.notes)


@pytest.mark.parametrize("size", [FRAME_SIZES[0], FRAME_SIZES[1]])
def test_a_row_missing_on_one_frame_keeps_its_other_figures(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    on = engine(_costs, {f"read-data/ipv4/{size}/None": "it cannot"})
    by_size = measure(monkeypatch, SUITE, defaults(SUITE), on).tables[1]
    assert by_size.rows[0].note == ""
    expected = [None if other == size else 10.0 for other in FRAME_SIZES]
    assert shown(by_size.rows[0]) == ["read Ethernet header", *expected, 10.0]
    assert by_size.notes[-1] == f"Blank at {size} B: it cannot."


def test_without_any_result_there_is_no_table() -> None:
    assert list(SUITE.tables(Results(()), ())) == []
