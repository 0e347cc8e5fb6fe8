"""traits: what it plans, its tables on the scripted engine, and that its programs do their work."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.suites.measured import Engine as Scripted
from tests.suites.measured import Measured, defaults, engine, measure, shown
from xdplab import traits
from xdplab.engines.base import Engine, Method, Subject
from xdplab.engines.native import NativeEngine
from xdplab.engines.user import UserEngine
from xdplab.errors import UsageError
from xdplab.native.code import why_not
from xdplab.program import ObjectSpec
from xdplab.program.native import NativeSpec
from xdplab.records import TWIN
from xdplab.suites.base import Group
from xdplab.suites.traits import (
    DEL,
    GET_LAST,
    HEADER,
    INSERT,
    MACHINES,
    MOST_VALUES,
    MOVES,
    PUBLISHED_NS,
    SUITE,
    VALUES,
)
from xdplab.suites.traits_native import CALL, EMPTY, GET, MOVE, NATIVE_VARIANTS, SET
from xdplab.user.machine import UserObject
from xdplab.views.text import markdown, org

AREA_BYTES = 216
DATAPATH = {"trait_move": tuple(MOVES)}


def _costs(_method: Method, key: str) -> int:
    """A thousand turns: empty 400 ns, a call 1,400, get 3,400, a move of n values 400 + 4,000 n."""
    variant, _, rest = key.partition("/")
    match variant:
        case "empty":
            return 400
        case "function-call":
            return 1400
        case "put-header":
            return 1000
        case "insert":
            return 5000
        case "move":
            return 400 + 4000 * int(rest)
        case "head":
            count, _, move = rest.partition("/")
            return 3000 + int(count) * (200 if move == "words" else 400)
    return 3400


def planned(on: Engine, values: Mapping[str, tuple[int, ...]] | None = None) -> list[Group]:
    return list(SUITE.plan(values or defaults(SUITE), on).groups)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    return measure(monkeypatch, SUITE, defaults(SUITE), engine(_costs, clock_ghz=2.0))


def test_everything_is_net_of_its_own_loop() -> None:
    (group,) = planned(engine())
    assert group.method is Method.OPERATION
    subjects = {subject.key: subject for subject in group.subjects}
    assert len(subjects) == len(group.subjects)
    against = {
        measure.variant: measure.against for measure in group.measures if measure.variant != TWIN
    }
    # What inserts or deletes puts the header back in each turn: so does what it is net of.
    assert {against[INSERT], against[DEL]} == {HEADER}
    assert against[EMPTY] is None
    assert {against[name] for name in against if name not in {INSERT, DEL, EMPTY}} == {EMPTY}
    for count in VALUES:
        # A turn sets and deletes.
        assert subjects[f"{MOVE}/{count}"].operations == 2 * subjects[GET].operations
    assert subjects[TWIN].load_key != subjects[GET].load_key
    assert subjects[TWIN].program == subjects[GET].program


def test_the_areas_are_those_that_were_published() -> None:
    (group,) = planned(engine())
    areas = {s.key: traits.decode(s.frame.metadata) for s in group.subjects}
    eight = range(40, 48)
    assert set(areas[f"{MOVE}/8"]) == set(eight)
    assert set(areas[GET]) == set(areas[SET]) == {32, *eight}
    assert set(areas[GET_LAST]) == {*eight, 60}
    assert {len(value) for value in areas[GET].values()} == {8}
    assert {len(value) for value in areas["get-last/mixed"].values()} == {2, 4, 8}
    assert {len(s.frame.metadata) for s in group.subjects} == {AREA_BYTES}


@pytest.mark.parametrize("count", [0, MOST_VALUES + 1, -1])
def test_values_that_do_not_fit_are_refused(count: int) -> None:
    with pytest.raises(UsageError, match=f"--values has {count}; there are 1 to 24"):
        planned(engine(), {"values": (5, count)})
    assert planned(engine(), {"values": (MOST_VALUES,)})


def test_metadata_moves_where_the_engine_has_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    on = engine(_costs, datapath=DATAPATH)
    _, head = planned(on)
    variants = {measure.variant for measure in head.measures}
    assert variants == {"head/memmove", "head/words", TWIN}
    table = measure(monkeypatch, SUITE, {"values": (1, 5)}, on).tables[1]
    # 400 ns a value in two thousand moves, and 200.
    assert [shown(row)[:3] for row in table.rows] == [
        [24, "a memmove call", 0.2],
        [None, "words, inlined", 0.1],
        [56, "a memmove call", 1.0],
        [None, "words, inlined", 0.5],
    ]
    on = engine(_costs, datapath=DATAPATH)
    on.chosen = {"trait_move": "words"}
    (_, head) = planned(on)
    assert {m.variant for m in head.measures} == {"head/words", TWIN}
    table = measure(monkeypatch, SUITE, {"values": (5,)}, on).tables[1]
    assert [shown(row)[:3] for row in table.rows] == [[56, "words, inlined", 0.5]]


def test_costs_are_shown_as_times_a_call_too(measured: Measured) -> None:
    (table,) = measured.tables
    rows = {str(row.cells[0]): shown(row) for row in table.rows}
    # Nanoseconds, cycles at 2 GHz, times a call of 1 ns.
    assert rows["function call"][1:4] == [1.0, 2.0, None]
    assert rows["get"][1:4] == [3.0, 6.0, 3.0]
    # Over putting the header back, which takes 1 ns with its turn.
    assert rows["set, in front of 8"][1:4] == [4.0, 8.0, 4.0]
    # Half a turn.
    assert rows["move in front of 5"][1:4] == [10.0, 20.0, 10.0]
    assert rows["move in front of 11"][1:4] == [22.0, 44.0, 22.0]
    assert len(rows) == len(table.rows) == 10 + len(VALUES)


def test_notes_say_what_the_figures_hold(measured: Measured) -> None:
    _, columns, same_run, with_loop, published = measured.tables[0].notes
    for part in ("cost: net of", "move: mean of a set and a del", "times a call: over this run's"):
        assert part in columns
    assert same_run == (
        "In the same run: a turn of the empty loop 0.40 ns, get against itself +0.000 ns."
    )
    # 3.4 to 1.4; 16 + 0.2 a move in front of 8.
    assert (
        with_loop
        == "With the loop's turn on both sides, times a call: get 2.4, set 2.4, move 11.6."
    )
    assert published.startswith("published: such a store in a kernel")


def test_published_figures_stand_beside_what_was_published(measured: Measured) -> None:
    (table,) = measured.tables
    cells = {str(row.cells[0]): shown(row)[4:] for row in table.rows}
    assert cells["function call"] == ["published 1.319", "published 1.359", "published 5.703"]
    assert cells["get"] == [
        "published 5.530, 4.2 calls",
        "published 3.901, 2.9 calls",
        "published 9.188, 1.6 calls",
    ]
    assert cells["move in front of 8"][0] == "published 14.245, 10.8 calls"
    assert sum(any(row) for row in cells.values()) == len(PUBLISHED_NS)
    for text in (markdown(table), org(table)):
        heading = next(line for line in text.splitlines() if "operation" in line)
        assert all(f"published, {machine} (ns)" in heading for machine in MACHINES)


def test_a_row_that_could_not_be_measured_carries_its_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = {"indirect-call": "this kernel lacks bpf_loop", CALL: "no calls"}
    (table,) = measure(monkeypatch, SUITE, defaults(SUITE), engine(_costs, missing)).tables
    notes = {str(row.cells[0]): row.note for row in table.rows if row.note}
    assert notes == {"indirect call": "this kernel lacks bpf_loop", "function call": "no calls"}
    # Without a call there is nothing to compare with.
    assert {shown(row)[3] for row in table.rows} == {None}


def native() -> Scripted:
    """Its plan asks no more of an engine than its name."""
    on = engine(lambda _method, key: 5000 if key.startswith("move") else 1000)
    on.name = "native"
    return on


def test_native_rows_are_there_for_every_mitigation(monkeypatch: pytest.MonkeyPatch) -> None:
    (group,) = planned(native())
    codes = {s.object for s in group.subjects}
    assert codes == {NativeSpec("traits", code) for code in NATIVE_VARIANTS}
    for one in group.measures:
        if one.variant != TWIN:
            # Net of the same mitigation's loop.
            assert one.against == f"{EMPTY}/{one.parameters['code']}"
    (table,) = measure(monkeypatch, SUITE, {"values": (1, 8)}, native()).tables
    titles = [str(row.cells[0]) for row in table.rows]
    assert titles[:5] == [
        "function call",
        "indirect call",
        "get",
        "set, overwriting",
        "move, in front of 1",
    ]
    assert titles[-1] == "move in a kernel, words inlined, in front of 8"
    # 4,000 ns in two thousand moves.
    assert shown(table.rows[-1])[1:] == [2.0] * len(NATIVE_VARIANTS)
    assert [column.heading for column in table.columns[1:]] == [c.name for c in NATIVE_VARIANTS]


def test_mitigations_that_are_not_there_leave_their_column_blank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (group,) = planned(native())
    missing = {s.key: "not here" for s in group.subjects if "retpoline" in s.object.name}
    on = native()
    on.missing = missing
    (table,) = measure(monkeypatch, SUITE, defaults(SUITE), on).tables
    assert {tuple(shown(row)[4:]) for row in table.rows} == {(None, None)}
    assert table.notes[-1] == "Blank at retpoline, return-thunk+retpoline: not here."


# --- the programs themselves


def check_left_behind(subject: Subject, area: bytes) -> None:
    """A program leaves what it found, or what costs the same again."""
    before, after = traits.decode(subject.frame.metadata), traits.decode(area)
    written = {32: 0x1122334455667788, 60: 0x1122334455667788}
    changed = {key for key in before | after if before.get(key) != after.get(key)}
    allowed = {"set": {32}, "set-last": {60}, "insert": {32}, "del": {32}}.get(subject.key, set())
    assert changed == allowed, subject.key
    for key in changed & after.keys():
        assert int.from_bytes(after[key], "little") == written[key]


def test_programs_in_user_space_do_what_their_rows_say() -> None:
    group, head = planned(UserEngine())
    for one in (group, head):
        with UserEngine().open(one.subjects, Method.OPERATION) as session:
            assert session.missing == {}
    for subject in group.subjects:
        assert isinstance(subject.object, ObjectSpec)
        with UserObject(subject.object) as owner:
            for name, value in subject.globals.items():
                owner.write(name, value)
            outcome = owner.program(subject.program).run(subject.frame)
        # Inserting moves what is behind the key in each turn, and the header is put back.
        if subject.key not in {INSERT, DEL}:
            check_left_behind(subject, outcome.metadata)


@pytest.mark.needs_kernel
def test_programs_in_the_kernel_do_what_their_rows_say() -> None:
    from xdplab.engines.kernel import KernelEngine

    (group,) = planned(KernelEngine())
    with KernelEngine().open(group.subjects, Method.OPERATION) as session:
        assert session.missing == {}
        for subject in group.subjects:
            if subject.key not in {INSERT, DEL}:
                check_left_behind(subject, session.run(subject.key).data[:AREA_BYTES])


def test_native_functions_do_what_their_rows_say() -> None:
    (group,) = planned(NativeEngine())
    here = [
        subject
        for subject in group.subjects
        if isinstance(subject.object, NativeSpec) and not why_not(subject.object.variant)
    ]
    with NativeEngine().open(here, Method.OPERATION) as session:
        assert session.missing == {}
        for subject in here:
            before, after = (
                traits.decode(data) for data in (subject.frame.data, session.run(subject.key).data)
            )
            if subject.key.startswith(SET):
                assert int.from_bytes(after.pop(32), "little") == 0x1122334455667788
                del before[32]
            assert after == before, subject.key
