"""From recorded consoles to the table of a patch: no QEMU, the figures of two real kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.guests.recorded import adjust_head, console
from xdplab.before_after.document import document
from xdplab.before_after.plan import OwnProgram, choose, plan
from xdplab.before_after.results import check_equal, moved, results_of
from xdplab.before_after.run import KernelRun, run
from xdplab.before_after.tables import controls_moved, tables
from xdplab.documents import document_from_json
from xdplab.errors import UsageError
from xdplab.guests.console import GuestError, GuestReport, RowReport, read_console
from xdplab.guests.qemu import Machine
from xdplab.packets.frame import udp_frame
from xdplab.program.shipped import shipped_object
from xdplab.records import TWIN, Document, Result, RunInfo
from xdplab.suites.table import Figure, Published, Table

INFO = RunInfo("id", "2026-01-01T00:00:00+00:00", 1.0, ("xdplab",), "0")
PLANNED = adjust_head()


def report(name: str) -> GuestReport:
    """What the recorded kernel said."""
    return read_console(console(name, PLANNED), name)


def of_kernel(name: str, label: str = "A") -> Document:
    """The document of the recorded kernel, of two equal boots."""
    kernel = KernelRun(label, Path(name), [report(name), report(name)])
    return document(INFO, kernel, PLANNED, Machine(), "QEMU")


def find(results: Sequence[Result], variant: str, method: str, size: int | None = None) -> Result:
    """The result of a variant: gross by the packet method, net by that of operations."""
    return next(
        r
        for r in results
        if r.variant == variant
        and r.method == method
        and (r.baseline is None) == (method == "packet")
        and r.parameters.get("size_bytes") == size
    )


def cells(table: Table, start: str) -> list[object]:
    """Points of the row that begins so, text as it is."""
    row = next(row for row in table.rows if str(row.cells[0]).startswith(start))
    return [c.estimate.point if isinstance(c, Figure) else c for c in row.cells]


@pytest.mark.parametrize("size", [6, 200])
def test_a_patch_costs_the_same_in_whole_runs_and_in_loops(size: int) -> None:
    before, after = of_kernel("before").results, of_kernel("after").results
    differences = []
    for method in ("packet", "operation"):
        difference = moved(
            find(before, "helper", method, size), find(after, "helper", method, size)
        )
        assert difference is not None
        differences.append(difference.point)
    assert abs(differences[0] - differences[1]) <= 1
    # As two prototypes had it: a memset call, and eight bytes a turn.
    assert abs(differences[0] - {6: 56, 200: 77}[size]) <= 3


def test_tables_have_the_difference_the_control_and_what_was_published() -> None:
    whole, loops = tables(of_kernel("before"), of_kernel("after", "B"))
    assert cells(whole, "empty (control)")[1:5] == [83, 83, "equal", None]
    _, before, after, difference, percent, published = cells(whole, "helper, 6 B")
    assert isinstance(before, float)
    assert isinstance(after, float)
    assert difference == after - before > 1
    assert percent == pytest.approx(100 * (after - before) / before)
    assert published is not None
    assert any("A: " in note and "does not clear" in note for note in whole.notes)
    assert any("B: " in note and "clears the bytes" in note for note in whole.notes)
    assert any("not time" in note for note in whole.notes)
    assert cells(loops, "function-call")[3] == "equal"
    refused = next(r for r in loops.rows if str(r.cells[0]).startswith("helper+clear-words"))
    assert "verifier refuses" in refused.note


def test_one_kernel_alone_has_its_figures_and_no_difference() -> None:
    whole, _ = tables(of_kernel("before"))
    assert [column.heading for column in whole.columns] == ["program", "per run", "published"]
    assert cells(whole, "empty")[1] == 83


def test_a_document_comes_back_from_json_with_the_same_table() -> None:
    one = of_kernel("after")
    assert tables(document_from_json(one.to_json())) == tables(one)
    assert one.environment["guest"]["boots"] == 2
    assert one.environment["kernel"]["release"].startswith("6.12")


def test_a_twin_costs_nothing_over_itself() -> None:
    twins = [r for r in of_kernel("before").results if r.variant == TWIN and r.baseline]
    assert len(twins) == 2
    assert all(r.estimate is not None and r.estimate.point == 0 for r in twins)


def altered(one: GuestReport, key: tuple[str, str], change: int) -> GuestReport:
    """The report with one row's counts moved."""
    number = PLANNED.bundle.rows[key].number
    old = one.rows[number]
    ns = tuple(value + change for value in old.ns)
    return replace(one, rows={**one.rows, number: RowReport(ns, old.retval)})


def test_boots_that_do_not_agree_are_an_error() -> None:
    first = report("before")
    check_equal([first, first], PLANNED, "A")
    other = altered(first, ("adjust-head/1", "helper/6"), 1)
    with pytest.raises(GuestError, match="do not agree on helper/6.*boot 3"):
        check_equal([first, first, other], PLANNED, "A")


def test_a_control_that_moves_is_a_warning_and_rounding_is_not() -> None:
    before = results_of(PLANNED, [report("before")], counts=True)
    for change, count in ((0, 0), (1, 0), (2, 1)):
        moved_report = altered(report("before"), ("adjust-head/1", "empty"), change)
        after = results_of(PLANNED, [moved_report], counts=True)
        assert len(list(controls_moved(before, after))) == count


def test_time_has_an_interval_over_boots_and_noise_is_none() -> None:
    """Under KVM: boots that differ, in nanoseconds."""
    key = ("adjust-head/1", "helper/6")

    def timed(level: int) -> list[Result]:
        boots = [altered(report("before"), key, level + jitter) for jitter in (0, 1, 2, 3, 4, 2)]
        return results_of(PLANNED, boots, counts=False)

    before, same, dear = timed(0), timed(1), timed(40)
    row = find(before, "helper", "packet", 6)
    assert row.metric == "gross_ns"
    assert row.estimate is not None
    assert row.estimate.low < row.estimate.point < row.estimate.high
    whole, _ = tables(
        replace(of_kernel("before"), results=tuple(before)),
        replace(of_kernel("before"), results=tuple(same)),
    )
    noise = next(r for r in whole.rows if str(r.cells[0]) == "helper, 6 B").cells[3]
    assert isinstance(noise, Figure)
    assert not noise.resolved
    whole, _ = tables(
        replace(of_kernel("before"), results=tuple(before)),
        replace(of_kernel("before"), results=tuple(dear)),
    )
    told = next(r for r in whole.rows if str(r.cells[0]) == "helper, 6 B").cells[3]
    assert isinstance(told, Figure)
    assert told.resolved


def booted(log: list[str]) -> Callable[..., str]:
    """A stand-in for QEMU that gives recorded consoles, by kernel."""

    def boot(kernel: Path, _bundle: bytes, _machine: Machine, _stop: Callable[[], bool]) -> str:
        log.append(kernel.name)
        return console(kernel.name, PLANNED)

    return boot


def test_kernels_boot_in_turn_and_a_stop_keeps_whole_rounds() -> None:
    log: list[str] = []
    kernels = [Path("before"), Path("after")]
    runs = run(kernels, PLANNED, Machine(), 2, lambda: False, lambda _l, _s: None, booted(log))
    assert log == ["before", "after", "before", "after"]
    assert [len(one.reports) for one in runs] == [2, 2]

    def stopping(kernel: Path, *_: object) -> str:
        log.append(kernel.name)
        if len(log) == 4:
            raise KeyboardInterrupt
        return console(kernel.name, PLANNED)

    log.clear()
    runs = run(kernels, PLANNED, Machine(), 5, lambda: True, lambda _l, _s: None, stopping)
    assert [len(one.reports) for one in runs] == [1, 1]


def test_ones_own_program_is_planned_on_each_frame_beside_an_empty_one() -> None:
    frames = {
        name: udp_frame(*name.split(":")[:1], int(name[5:])) for name in ("ipv4:64", "ipv4:99")
    }
    own = OwnProgram(shipped_object("packet_access"), "parse_ip_dpa", frames)
    planned = plan([], [own])
    assert [key for _, key in planned.bundle.rows] == ["empty", "0/ipv4:64", "0/ipv4:99"]
    assert not planned.bundle.missing


def test_what_others_published_stands_beside_the_row_that_it_is_of() -> None:
    adjust, access, traits, _ = choose(["adjust-head", "packet-access", "traits", "calls"])
    pair = find(of_kernel("before").results, "helper", "packet", 200)
    assert adjust.published(pair) == Published("56 -> 66 ns")
    assert adjust.published(replace(pair, variant="empty")) is None
    small = replace(pair, variant="no-touch", parameters={"packet": "ipv4", "frame_bytes": 64})
    assert access.published(small) == Published("37.8 ns")
    large = replace(small, parameters={"packet": "ipv4", "frame_bytes": 1500})
    assert access.published(large) is None
    call = replace(pair, variant="function-call", parameters={}, baseline="empty")
    assert traits.published(call) == Published("1.319 / 1.359 / 5.703 ns")


def test_every_suite_is_planned_and_what_is_missing_says_why() -> None:
    suites = [(s, {o.name: o.default for o in s.options}) for s in choose(["traits", "calls"])]
    planned = plan(suites, [])
    assert len(planned.bundle.rows) > 80
    assert {key for _, key in planned.bundle.missing} == {"redirect-map", "fib-lookup"}
    with pytest.raises(UsageError, match="veth"):
        choose(["veth"])
