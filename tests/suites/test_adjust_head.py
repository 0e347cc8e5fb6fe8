"""adjust-head on the scripted engine: what it plans for which sizes, and its table."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.suites.measured import Measured, defaults, engine, measure, shown
from xdplab.engines.base import Method
from xdplab.errors import UsageError
from xdplab.experiment import Stop, run_suite
from xdplab.program.shipped import shipped_object
from xdplab.records import NOT_SUPPORTED
from xdplab.suites.adjust_head import PUBLISHED_NS, SIZES, SUITE
from xdplab.suites.base import TWIN, Group, Plan, Results
from xdplab.views.text import markdown, org

_NET_PS = {"helper": 7000, "helper+memset-constant": 9000, "helper+clear-words": 12000}
"""Over the empty loop, for every size; plus a picosecond a byte where bytes are cleared."""


def _costs(method: Method, key: str) -> int:
    if method is Method.PACKET:
        return {"empty": 20, TWIN: 20}.get(key, 50)
    loops = {"empty": 1000, "function-call": 2500, "helper-twice": 15_000, TWIN: 8000}
    if key in loops:
        return loops[key]
    variant, _, size = key.partition("/")
    return 1000 + _NET_PS[variant] + (0 if variant == "helper" else int(size))


def _plan(*sizes: int) -> Plan:
    return SUITE.plan({"sizes": sizes}, engine())


def _variants(group: Group) -> dict[str, set[object]]:
    found: dict[str, set[object]] = {}
    for measure_ in group.measures:
        found.setdefault(measure_.variant, set()).add(measure_.parameters.get("size_bytes"))
    return found


# --- plan


def test_the_published_sizes_are_the_default() -> None:
    assert defaults(SUITE) == {"sizes": SIZES}
    assert set(SIZES) == set(PUBLISHED_NS)


def test_every_size_has_each_variant_in_both_methods() -> None:
    plan = _plan(*SIZES)
    sizes = set(SIZES)
    net, gross = plan.groups
    expected = dict.fromkeys(("helper", "helper+memset-constant", "helper+clear-words"), sizes)
    assert _variants(net) == expected | {
        "helper-twice": {6},
        TWIN: {6},
        "function-call": {None},
        "empty": {None},
    }
    assert _variants(gross) == expected | {"empty": {None}, TWIN: {None}}
    assert (net.method, gross.method) == (Method.OPERATION, Method.PACKET)
    assert net.share + gross.share == pytest.approx(1)


def test_a_size_without_a_constant_program_goes_without_that_row() -> None:
    for group in _plan(7, 14, 150).groups:
        variants = _variants(group)
        assert variants["helper"] == variants["helper+clear-words"] == {7, 14, 150}
        assert variants["helper+memset-constant"] == {14}


def test_a_size_given_twice_is_measured_once() -> None:
    assert _plan(20, 6, 20).groups == _plan(20, 6).groups
    keys = [subject.key for subject in _plan(20, 6, 20).groups[0].subjects]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("sizes", [SIZES, (7,), (150, 6)])
def test_what_is_planned_is_there(sizes: Sequence[int]) -> None:
    spec = shipped_object("adjust_head")
    for group in _plan(*sizes).groups:
        subjects = {subject.key: subject for subject in group.subjects}
        for subject in subjects.values():
            assert subject.program in spec.programs
            assert set(subject.globals) <= set(spec.globals)
            assert subject.program.startswith("loop_" if subject.operations == 1000 else "once_")
        for planned in group.measures:
            assert planned.subject in subjects
            assert planned.against is None or planned.against in subjects


def test_subjects_have_the_size_of_their_row() -> None:
    for group in _plan(20, 40).groups:
        for subject in group.subjects:
            _, _, size = subject.key.partition("/")
            if size:
                assert subject.globals == {"size": int(size)}
            if subject.program.partition("_")[2].startswith("constant_"):
                assert subject.program.endswith(f"_{size}")


def test_the_twin_is_the_helper_in_a_load_of_its_own() -> None:
    net = _plan(20, 6).groups[0]
    subjects = {subject.key: subject for subject in net.subjects}
    (twin,) = (m for m in net.measures if m.variant == TWIN)
    assert (twin.subject, twin.against) == (TWIN, "helper/20")
    one, other = subjects[twin.subject], subjects["helper/20"]
    assert (one.program, one.globals) == (other.program, other.globals)
    assert one.load_key != other.load_key


@pytest.mark.parametrize("wrong", [0, -1, -200])
def test_a_size_below_one_is_named(wrong: int) -> None:
    with pytest.raises(UsageError, match=f"--sizes has {wrong}; a size is 1 byte or more"):
        _plan(6, wrong)


@pytest.mark.parametrize("limit", [216, 192, 0])
def test_a_size_that_the_kernel_refuses_is_named_with_its_limit(limit: int) -> None:
    refusing = engine(missing={str(size): "refused" for size in range(limit + 1, 5000)})
    with pytest.raises(UsageError, match=f"--sizes has 300, but .* the limit here is {limit}: "):
        SUITE.plan({"sizes": (300, 4000)}, refusing)
    if limit:
        plan = SUITE.plan({"sizes": (limit,)}, refusing)
        assert _variants(plan.groups[0])["helper"] == {limit}
    assert refusing.open_sessions == 0


@pytest.mark.parametrize(
    ("pattern_kept", "says"),
    [
        (1, "this kernel does not clear the bytes"),
        (2, "this kernel clears the bytes"),
        (3, "neither pattern nor zeros came back"),
        (0, "neither pattern nor zeros came back"),
    ],
)
def test_the_probe_says_what_came_back(pattern_kept: int, says: str) -> None:
    (note,) = SUITE.plan({"sizes": (6,)}, engine(pattern_kept=pattern_kept)).notes
    assert says in note


def test_without_the_probe_nothing_is_said_of_it() -> None:
    assert SUITE.plan({"sizes": (6,)}, engine(missing={"probe": "no"})).notes == ()


# --- table


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    return measure(monkeypatch, SUITE, defaults(SUITE), engine(_costs))


def test_the_table_has_every_row_with_its_figures(measured: Measured) -> None:
    (table,) = measured.tables
    expected: list[list[object]] = []
    for size in SIZES:
        before, after = PUBLISHED_NS[size]
        titles = [str(row.cells[1]) for row in table.rows[:3]]
        clears = size / 1000
        expected += [
            [size, titles[0], 7.0, None, 50.0, 50, f"published {before}"],
            [None, titles[1], 9 + clears, 2 + clears, 50.0, 50, f"published {after}"],
            [None, titles[2], 12 + clears, 5 + clears, 50.0, 50, None],
        ]
    assert [shown(row) for row in table.rows] == expected
    assert [row.begins_section for row in table.rows] == [True, False, False] * 4
    assert not any(row.note for row in table.rows)


def test_the_lines_below_it_say_the_same_as_the_results(measured: Measured) -> None:
    notes = measured.tables[0].notes
    assert notes[0] == measured.outcome.notes[0]
    assert "a turn of the empty loop costs 1.00 ns" in notes[1]
    assert "a BPF-to-BPF call 1.50 ns over it" in notes[1]
    assert "the helper against itself +0.000 ns" in notes[1]
    lines = [note for note in notes if note.startswith("run adjust head")]
    assert lines == [f"run adjust head with size {size} cost 50 ns" for size in SIZES]


def test_what_was_published_is_labelled(measured: Measured) -> None:
    for text in (markdown(measured.tables[0]), org(measured.tables[0])):
        heading = next(line for line in text.splitlines() if "program" in line)
        *_, last = (part.strip() for part in heading.strip("| ").split("|"))
        assert "published" in last
        for before, after in PUBLISHED_NS.values():
            assert f" {before} |" in text
            assert f" {after} |" in text


def test_sizes_that_nobody_published_have_no_published_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = measure(monkeypatch, SUITE, {"sizes": (7, 14)}, engine(_costs))
    (table,) = measured.tables
    assert [shown(row)[0] for row in table.rows] == [7, None, 14, None, None]
    assert {shown(row)[-1] for row in table.rows} == {None}


def test_a_row_that_could_not_be_measured_carries_its_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = {"helper+clear-words/20": "clear_words is refused"}
    measured = measure(monkeypatch, SUITE, defaults(SUITE), engine(_costs, missing))
    (table,) = measured.tables
    row = table.rows[5]
    assert row.note == "clear_words is refused"
    assert shown(row)[2:] == [None] * 5
    assert [bool(other.note) for other in table.rows].count(True) == 1
    assert {r.verdict for r in measured.results.all() if r.note} == {NOT_SUPPORTED}
    for text in (markdown(table), org(table)):
        assert "clear_words is refused" in text


def test_a_stopped_run_has_its_rows_as_well() -> None:
    stop = Stop()
    stop.asked = True
    outcome = run_suite(SUITE, defaults(SUITE), engine(), 1.0, stop, lambda _label, _share: None)
    (table,) = SUITE.tables(Results(outcome.results), outcome.notes)
    assert len(table.rows) == 12
    assert {row.note for row in table.rows} == {"stopped before it was measured"}
