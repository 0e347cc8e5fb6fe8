"""Calls the installed `xdplab` as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

XDPLAB = str(Path(sys.executable).parent / "xdplab")

WITHOUT_CAPABILITIES = (
    "setpriv",
    "--bounding-set=-all",
    "--inh-caps=-all",
    "--no-new-privs",
)
"""In front of a command: root in name, with no right at all."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would change the output."""
    left_out = {"COLUMNS", "FORCE_COLOR", "NO_COLOR"}
    return {k: v for k, v in os.environ.items() if k not in left_out} | dict(extra or {})


def xdplab(
    *arguments: str,
    prefix: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run it to its end; a run that hangs fails after two minutes."""
    return subprocess.run(
        [*prefix, XDPLAB, *arguments],
        capture_output=True,
        text=True,
        env=environment(env),
        cwd=cwd,
        timeout=120,
        check=False,
    )


def redirected(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it by a shell that redirects its output, such as `> /dev/full`."""
    return subprocess.run(
        ["sh", "-c", f'"$0" "$@" {redirection}', XDPLAB, *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )


def assert_clean_error(result: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """A known status and a message with these words, on stderr, without a traceback."""
    assert "Traceback" not in result.stderr, result.stderr
    assert result.returncode == status, result.stderr
    for word in words:
        assert word in result.stderr, result.stderr
