"""Where instructions go: windows read, functions named, sums held beside figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.made import document
from xdplab.before_after.tables import pictures, tables
from xdplab.before_after.why import FUNCTION
from xdplab.before_after.why import check as check_profiling
from xdplab.errors import NotPossibleError
from xdplab.guests import profile
from xdplab.guests.console import GuestError
from xdplab.guests.qemu import Machine
from xdplab.records import FUNCTION_INSNS, RESOLVED, Document, Estimate, Result

TEXT = 0xFFFF_FFFF_8100_0000
FUNCTIONS = profile.Functions.of([(TEXT + 64, "later"), (TEXT, "first"), (TEXT, "alias")])


def test_addresses_are_of_the_function_before_them() -> None:
    assert [FUNCTIONS.name(TEXT + at) for at in (0, 63, 64, 500)] == [
        *("first", "first", "later", "later")
    ]
    assert FUNCTIONS.name(TEXT - 1) == profile.KERNEL
    assert FUNCTIONS.name(0xFFFF_FFFF_C000_1234) == profile.BPF
    assert FUNCTIONS.name(0x401000) == profile.USER


@given(
    st.dictionaries(st.integers(0, 200), st.integers(1, 50), min_size=1),
    st.dictionaries(st.integers(0, 200), st.integers(1, 50)),
    st.integers(2, 1000),
    st.lists(st.integers(0, 1), min_size=1, max_size=3),
)
def test_what_begins_a_call_and_a_tick_fall_out(
    run: dict[int, int], call: dict[int, int], repeat: int, ticks: list[int]
) -> None:
    """Windows of `repeat` and twice as many runs, each with a call's own work; the first pair, and
    perhaps others, with a tick's as well."""

    def window(runs: int, tick: int) -> dict[int, int]:
        return {
            TEXT + at: runs * run.get(at, 0) + call.get(at, 0) + (900 * tick if at == 3 else 0)
            for at in range(201)
        }

    pairs = [*ticks, 0]
    windows = [window(times * repeat, tick) for tick in pairs for times in (1, 2)]
    found = profile.per_run(windows, repeat, FUNCTIONS)
    assert sum(found.values()) == pytest.approx(sum(run.values()))


@pytest.mark.parametrize(
    "text",
    ["", "window 0\n", "window 0\nend 2\n", "12 3\nend 0\n", "window 0\nxy 1\nend 1\n", "\0"],
)
def test_what_the_plugin_did_not_end_is_no_profile(text: str) -> None:
    with pytest.raises(GuestError, match="damaged or ends early"):
        profile.read_windows(text)


def test_windows_are_read_in_their_order() -> None:
    assert profile.read_windows("window 0\nff 2\nwindow 1\nend 2\n") == [{255: 2}, {}]


def test_the_plugin_is_compiled_once(tmp_path: Path) -> None:
    first = profile.plugin(folder=tmp_path)
    made = first.stat().st_mtime_ns
    assert first.read_bytes().startswith(b"\x7fELF")
    assert profile.plugin(folder=tmp_path).stat().st_mtime_ns == made
    assert profile.plugin(3, folder=tmp_path) != first
    assert [one.suffix for one in tmp_path.iterdir()] == [".so", ".so"]


def test_without_a_compiler_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotPossibleError, match="needs a C compiler.*apt-get install gcc"):
        profile.plugin(folder=tmp_path / "plugins")


def test_time_has_no_instructions_to_tell_of() -> None:
    with pytest.raises(NotPossibleError, match="--unit insns"):
        check_profiling(Machine(counts=False))


def test_a_qemu_that_wants_another_interface_says_which() -> None:
    said = "requires API version 1, but this QEMU supports only a minimum version of 2"
    assert profile.interface_wanted(GuestError(said)) == 2
    assert profile.interface_wanted(GuestError("no such file")) is None


def made(level: float, functions: dict[str, float]) -> Document:
    """A kernel's run of one program."""

    def result(metric: str, value: float, **parameters: str) -> Result:
        return Result(
            suite="prog",
            engine="guest",
            variant="mine",
            baseline=None,
            parameters={"size_bytes": 20, **parameters},
            metric=metric,
            method="packet",
            estimate=Estimate(value, value, value, 1.0, 1),
            resolution=1.0,
            verdict=RESOLVED,
        )

    parts = [result(FUNCTION_INSNS, value, **{FUNCTION: of}) for of, value in functions.items()]
    return document(results=[result("insns", level), *parts])


def test_functions_that_pay_and_save_stand_by_size_beside_the_rows_difference() -> None:
    before = made(100, {"pays": 10, "saves": 30, "stays": 60, "ticks": 0.1})
    after = made(110, {"pays": 40, "saves": 10, "stays": 60})
    whole, why = tables(before, after)
    assert len(whole.rows) == 1
    assert [row.cells[1] for row in why.rows] == ["pays", "saves"]
    assert [str(row.cells[0]) for row in why.rows] == ["mine, 20 B", ""]
    assert not any("add up to" in note for note in why.notes)
    (picture,) = pictures(before, after, "prog")
    (group,) = picture.groups
    assert [(bar.label, bar.estimate.point) for bar in group.bars if bar.estimate] == [
        *(("pays", 30), ("saves", -20))
    ]


def test_functions_that_do_not_add_up_are_told_of() -> None:
    _, why = tables(made(100, {"one": 100}), made(150, {"one": 110}))
    assert any("add up to +10.0, its figure moved by +50.0" in note for note in why.notes)


def test_one_kernel_alone_has_its_functions_with_shares() -> None:
    _, why = tables(made(100, {"one": 75, "other": 25}))
    assert [row.cells[3] for row in why.rows] == ["75.0", "25.0"]
