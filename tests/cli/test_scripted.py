"""`xdplab run` in this process, on the scripted engine: what a run's course makes of its output."""

from __future__ import annotations

import itertools
import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from xdplab.cli.run import command
from xdplab.documents import document_from_json
from xdplab.engines.scripted import ScriptedEngine

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _sigint_is_pythons_own() -> Iterator[None]:
    """Whoever runs the tests may ignore SIGINT, as a shell's background jobs do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls the command on an engine; a Ctrl-C comes in the midst of call `at_call`."""

    def called(
        *arguments: str,
        at_call: int | None = None,
        cpu: int | None = None,
        clock_ghz: float | None = None,
    ) -> Result:
        calls = 0

        def script(_key: str, _call: int) -> int:
            nonlocal calls
            if calls == at_call:
                signal.raise_signal(signal.SIGINT)
            calls += 1
            return 1000

        engine = ScriptedEngine(
            script, globals={"pattern_kept": 1}, name="user", cpu=cpu, clock=lambda: clock_ghz
        )
        monkeypatch.setattr("xdplab.cli.run._engines", lambda _names: [engine])
        # Every look at this clock takes a second: two rounds, however fast the machine.
        seconds = itertools.count()
        clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=lambda _s: None)
        monkeypatch.setattr("xdplab.experiment.time", clock)
        result = CliRunner().invoke(command, ["--time", "1", *arguments], standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        assert engine.open_sessions == 0
        return result

    return called


@pytest.mark.parametrize("text_format", ["terminal", "markdown", "org"])
def test_a_run_that_measured_nothing_shows_no_table(run: Run, text_format: str) -> None:
    result = run("adjust-head", "--format", text_format, at_call=0)
    assert result.return_value == 130
    assert result.stdout == ""
    assert "stopped early; 0 figures were measured and kept" in result.stderr


def test_its_document_is_there_all_the_same(run: Run) -> None:
    result = run("--json", "-", at_call=0)
    assert result.return_value == 130
    document = document_from_json(json.loads(result.stdout))
    assert not document.run.complete
    assert {row.estimate for row in document.results} == {None}
    # The second suite was not begun.
    assert {row.suite for row in document.results} == {"adjust-head"}


def test_a_run_that_measured_something_shows_its_table(run: Run) -> None:
    # As org: its lines are not folded.
    result = run("adjust-head", "--format", "org", at_call=300)
    assert result.return_value == 130
    assert "cost of bpf_xdp_adjust_head" in result.stdout
    assert "stopped before it was measured" in result.stdout
    assert "interrupted before its end" in result.stdout
    assert "stopped early" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--sizes", "6", "--frame-sizes", "64"),
        ("adjust-head", "--sizes", "6"),
        ("packet-access", "--frame-sizes", "64"),
        ("packet-access", "adjust-head", "--frame-sizes", "64", "--sizes", "6"),
    ],
)
def test_options_of_suites_that_run_are_taken(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments, "--json", "-")
    assert result.return_value == 0
    results = document_from_json(json.loads(result.stdout)).results
    for suite, parameter, size in (
        ("adjust-head", "size_bytes", 6),
        ("packet-access", "frame_bytes", 64),
    ):
        own = [row.parameters for row in results if row.suite == suite]
        assert {parameters[parameter] for parameters in own if parameter in parameters} <= {size}


def test_the_cpu_of_the_run_is_in_its_document_and_below_its_tables(run: Run) -> None:
    result = run("adjust-head", "--json", "-", cpu=7)
    assert document_from_json(json.loads(result.stdout)).environment["cpu"]["pinned"] == 7
    assert "engine user on CPU 7," in run("adjust-head", "--format", "org", cpu=7).stdout
    # An engine that is pinned to none says so.
    result = run("adjust-head", "--json", "-")
    assert document_from_json(json.loads(result.stdout)).environment["cpu"]["pinned"] is None
    assert "engine user, " in run("adjust-head", "--format", "org").stdout


def test_the_clock_of_each_trial_is_in_the_document_and_its_median_in_the_environment(
    run: Run,
) -> None:
    result = run("adjust-head", "--json", "-", clock_ghz=2.5)
    document = document_from_json(json.loads(result.stdout))
    assert document.environment["clock"]["measured_ghz"] == 2.5
    for row in document.results:
        assert row.estimate is not None
        assert row.cycles is not None
        assert row.cycles.point == 2.5 * row.estimate.point
        assert {trial.clock_ghz for trial in row.trials} == {2.5}
    shown = run("adjust-head", clock_ghz=2.5).stdout
    assert "2.50 GHz measured" in shown


def test_too_few_loads_are_told_with_their_remedy(run: Run) -> None:
    shown = run("adjust-head").stdout
    assert "[too few loads]" in shown
    assert "Warning [too-few-loads]: " in shown
    assert "give --time more seconds" in " ".join(shown.split())


def test_a_picture_of_what_was_measured_until_ctrl_c(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    result = run("adjust-head", "packet-access", "--plot", str(folder), at_call=300)
    assert result.return_value == 130
    # The second suite never began: it has no picture, and no empty one either.
    assert [path.name for path in folder.iterdir()] == ["adjust-head.svg"]
    # The run below the picture is folded wherever the line ends.
    words = re.findall(r">([^<>]+)</text>", (folder / "adjust-head.svg").read_text())
    assert "interrupted before its end" in " ".join(words)


def test_where_nothing_was_measured_nothing_is_drawn(run: Run, tmp_path: Path) -> None:
    assert run("adjust-head", "--plot", f"{tmp_path}/x.svg", at_call=0).return_value == 130
    assert not (tmp_path / "x.svg").exists()
