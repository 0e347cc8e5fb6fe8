"""Where there is no Linux, live commands say so, and explain themselves all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest


def elsewhere(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in an interpreter that takes itself for one on macOS."""
    code = (
        "import sys; sys.platform = 'darwin'; from xdplab.cli.main import main; "
        f"main({list(arguments)!r})"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    "command",
    [
        ("drop", "en0"),
        ("redirect", "en0", "en1"),
        ("redirect-cpu", "en0", "-c", "0"),
        ("xsk-drop", "en0"),
    ],
)
def test_it_is_said_that_this_is_not_linux(command: tuple[str, ...]) -> None:
    refused = elsewhere(*command)
    assert refused.returncode == 3, refused.stderr
    assert refused.stderr == (
        "xdplab: en0 was not touched: XDP is Linux's, and this is darwin. Run it on Linux\n"
    )
    helped = elsewhere(command[0], "--help")
    assert helped.returncode == 0
    assert "Usage: xdplab" in helped.stdout
