"""`xdplab run --datapath`, and suites that do not run on every engine."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from tests.cli.command import assert_clean_error, xdplab
from xdplab.cli.run import command
from xdplab.documents import document_from_json
from xdplab.engines import live_ways
from xdplab.engines.scripted import ScriptedEngine
from xdplab.records import Document
from xdplab.suites.base import find_suites
from xdplab.user.datapath import CHOOSABLE, DATAPATH

USAGE = 2


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("clear_head", "must be NAME=VALUE"),
        (
            "clear_tail=memset",
            "'clear_tail', which no suite leaves open. There are: "
            "clear_head (adjust-head) is none, memset",
        ),
        ("clear_head=magic", "clear_head can be none, memset,"),
        ("napi=sideways", "belongs to veth, which does not run here"),
        ("receive=veth-model", "'receive', which no suite leaves open. There are: clear_head"),
        ("=", "'', which no suite leaves open"),
    ],
)
def test_what_cannot_be_chosen_is_named(choice: str, words: str) -> None:
    result = xdplab("run", "adjust-head", "--engine", "user", "--datapath", choice)
    assert_clean_error(result, USAGE, words)
    assert result.stdout == ""


def test_of_each_name_a_run_has_one() -> None:
    for again in ("memset", "words"):
        result = xdplab(
            *("run", "adjust-head", "--engine", "user"),
            *("--datapath", "clear_head=memset", "--datapath", f"clear_head={again}"),
        )
        assert_clean_error(result, USAGE, "--datapath has clear_head twice", "Leave one out")


@pytest.mark.parametrize(
    ("suites", "choice", "words"),
    [
        (("packet-access",), "clear_head=words", "belongs to adjust-head, which does not run here"),
        (("adjust-head",), "skb_reuse=off", "belongs to veth, which does not run here"),
        # Even where it says what holds anyway.
        (("packet-access", "veth"), "clear_head=none", "Add adjust-head or leave the option"),
    ],
)
def test_a_choice_that_no_suite_of_the_run_uses_was_meant_for_another(
    suites: tuple[str, ...], choice: str, words: str
) -> None:
    assert_clean_error(xdplab("run", *suites, "--datapath", choice), USAGE, words)


def test_help_errors_suites_and_engine_name_the_same() -> None:
    named = {name for suite in find_suites().values() for name in suite.datapath}
    assert named
    assert named <= {*CHOOSABLE, *live_ways.CHOOSABLE}
    (option,) = (one for one in command.params if one.name == "datapath")
    assert isinstance(option, click.Option)
    assert option.help is not None
    for name in (*DATAPATH, *live_ways.CHOOSABLE):
        assert (name in option.help) == (name in named)


def test_the_kernel_engine_alone_has_no_data_path_to_choose() -> None:
    result = xdplab("run", "--engine", "kernel", "--datapath", "clear_head=memset")
    assert_clean_error(result, USAGE, "--datapath", "--engine kernel")


def test_a_value_of_live_paths_is_looked_at_before_anything_runs() -> None:
    result = xdplab("run", "veth", "--datapath", "napi=sideways")
    assert_clean_error(result, USAGE, "napi=sideways", "inline or threaded")


def test_a_suite_is_refused_where_it_was_asked_for_by_name_and_cannot_run() -> None:
    result = xdplab("run", "veth", "--engine", "kernel")
    assert_clean_error(result, USAGE, "veth does not run on the kernel engine", "live, user")


def test_a_choice_is_in_every_result_and_in_the_probe(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    result = xdplab(
        *("run", "adjust-head", "--engine", "user", "--sizes", "6", "--time", "1"),
        *("--datapath", "clear_head=words"),
        *("--json", str(target), "--format", "markdown"),
    )
    assert result.returncode == 0, result.stderr
    document = document_from_json(json.loads(target.read_text()))
    assert document.results
    for row in document.results:
        assert row.parameters["datapath.clear_head"] == "words"
    # Tables find their figures all the same, and the probe sees what was chosen.
    assert "clears the bytes that it exposes" in result.stdout
    assert "not supported" not in result.stdout
    helper = next(line for line in result.stdout.splitlines() if "| helper pair" in line)
    assert any(character.isdigit() for character in helper.split("|")[3])


def test_without_a_choice_nothing_is_said(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    xdplab(
        *("run", "adjust-head", "--engine", "user", "--sizes", "6", "--time", "1"),
        *("--json", str(target)),
    )
    results = document_from_json(json.loads(target.read_text())).results
    assert results
    assert not any(name.startswith("datapath") for row in results for name in row.parameters)


def test_the_model_runs_where_the_user_engine_is_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    result = xdplab("run", "veth", "--engine", "user", "--time", "1", "--json", str(target))
    assert result.returncode == 0, result.stderr
    assert "measuring on the user-space engine" not in result.stderr
    assert "a model of veth's receive path" in result.stdout
    document = document_from_json(json.loads(target.read_text()))
    assert document.run.complete
    assert {(row.engine, row.parameters["model"]) for row in document.results} == {("user", "veth")}


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Engines that are named as the real ones and follow a script; what was asked for."""
    asked: list[list[str]] = []

    def engines(names: list[str]) -> list[ScriptedEngine]:
        asked.append(names)
        return [
            ScriptedEngine(lambda _key, _call: 1000, globals={"pattern_kept": 1}, name=name)
            for name in names
        ]

    monkeypatch.setattr("xdplab.cli.run._engines", engines)
    seconds = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=lambda _s: None)
    monkeypatch.setattr("xdplab.experiment.time", clock)
    return asked


def _document(*arguments: str) -> Document:
    words = ["--time", "1", "--json", "-", *arguments]
    result = CliRunner().invoke(command, words, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == 0
    return document_from_json(json.loads(result.stdout))


def test_a_suite_is_measured_where_it_runs_and_nowhere_else(scripted: list[list[str]]) -> None:
    document = _document("adjust-head", "veth")
    pairs = {(row.suite, row.engine) for row in document.results}
    assert pairs == {
        *(("adjust-head", engine) for engine in ("kernel", "user")),
        *(("veth", engine) for engine in ("live", "user")),
    }
    assert document.run.complete
    assert scripted == [["kernel", "live", "user"]]


def test_without_names_the_kernel_engine_has_its_suites_alone(scripted: list[list[str]]) -> None:
    document = _document("--engine", "kernel")
    assert {"adjust-head", "packet-access"} <= {row.suite for row in document.results}
    assert all(find_suites()[row.suite].runs_on("kernel") for row in document.results)
    assert document.run.complete
    assert scripted == [["kernel"]]


def test_the_kernel_is_not_asked_for_where_no_suite_needs_it(scripted: list[list[str]]) -> None:
    assert _document("veth", "--engine", "user").run.complete
    assert scripted == [["user"]]
