"""docs/commands.md has the commands' help as they print it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import xdplab
from xdplab.cli.reference import reference


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "commands.md"
    if not page.exists():
        pytest.skip("the tests run without the documentation")
    assert page.read_text() == reference()


def test_options_are_those_that_help_shows() -> None:
    """Also those that the whole command line sets, such as -h."""
    shown = {line.split()[0] for line in xdplab("count", "-h").stdout.splitlines() if "--" in line}
    (section,) = [one for one in reference().split("## ") if one.startswith("`xdplab count`")]
    written = {line.split()[0] for line in section.splitlines() if "--" in line}
    assert "-h," in written
    assert written == shown
