"""Tab: what bash itself makes of the words that the installed command gives."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import XDPLAB, environment, xdplab
from tests.store.made import document, result
from xdplab.cli import main
from xdplab.store.store import Store

_BASH = shutil.which("bash")


def completed(line: str, **variables: str) -> list[str]:
    """What Tab at the end of the line leaves bash to choose from."""
    words = line.split(" ")
    script = (
        f'PATH={shlex.quote(str(Path(XDPLAB).parent))}:$PATH; eval "$(xdplab completion bash)"; '
        f"COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}; "
        f"_xdplab_completion xdplab {shlex.quote(words[-1])} {shlex.quote(words[-2])}; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert _BASH is not None
    done = subprocess.run(
        [_BASH, "--norc", "-c", script],
        capture_output=True,
        text=True,
        env=environment(variables),
        timeout=60,
        check=True,
    )
    assert "Traceback" not in done.stderr
    return done.stdout.split()


@pytest.mark.skipif(_BASH is None, reason="there is no bash here")
def test_bash_completes_commands_options_values_suites_and_interfaces() -> None:
    assert completed("xdplab pa") == ["pass"]
    assert set(completed("xdplab ")) == set(main._COMMANDS)
    assert completed("xdplab run packet") == ["packet-access"]
    assert completed("xdplab run --engine us") == ["user"]
    assert completed("xdplab kernel bu") == ["build"]
    assert "lo" in completed("xdplab drop l")
    assert "--packet-operation" in completed("xdplab drop lo --pack")


@pytest.mark.skipif(_BASH is None, reason="there is no bash here")
def test_bash_completes_stored_runs_and_tags(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    run_id = "20260101T000000-abcdef"
    with Store(path, write=True) as store:
        store.add(document(run_id, [result(ns=3.25)], tags=("before",)))
    assert completed("xdplab compare 2026", XDPLAB_STORE=str(path)) == [run_id]
    assert completed("xdplab show be", XDPLAB_STORE=str(path)) == ["before"]
    # One that is none says nothing into the user's line.
    path.write_text("no store")
    assert completed("xdplab show la", XDPLAB_STORE=str(path)) == ["last", "last~1"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str) -> None:
    printed = xdplab("completion", shell)
    assert (printed.returncode, printed.stderr) == (0, "")
    assert "_XDPLAB_COMPLETE" in printed.stdout
