"""docs/commands.md has the commands' help as they print it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment, xdplab


def _written(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # In a process of its own: click keeps the help option of a command that ran by itself here.
    words = [sys.executable, "-m", "xdplab.cli.reference", *options, str(path)]
    return subprocess.run(words, capture_output=True, text=True, env=environment(), check=False)


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "commands.md"
    if not page.exists():
        pytest.skip("the tests run without the documentation")
    result = _written(page, "--check")
    assert result.returncode == 0, result.stderr


def test_options_are_those_that_help_shows(tmp_path: Path) -> None:
    """Also those that the whole command line sets, such as -h."""
    assert _written(tmp_path / "commands.md").returncode == 0
    page = (tmp_path / "commands.md").read_text()
    shown = {line.split()[0] for line in xdplab("count", "-h").stdout.splitlines() if "--" in line}
    (section,) = [one for one in page.split("## ") if one.startswith("`xdplab count`")]
    written = {line.split()[0] for line in section.splitlines() if "--" in line}
    assert "-h," in written
    assert written == shown
