"""What moved between runs: by how much, judged how, and when not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.cli.command import xdplab
from tests.store.made import document, result
from xdplab.cli.compare import command
from xdplab.comparison import (
    EQUAL,
    NOT_JUDGED,
    Comparison,
    Side,
    compare,
    in_columns,
    worse_than,
)
from xdplab.errors import NotPossibleError, UsageError
from xdplab.records import FUNCTION_INSNS, RESOLVED, TWIN, WITHIN_NOISE, Document, Estimate, Result
from xdplab.stats import rates
from xdplab.store.store import Store
from xdplab.views.comparison import commit_text


def side(*documents: Document, name: str = "a") -> Side:
    return Side(name, documents)


def run(*results: Result) -> Document:
    return document(results=results)


def between(old: Sequence[Result], new: Sequence[Result]) -> Comparison:
    return compare(side(run(*old)), side(run(*new), name="b"))


def counted(insns: float, low: float | None = None) -> Result:
    exact = Estimate(insns, insns if low is None else low, insns, 1.0, 9)
    return replace(
        result(object=f"{insns}.bpf.o"), suite="count", metric="insns", estimate=exact, resolution=0
    )


def test_a_change_beyond_interval_and_twin_is_resolved_and_has_its_direction() -> None:
    (row,) = between([result(ns=3.0)], [result(ns=4.0)]).rows
    assert (row.verdict, row.is_worse) == (RESOLVED, True)
    assert row.change.point == pytest.approx(1.0)
    assert row.percent is not None
    assert row.percent.point == pytest.approx(100 / 3)
    (back,) = between([result(ns=4.0)], [result(ns=3.0)]).rows
    assert (back.verdict, back.is_worse) == (RESOLVED, False)
    assert (back.change.low, back.change.high) == pytest.approx((-row.change.high, -row.change.low))


def test_a_rate_is_worse_where_it_falls() -> None:
    old, new = (replace(result(ns=value), metric="rate_pps") for value in (4.0, 3.0))
    (row,) = between([old], [new]).rows
    assert row.is_worse


@pytest.mark.parametrize(("resolution", "verdict"), [(0.01, RESOLVED), (0.9, WITHIN_NOISE)])
def test_what_a_twin_shows_as_well_is_noise(resolution: float, verdict: str) -> None:
    old, new = (replace(result(ns=value), resolution=resolution) for value in (3.0, 3.5))
    (row,) = between([old], [new]).rows
    assert row.verdict == verdict


def test_many_rows_need_more_to_be_resolved_than_one() -> None:
    def rows(ns: float, count: int) -> list[Result]:
        return [result(ns=ns, size_bytes=size) for size in range(count)]

    # Half widths of 0.1 each make one of 0.14 for the difference, by Student's t 0.17.
    assert {row.verdict for row in between(rows(3.0, 1), rows(3.2, 1)).rows} == {RESOLVED}
    assert {row.verdict for row in between(rows(3.0, 50), rows(3.2, 50)).rows} == {WITHIN_NOISE}


@pytest.mark.parametrize("has_cycles", [True, False])
def test_other_clocks_excuse_what_they_explain(has_cycles: bool) -> None:
    def at(ghz: float, ns: float) -> Document:
        row = result(ns=ns)
        cycles = Estimate(ghz * ns, ghz * (ns - 0.1), ghz * (ns + 0.1), 0.95, 9)
        made = run(replace(row, cycles=cycles if has_cycles else None))
        return replace(made, environment={**made.environment, "clock": {"measured_ghz": ghz}})

    def verdict(ghz: float) -> str:
        (row,) = compare(side(at(4.0, 3.0)), side(at(ghz, 3.6))).rows
        return row.verdict

    assert verdict(4.0) == RESOLVED
    assert verdict(3.2) == WITHIN_NOISE
    found = compare(side(at(4.0, 3.0)), side(at(3.2, 3.6)))
    assert any("clock" in note for note in found.notes)
    assert has_cycles == bool(found.rows[0].note)


def test_runs_are_the_unit_where_there_are_enough() -> None:
    def runs(*ns: float) -> Side:
        return side(*(run(result(ns=value)) for value in ns))

    # Each run alone promises 0.1; runs differ by more.
    (row,) = compare(runs(3.0, 3.6, 3.3), runs(3.5, 4.1, 3.8)).rows
    assert row.verdict == WITHIN_NOISE
    assert row.change.point == pytest.approx(0.5)
    (row,) = compare(runs(3.0, 3.02, 3.01), runs(3.5, 3.52, 3.51)).rows
    assert row.verdict == RESOLVED


def test_counts_are_exact_whatever_their_files_are_called() -> None:
    (row,) = between([counted(41)], [counted(42)]).rows
    assert (row.verdict, row.is_worse, row.change.low) == (RESOLVED, True, 1)
    (row,) = between([counted(41)], [counted(41)]).rows
    assert row.verdict == EQUAL
    (row,) = between([counted(41, low=3)], [counted(41)]).rows
    assert row.verdict == RESOLVED


def test_parts_of_a_figure_do_not_gate_and_rounded_counts_are_equal_within_that() -> None:
    def counted(metric: str, insns: float, **of: str) -> Result:
        exact = Estimate(insns, insns, insns, 1.0, 2)
        return replace(result(), parameters=of, metric=metric, estimate=exact, resolution=1.0)

    def kernel(whole: float, pays: float, ticks: float) -> Document:
        return run(
            counted("insns", whole),
            counted(FUNCTION_INSNS, pays, function="pays"),
            counted(FUNCTION_INSNS, ticks, function="ticks"),
        )

    found = compare(side(kernel(100, 10, 0.1)), side(kernel(90, 20, 0.4), name="b"))
    assert [(row.result.parameters.get("function"), row.verdict) for row in found.rows] == [
        *((None, RESOLVED), ("pays", RESOLVED))
    ]
    assert worse_than(found, 0, "%") == worse_than(found, 0, "insns") == []
    within = compare(side(kernel(100, 1, 1)), side(kernel(101, 1, 1), name="b"))
    assert [row.verdict for row in within.rows] == [EQUAL]


def test_what_only_root_can_read_is_no_difference_where_it_was_not_read() -> None:
    read, unread = (
        replace(document(), environment={"jit": {"enable": 1, "harden": known}})
        for known in (0, None)
    )
    found = compare(side(read), side(unread, name="b"))
    assert [(one.values, one.decides) for one in found.unlike] == [((("0",), ("unknown",)), False)]
    assert all(row.verdict != NOT_JUDGED for row in found.rows)
    hardened = replace(document(), environment={"jit": {"enable": 1, "harden": 2}})
    assert compare(side(read), side(hardened, name="b")).unlike[0].decides


def test_unlike_environments_are_named_and_not_judged_unless_asked() -> None:
    old, new = run(result(ns=3.0)), run(result(ns=4.0))
    new = replace(new, environment={**new.environment, "kernel": {"release": "6.19"}})
    found = compare(side(old), side(new))
    assert [(one.name, one.values) for one in found.unlike] == [("kernel", (("6.18",), ("6.19",)))]
    assert {row.verdict for row in found.rows} == {NOT_JUDGED}
    assert not worse_than(found, 0, "%")
    (row,) = compare(side(old), side(new), across=True).rows
    assert row.verdict == RESOLVED


def test_rows_of_one_side_are_listed_and_twins_are_none() -> None:
    twin = replace(result(), variant=TWIN)
    found = between([result("a"), result("b"), twin], [result("a"), result("c")])
    assert [row.result.variant for row in found.rows] == ["a"]
    assert [[row.variant for row in rows] for rows in found.only] == [["b"], ["c"]]


@pytest.mark.parametrize(
    ("limit", "unit", "count"), [(0.5, "ns", 1), (0.9, "ns", 0), (20, "%", 1), (0.1, "cycles", 0)]
)
def test_a_limit_is_passed_by_all_of_an_interval_in_its_unit(
    limit: float, unit: str, count: int
) -> None:
    assert len(worse_than(between([result(ns=3.0)], [result(ns=4.0)]), limit, unit)) == count
    assert not worse_than(between([result(ns=4.0)], [result(ns=3.0)]), limit, unit)


def test_columns_have_every_row_of_any_side() -> None:
    rows = in_columns([side(run(result("a"))), side(run(result("b"))), side(run(result("a")))])
    assert [[figure is not None for figure in figures] for _, figures in rows] == [
        [True, False, True],
        [False, True, False],
    ]


def test_text_for_a_commit_is_narrow_whatever_the_names() -> None:
    names = [result("x" * 90, size_bytes=3), result("helper", size_bytes=3)]
    text = commit_text(between(names, names))
    assert max(map(len, text.splitlines())) <= 72
    assert "helper" in text


def test_text_for_a_commit_says_the_method_and_leaves_out_source_lines() -> None:
    packet = replace(result("whole"), method="packet")
    line = replace(counted(3), metric="line_insns")
    text = commit_text(
        between(
            [result("part"), packet, line],
            [result("part"), packet, replace(counted(4), metric="line_insns")],
        )
    )
    assert "made (scripted, operation), ns:" in text
    assert "made (scripted, packet), ns:" in text
    assert "count" not in text


def test_only_what_an_excuse_decided_has_one() -> None:
    slower = replace(result(ns=3.01), cycles=result(ns=3.0).cycles)
    (row,) = between([result(ns=3.0)], [slower]).rows
    assert (row.verdict, row.note) == (WITHIN_NOISE, "")
    slower = replace(result(ns=4.0), cycles=result(ns=3.0).cycles)
    (row,) = between([result(ns=3.0)], [slower]).rows
    assert (row.verdict, row.note) == (WITHIN_NOISE, "not in cycles")


# --- the command


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "results.sqlite"
    monkeypatch.setenv("XDPLAB_STORE", str(path))
    with Store(path, write=True) as opened:
        for number, ns in enumerate((3.0, 4.0)):
            name = f"20260101T00000{number}-abcde{number}"
            tag = ("before", "after")[number]
            opened.add(document(name, [result(ns=ns, size_bytes=6)], tags=[tag]))
    return path


def called(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, words, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value or 0), result.stdout


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("text_format", ["terminal", "markdown", "org", "commit", "csv", "json"])
def test_every_format_has_the_figures(text_format: str) -> None:
    status, text = called("before", "after", "--format", text_format)
    assert status == 0
    assert "size" in text
    assert "3.0" in text
    assert "4.0" in text


@pytest.mark.usefixtures("store")
def test_the_gate_fails_for_what_is_worse_and_for_nothing_else() -> None:
    assert called("before", "after", "--fail-above", "2%")[0] == 1
    assert called("before", "after", "--fail-above", "60%")[0] == 0
    assert called("after", "before", "--fail-above", "2%")[0] == 0
    assert called("after", "after", "--fail-above", "0ns")[0] == 0


@pytest.mark.usefixtures("store")
def test_the_exit_status_reaches_the_shell_and_names_the_row() -> None:
    ended = xdplab("compare", "before", "after", "--fail-above", "2%")
    assert ended.returncode == 1
    assert "worse by more than 2 %: made scripted operation: a over empty" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert xdplab("compare", "after", "before", "--fail-above", "2%").returncode == 0


@pytest.mark.usefixtures("store")
def test_a_gate_that_nothing_could_close_is_an_error() -> None:
    with pytest.raises(UsageError, match="judged in insns"):
        called("before", "after", "--fail-above", "1insns")
    with pytest.raises(click.BadParameter, match="no limit"):
        called("before", "after", "--fail-above", "much")


def test_a_gate_does_not_judge_unlike_machines(tmp_path: Path) -> None:
    names = []
    for model, ns in (("one", 3.0), ("other", 9.0)):
        path = tmp_path / f"{model}.json"
        made = replace(run(result(ns=ns)), environment={"cpu": {"model": model}})
        path.write_text(json.dumps(made.to_json()))
        names.append(str(path))
    with pytest.raises(NotPossibleError, match="CPU"):
        called(*names, "--fail-above", "2%")
    status, text = called(*names)
    assert status == 0
    assert text.startswith("the environments differ")
    assert "not judged" in text
    assert called(*names, "--fail-above", "2%", "--across")[0] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON"),
        ('{"schema": 1, "run": {"id"', "no JSON"),
        ('{"schema": 2}', "schema 2"),
        ('{"benchmarks": []}', "has no 'schema'"),
        ("[]", "no run"),
    ],
)
def test_files_that_are_no_documents_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "foreign.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=words) as error:
        called(str(path), str(path))
    assert "foreign.json" in str(error.value)


@pytest.mark.usefixtures("store")
def test_runs_without_a_row_in_common_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(run(replace(result(), suite="another")).to_json()))
    with pytest.raises(UsageError, match="no figure in common"):
        called("before", str(path), "--fail-above", "2%")


@pytest.mark.usefixtures("store")
def test_columns_stand_side_by_side_in_either_unit() -> None:
    for unit, figure in (("own", "3.0"), ("cycles", "12.0")):
        status, text = called("before", "after", "--columns", "--unit", unit)
        assert status == 0
        assert figure in text
    with pytest.raises(UsageError, match="columns have no verdict"):
        called("before", "after", "last", "--fail-above", "1%")


def test_rates_of_traffic_that_varied_are_no_counts() -> None:
    def rate(pps: float) -> Result:
        intervals = Estimate(pps, 0.9 * pps, 1.1 * pps, 1.0, 5)
        return replace(
            result(),
            metric="rate_pps",
            method=rates.METHOD,
            estimate=intervals,
            resolution=0,
            cycles=None,
        )

    (row,) = between([rate(1e6)], [rate(1.01e6)]).rows
    assert row.verdict == WITHIN_NOISE
    (row,) = between([rate(1e6)], [rate(4e6)]).rows
    assert row.verdict == RESOLVED
