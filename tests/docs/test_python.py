"""docs/python.md: every example runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What each must print, in order.
PRINTS = (
    "XDP_DROP 64 True\n1\n",
    "filter over filter (baseline)\nTrue\nTrue\n",
    "2 True\n['action', 'baseline', 'cycles', 'engine']\n",
)


def examples() -> list[str]:
    page = (ROOT / "docs" / "python.md").read_text()
    return re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_there_is_an_expectation_for_every_example() -> None:
    assert len(examples()) == len(PRINTS)


@pytest.mark.parametrize("number", range(len(PRINTS)))
def test_the_example_runs(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(examples()[number], f"docs/python.md, example {number + 1}", "exec"), {})
    assert capsys.readouterr().out == PRINTS[number]
