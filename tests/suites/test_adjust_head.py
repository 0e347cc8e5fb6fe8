"""adjust-head on the scripted engine: what it plans for which sizes, and its table."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.suites.measured import Measured, defaults, engine, measure, shown
from xdplab.engines.base import Method
from xdplab.errors import UsageError
from xdplab.experiment import Stop, run_suite
from xdplab.program.shipped import shipped_object
from xdplab.records import NOT_SUPPORTED, TOO_FEW_LOADS, TWIN
from xdplab.suites.adjust_head import CLEARS, PUBLISHED_NS, SIZES, SUITE
from xdplab.suites.base import Group, Plan, Results
from xdplab.suites.table import Figure
from xdplab.views.text import markdown, org

_NET_PS = {"helper": 7000, "helper+memset-constant": 9000, "helper+clear-words": 12000}
"""Over the empty loop, for every size; plus a picosecond a byte where bytes are cleared."""

_CLOCK_GHZ = 2.5


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


def test_where_the_data_path_can_clear_the_helper_has_rows_that_do() -> None:
    on = engine(datapath={"clear_head": tuple(CLEARS.values())})
    for group in SUITE.plan({"sizes": (6, 7)}, on).groups:
        variants = _variants(group)
        assert all(variants[variant] == {6, 7} for variant in CLEARS)
        subjects = {subject.key: subject for subject in group.subjects}
        for subject in subjects.values():
            # Nothing but the helper's own row differs in what lies around its program.
            variant, _, size = subject.key.rpartition("/")
            clears = {"clear_head": CLEARS[variant]} if variant in CLEARS else {}
            assert subject.datapath == clears
            if clears:
                helper = subjects[f"helper/{size}"]
                assert (subject.program, subject.globals) == (helper.program, helper.globals)
    for group in _plan(6, 7).groups:
        assert not CLEARS.keys() & _variants(group).keys()


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
        (1, "this kernel does not clear the bytes that it exposes"),
        (2, "this kernel clears the bytes that it exposes"),
        (3, "neither pattern nor zeros came back"),
        (0, "neither pattern nor zeros came back"),
    ],
)
def test_the_probe_says_what_came_back(pattern_kept: int, says: str) -> None:
    on = engine(pattern_kept=pattern_kept)
    on.name = "kernel"
    (note,) = SUITE.plan({"sizes": (6,)}, on).notes
    assert says in note
    # Another engine's answer is no word on the kernel.
    on.name = "user"
    (other,) = SUITE.plan({"sizes": (6,)}, on).notes
    assert says.replace("this kernel", "the user engine's helper pair") in other
    assert "this kernel" not in other


def test_without_the_probe_nothing_is_said_of_it() -> None:
    assert SUITE.plan({"sizes": (6,)}, engine(missing={"probe": "no"})).notes == ()


# --- table


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    return measure(monkeypatch, SUITE, defaults(SUITE), engine(_costs, clock_ghz=_CLOCK_GHZ))


def test_headings_say_what_each_column_is(measured: Measured) -> None:
    (table,) = measured.tables
    assert table.title == "cost of bpf_xdp_adjust_head(ctx, -size), then (ctx, +size)"
    assert [(column.heading, column.unit) for column in table.columns] == [
        ("size", "B"),
        ("program", ""),
        ("cost", "ns"),
        ("cost", "cycles"),
        ("over the helper pair", "ns"),
        ("whole run", "ns"),
        ("published run", "ns"),
    ]


def test_the_table_has_every_row_with_its_figures(measured: Measured) -> None:
    (table,) = measured.tables
    expected: list[list[object]] = []
    for size in SIZES:
        before, after = PUBLISHED_NS[size]
        titles = ("helper pair", "+ clearing, constant memset", "+ clearing, loop of words")
        costs = (7.0, 9 + size / 1000, 12 + size / 1000)
        others = (f"published {before}", f"published {after}", None)
        for number, (title, cost, published) in enumerate(zip(titles, costs, others, strict=True)):
            first = number == 0
            cycles = round(cost * _CLOCK_GHZ, 4)
            over = None if first else round(cost - 7, 4)
            expected.append([size if first else None, title, cost, cycles, over, 50.0, published])
    assert [shown(row) for row in table.rows] == expected
    assert [row.begins_section for row in table.rows] == [True, False, False] * 4
    assert not any(row.note for row in table.rows)
    # Cycles stand beside their nanoseconds, whose interval is theirs.
    assert {cell.bare for row in table.rows if isinstance(cell := row.cells[3], Figure)} == {True}
    assert {cell.bare for row in table.rows if isinstance(cell := row.cells[2], Figure)} == {False}


def test_without_a_clock_the_cycles_are_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    (table,) = measure(monkeypatch, SUITE, defaults(SUITE), engine(_costs)).tables
    assert {row.cells[3] for row in table.rows} == {None}
    assert None not in {row.cells[2] for row in table.rows}


def test_with_too_few_loads_every_figure_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    on = engine(_costs, clock_ghz=_CLOCK_GHZ)
    measured = measure(monkeypatch, SUITE, {"sizes": (20,)}, on, time_s=1e-9)
    assert {result.verdict for result in measured.results.all()} == {TOO_FEW_LOADS}
    codes = [warning.code for warning in measured.outcome.warnings]
    # Of both methods, and nothing is said of ratios that two loads give.
    assert codes == ["too-few-loads"] * 2
    (table,) = measured.tables
    for text in (markdown(table), org(table)):
        rows = [line for line in text.splitlines() if line.startswith("| ") and "(ns)" not in line]
        # Cost and whole run of three rows, and two of them over the helper pair.
        assert [row.count("[too few loads]") for row in rows if "---" not in row] == [2, 3, 3]
        assert "within noise" not in text


def test_the_lines_below_it_say_the_same_as_the_results(measured: Measured) -> None:
    probe, columns, same_run, published, as_printed, *selftest = measured.tables[0].notes
    assert probe == measured.outcome.notes[0]
    for part in ("cost: net of an empty loop", "whole run: a program", "loop of words: for a size"):
        assert part in columns
    # A pair costs 7 ns and the two pairs in a row 14, over an empty loop of 1.
    assert same_run == (
        "In the same run: a turn of the empty loop 1.00 ns, a BPF-to-BPF call 1.50 ns over it, "
        "a second pair of 6 B right behind the first 7.00 ns, "
        "the helper pair against itself +0.000 ns."
    )
    assert "machine unnamed" in published
    assert as_printed == "As the selftest prints it, from the kernel's own whole nanoseconds:"
    assert selftest == [f"run adjust head with size {size} cost 50 ns" for size in SIZES]


def test_a_second_pair_is_what_two_cost_over_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def dearer(method: Method, key: str) -> int:
        return 17_500 if key == "helper-twice" else _costs(method, key)

    measured = measure(monkeypatch, SUITE, {"sizes": (40, 6)}, engine(dearer))
    notes = " ".join(measured.tables[0].notes)
    assert "a second pair of 40 B right behind the first 9.50 ns" in notes
    # Which is noticed as well: 16.5 are no two times 7.
    (warning,) = measured.outcome.warnings
    assert "two of helper 40 in a row cost 2.36 times one" in warning.message


def test_what_was_not_measured_is_not_said_below(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = dict.fromkeys(("helper-twice", "function-call", TWIN, "helper/6"), "not here")
    measured = measure(monkeypatch, SUITE, {"sizes": (6,)}, engine(_costs, missing))
    notes = measured.tables[0].notes
    assert "In the same run: a turn of the empty loop 1.00 ns." in notes
    # No line of the selftest, and no sentence that would introduce one.
    assert not any("selftest prints" in note or note.startswith("run adjust") for note in notes)


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
    # Then nothing is to be explained of them, either.
    assert not any("published" in note for note in table.notes)


def test_the_published_helper_that_clears_stands_beside_one_that_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def costs(method: Method, key: str) -> int:
        clears = key.rpartition("/")[0] in CLEARS and method is Method.OPERATION
        return 10_000 if clears else _costs(method, key)

    on = engine(costs, datapath={"clear_head": tuple(CLEARS.values())})
    (table,) = measure(monkeypatch, SUITE, {"sizes": (200,)}, on).tables
    before, after = PUBLISHED_NS[200]
    rows = [shown(row) for row in table.rows]
    published = {str(row[1]): row[-1] for row in rows if row[-1] is not None}
    assert published == {
        "helper pair": f"published {before}",
        "helper clears, memset call": f"published {after}",
    }
    assert [row[2] for row in rows if "helper clears" in str(row[1])] == [9.0] * len(CLEARS)
    assert len(rows) == 3 + len(CLEARS)


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
