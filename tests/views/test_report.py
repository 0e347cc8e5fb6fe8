"""A suite's tables with the run beneath, as they go to standard output."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.tables import EXAMPLE
from xdplab.records import Document, Estimate, Result, RunInfo, Warning
from xdplab.views import environment
from xdplab.views.report import FORMATS, Report

_COMMAND = ("xdplab", "run", "packet-access", "--frame-sizes", "64,1500", "--json", "/tmp/x.json")
_WARNING = Warning(
    "governor", "the clock follows the load", "cpupower frequency-set -g performance"
)
_RESULT = Result(
    suite="s",
    engine="kernel",
    variant="v",
    baseline="b",
    parameters={},
    metric="cost_ns",
    method="operation",
    estimate=Estimate(1.0, 0.9, 1.1, 0.95, 8),
    resolution=0.01,
    verdict="resolved",
)
_DOCUMENT = Document(
    RunInfo("id", "2025-01-01T00:00:00Z", 75.0, _COMMAND, "0.1.0"),
    {"cpu": {"model": "Xeon E5", "logical": 12, "pinned": 11}},
    (_RESULT,),
    (_WARNING,),
)


def _shown(
    capsys: pytest.CaptureFixture[str], text_format: str, document: Document = _DOCUMENT
) -> str:
    Report(text_format).show([EXAMPLE], document, "kernel", {})
    return capsys.readouterr().out


@pytest.mark.parametrize("text_format", FORMATS)
def test_the_run_stands_below_its_tables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text_format: str
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    shown = _shown(capsys, text_format)
    at = [
        shown.index(word) for word in ("a pair of calls", "CPU: ", "Kernel: ", "Run: ", "Warning")
    ]
    assert at == sorted(at)
    for line in environment.lines(_DOCUMENT):
        assert line in shown.splitlines() or f"- {line}" in shown.splitlines()


def test_the_title_says_which_engine_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert "a pair of calls, in this kernel" in _shown(capsys, "markdown")
    Report("markdown").show([EXAMPLE], _DOCUMENT, "user", {})
    assert "a pair of calls, on the user-space engine" in capsys.readouterr().out
    Report("markdown").show([EXAMPLE], _DOCUMENT, "scripted", {})
    assert "a pair of calls, scripted" in capsys.readouterr().out


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_lines_below_are_as_wide_as_the_console(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = _shown(capsys, "terminal")
    footer = shown[shown.index("CPU: ") :].splitlines()
    assert max(map(len, footer)) <= width
    # A line's further parts are indented, so that each line's begin can be seen.
    begins = [line for line in footer if line and not line.startswith("  ")]
    assert [line.partition(":")[0] for line in begins] == [
        "CPU",
        "Kernel",
        "Run",
        "Warning [governor]",
    ]
    # Broken at blanks alone: every word of it is whole.
    words = [word for line in environment.lines(_DOCUMENT) for word in line.split()]
    assert " ".join(footer).split() == words


_words = st.text(st.sampled_from("ab-/.,"), min_size=1, max_size=60)


@given(st.lists(_words, min_size=1, max_size=12), st.integers(1, 120))
def test_no_word_is_ever_broken(words: list[str], width: int) -> None:
    lines = Report._wrapped(" ".join(words), width)
    assert " ".join(lines).split() == words
    for line in lines:
        assert len(line) <= max(width, 20) or len(line.split()) == 1
    assert not any(re.match(r"\s", line) for line in lines[:1])


@pytest.mark.parametrize("text_format", FORMATS)
def test_where_standard_output_is_closed_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, text_format: str
) -> None:
    # What Python makes of a descriptor that was closed before it began (>&-).
    monkeypatch.setattr(sys, "stdout", None)
    Report(text_format).show([EXAMPLE], _DOCUMENT, "kernel", {})
    Report(text_format).show_bare([EXAMPLE])


@pytest.mark.parametrize("text_format", FORMATS)
def test_bare_tables_have_nothing_below(
    capsys: pytest.CaptureFixture[str], text_format: str
) -> None:
    Report(text_format).show_bare([EXAMPLE, replace(EXAMPLE, title="another")])
    shown = capsys.readouterr().out
    assert shown.index("a pair of calls") < shown.index("another")
    assert "CPU" not in shown
    assert "in this kernel" not in shown


def test_a_choice_of_the_data_path_is_in_the_title(capsys: pytest.CaptureFixture[str]) -> None:
    Report("markdown").show([EXAMPLE], _DOCUMENT, "user", {"clear_head": "words"})
    assert "on the user-space engine with clear_head=words" in capsys.readouterr().out
