"""Stored runs by the installed command: kept as they are measured, listed, shown, called, given
away, taken back and removed."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.command import XDPLAB, assert_clean_error, environment, xdplab
from tests.cli.test_count import PARSER
from tests.store.made import document, result
from xdplab.documents import document_from_json
from xdplab.store.schema import default_path
from xdplab.store.store import Store
from xdplab.views.exports import FIGURE_COLUMNS, SAMPLE_COLUMNS

RUN = ("run", "adjust-head", "--engine", "user", "--time", "0.3", "--sizes", "20")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store that every command here takes."""
    path = tmp_path / "store" / "results.sqlite"
    monkeypatch.setenv("XDPLAB_STORE", str(path))
    return path


def done(*arguments: str, stdin: str | None = None) -> str:
    """What a command that must succeed prints."""
    called = subprocess.run(
        [XDPLAB, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    assert called.returncode == 0, called.stderr
    return called.stdout


def ids() -> list[str]:
    return [row["id"] for row in json.loads(done("list", "--format", "json"))]


def fill(path: Path, tags: Sequence[Sequence[str]]) -> list[str]:
    """Made runs, one for each set of tags; their ids."""
    names = [f"20260101T00000{number}-{number}bcdef" for number in range(len(tags))]
    with Store(path, write=True) as opened:
        for name, called in zip(names, tags, strict=True):
            opened.add(document(name, [result(ns=3.25, size_bytes=6)], tags=called))
    return names


# --- kept as it is measured


def test_a_run_is_kept_as_its_document_and_shown_as_it_was(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    called = xdplab(*RUN, "--json", str(target), "--tag", "before", "--note", "at first")
    assert called.returncode == 0, called.stderr
    written = json.loads(target.read_text())
    assert (written["run"]["tags"], written["run"]["note"]) == (["before"], "at first")
    assert f"xdplab: kept as {written['run']['id']}; next: xdplab show last" in called.stderr
    assert json.loads(done("export", "before")) == written
    shown = done("show")
    assert shown == f"run {written['run']['id']} (before): at first\n\n{called.stdout}"
    # The same tables from the file, without a store.
    assert done("show", str(target)) == shown
    assert done("show", "-", stdin=target.read_text()) == shown


def test_a_count_is_kept_with_its_sources(store: Path) -> None:
    counted = done("count", PARSER)
    shown = done("show", "last")
    assert counted.strip() in shown
    assert "bpf_xdp_load_bytes(ctx, 0, header" in shown
    assert "CPU" not in shown


def test_no_store_keeps_nothing(store: Path) -> None:
    called = xdplab("count", PARSER, "--no-store")
    assert (called.returncode, called.stderr) == (0, "")
    assert not store.exists()
    for option in (("--tag", "x"), ("--note", "x"), ("--store", "x.sqlite")):
        assert_clean_error(xdplab("count", PARSER, "--no-store", *option), 2, "keeps nothing")


def test_another_store_can_be_named(store: Path, tmp_path: Path) -> None:
    other = str(tmp_path / "other.sqlite")
    done("count", PARSER, "--store", other)
    assert not store.exists()
    (row,) = json.loads(done("list", "--format", "json", "--store", other))
    assert row["suites"] == ["count"]


def test_by_default_it_is_in_the_users_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDPLAB_STORE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    done("count", PARSER)
    assert default_path().is_relative_to(tmp_path)
    assert default_path().exists()
    assert len(ids()) == 1


@pytest.mark.parametrize("damage", [b"no database at all" * 99, None])
def test_a_store_of_no_use_costs_its_sentence_and_nothing_else(
    store: Path, damage: bytes | None
) -> None:
    store.parent.mkdir()
    if damage is None:
        store.mkdir()
    else:
        store.write_bytes(damage)
    called = xdplab("count", PARSER)
    assert called.returncode == 0
    assert "XDP_DROP" in called.stdout
    (message,) = called.stderr.splitlines()
    assert message.startswith("xdplab: this run is not kept, but goes on: the store ")
    assert str(store) in message
    # Whoever named it wants it: it is refused before anything is measured.
    for arguments in (("count", PARSER), RUN):
        refused = xdplab(*arguments, "--store", str(store))
        assert_clean_error(refused, 3, str(store))
        assert refused.stdout == ""
        assert "measuring" not in refused.stderr


def test_ctrl_c_keeps_the_run_in_the_store(store: Path) -> None:
    process = _measuring()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    if "kept as" in stderr:
        (run_id,) = ids()
        assert not json.loads(done("export", run_id))["run"]["complete"]
        assert "interrupted before its end" in " ".join(done("show").split())
    else:
        assert "0 figures were measured" in stderr


def _measuring() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [XDPLAB, "run", "adjust-head", "--engine", "user", "--time", "60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("measuring ")
    return process


def test_kill_9_keeps_every_trial_that_was_taken(store: Path) -> None:
    process = _measuring()
    until = time.monotonic() + 60
    seen = 0
    # Another process sees them come.
    while seen < 100 and time.monotonic() < until:
        time.sleep(0.05)
        if store.exists() and ids():
            seen = _trials(json.loads(done("export", "last")))
    process.kill()
    process.communicate(timeout=60)
    document = json.loads(done("export", "last"))
    assert _trials(document) >= seen >= 100
    assert not document["run"]["complete"]
    assert any(row["point"] is not None for row in document["results"])
    assert "interrupted before its end" in " ".join(done("show").split())
    assert "*: not run to its end" in done("list")
    if shutil.which("sqlite3"):
        check = subprocess.run(
            ["sqlite3", str(store), "PRAGMA integrity_check"], capture_output=True, check=True
        )
        assert check.stdout == b"ok\n"


def _trials(document: dict[str, list[dict[str, dict[str, list[object]]]]]) -> int:
    return sum(len(row["samples"]["trials"]) for row in document["results"])


# --- listed, called, removed


def test_the_list_and_what_runs_are_called(store: Path) -> None:
    first, second, third = fill(store, [["before"], [], ["before", "slow"]])
    listed = done("list")
    assert [line.split()[0] for line in listed.splitlines()[3:6]] == [first, second, third]
    assert "6.18" in listed
    assert "The last 1 of 3 runs; --limit 0 lists all." in done("list", "--limit", "1")
    assert second not in done("list", "--tag", "before")
    assert done("tag", "last~1", "after", "--note", "with the patch") == (
        f"run {second} (after): with the patch\n"
    )
    assert done("tag", "2bcd", "--remove", "slow") == f"run {third} (before)\n"
    assert done("tag", "before", "--note", "both") == (
        f"run {first} (before): both\nrun {third} (before): both\n"
    )
    for text_format, words in {"markdown": "| run ", "org": "#+CAPTION: runs in "}.items():
        assert words in done("list", "--format", text_format)
    assert_clean_error(xdplab("tag", "last"), 2, "nothing is to be changed")
    assert_clean_error(xdplab("tag", "last", "a b"), 2, "'a b' is no tag")
    assert_clean_error(xdplab("tag", "nobody", "x"), 2, "no run, tag or file 'nobody'")


def test_removed_runs(store: Path) -> None:
    first, second, third = fill(store, [["before"], [], ["before"]])
    assert_clean_error(xdplab("rm", "last~1", "before"), 2, "'before' names 2 runs", "--all")
    assert ids() == [first, second, third]
    assert done("rm", "last~1") == f"removed {second}\n"
    assert done("rm", "--all", "before", first) == f"removed {first}\nremoved {third}\n"
    assert ids() == []
    assert_clean_error(xdplab("rm", "last"), 2, "no run, tag or file 'last'")


@pytest.mark.parametrize(
    "arguments", [("list",), ("show",), ("export", "last"), ("rm", "last"), ("tag", "last", "x")]
)
def test_where_there_is_no_store_or_a_damaged_one(store: Path, arguments: tuple[str, ...]) -> None:
    called = xdplab(*arguments)
    assert called.returncode in {2, 3}
    assert re.search("no store .* yet|no run, tag or file 'last'", called.stderr)
    store.parent.mkdir(exist_ok=True)
    for name in store.parent.iterdir():
        name.unlink()
    store.write_bytes(os.urandom(9000))
    assert_clean_error(xdplab(*arguments), 3, "is damaged or no store", "Move it away")


# --- given away and taken back


def test_exported_runs_come_back_as_they_were(store: Path, tmp_path: Path) -> None:
    names = fill(store, [["before"], ["after"]])
    target = tmp_path / "both.json"
    done("tag", "before", "--note", "n")
    done("export", "before", "after", "-o", str(target))
    store.unlink()
    assert done("import", str(target), "--tag", "theirs") == (
        f"imported run {names[0]} (before, theirs): n\nimported run {names[1]} (after, theirs)\n"
    )
    assert done("import", "-", stdin=target.read_text()).count("there already: run ") == 2
    first, _ = json.loads(target.read_text())
    first["run"]["tags"].append("theirs")
    assert json.loads(done("export", names[0])) == first
    assert json.loads(done("export", names[1], "before"))[1] == first
    # A file may be exported, too: in another format.
    assert names[1] in done("export", str(target), "--format", "csv")


def test_what_is_no_document_is_not_imported(store: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(document().to_json()))
    bad.write_text('{"schema": 7}')
    assert_clean_error(xdplab("import", str(good), str(bad)), 2, "bad.json", "schema 7")
    assert_clean_error(xdplab("import", str(tmp_path / "none")), 2, "cannot be read: No such file")
    assert not store.exists()


def test_csv_has_every_figure(store: Path) -> None:
    fill(store, [["before"], []])
    rows = list(csv.DictReader(io.StringIO(done("export", "before", "last", "--format", "csv"))))
    assert tuple(rows[0]) == FIGURE_COLUMNS
    assert [row["tags"] for row in rows] == ["before", ""]
    (figure,) = json.loads(done("export", "before"))["results"]
    assert float(rows[0]["point"]) == figure["point"]
    assert float(rows[0]["cycles_high"]) == figure["cycles"]["high"]
    assert rows[0]["parameters"] == "size_bytes=6"


def test_csv_of_samples_has_every_call(store: Path) -> None:
    fill(store, [["before"]])
    rows = list(csv.DictReader(io.StringIO(done("export", "before", "--format", "samples-csv"))))
    assert tuple(rows[0]) == SAMPLE_COLUMNS
    (figure,) = json.loads(done("export", "before"))["results"]
    for of in ("baseline_ns", "variant_ns"):
        assert [int(row["value"]) for row in rows if row["of"] == of] == [
            ns for trial in figure["samples"]["trials"] for ns in trial[of]
        ]
    assert {row["operations_per_call"] for row in rows} == {"1000"}


def test_what_dashboards_read(store: Path) -> None:
    fill(store, [["before"], ["after"]])
    (entry,) = json.loads(done("export", "before", "--format", "benchmark-action"))
    assert set(entry) == {"name", "unit", "value", "range", "extra"}
    assert entry["name"] == "made scripted operation: a over empty size_bytes=6"
    assert (entry["unit"], entry["value"], entry["range"]) == ("ns", 3.25, "± 0.1")
    both = json.loads(done("export", "before", "after", "--format", "benchmark-action"))
    assert [one["name"].split(": ")[0] for one in both] == ["before", "after"]


def test_what_pyperf_demands(store: Path) -> None:
    done(*RUN)
    fill(store, [["twice"], ["twice"]])
    suite = json.loads(done("export", "last~2", "--format", "pyperf"))
    names = [benchmark["metadata"]["name"] for benchmark in suite["benchmarks"]]
    assert len(set(names)) == len(names) > 0
    for benchmark in suite["benchmarks"]:
        assert benchmark["metadata"]["unit"] == "second"
        assert benchmark["metadata"]["inner_loops"] >= 1
        assert all(value > 0 for run in benchmark["runs"] for value in run["values"])
    (benchmark,) = json.loads(done("export", "twice", "--format", "pyperf"))["benchmarks"]
    # A run a load, of both.
    assert [run["values"] for run in benchmark["runs"]] == [[pytest.approx(3.25e-9)]] * 2


def test_pyperf_reads_it(store: Path, tmp_path: Path) -> None:
    pyperf = pytest.importorskip("pyperf", reason="pyperf is not installed")
    done(*RUN)
    target = tmp_path / "pyperf.json"
    done("export", "last", "--format", "pyperf", "-o", str(target))
    suite = pyperf.BenchmarkSuite.load(str(target))
    assert len(suite) > 0
    assert all(benchmark.get_unit() == "second" for benchmark in suite)


def test_a_run_that_was_not_measured_has_no_place_elsewhere(store: Path) -> None:
    done("count", PARSER)
    called = xdplab("export", "last", "--format", "benchmark-action")
    assert "figures have no place in the format benchmark-action" in called.stderr
    insns = {entry["unit"] for entry in json.loads(called.stdout)}
    assert insns == {"insns", "calls"}
    assert document_from_json(json.loads(done("export", "last"))).results
