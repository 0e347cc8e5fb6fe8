"""scripts/: which Python they take, and what they say where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHELL = shutil.which("sh") or "sh"


def find_python(directory: Path, pythons: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What lib.sh's find_python answers where PATH has only `pythons`, shell scripts by name."""
    tool = shutil.which("dirname")
    assert tool is not None
    (directory / "dirname").symlink_to(tool)
    for name, body in pythons.items():
        path = directory / name
        path.write_text(f"#!{SHELL}\n{body}\n")
        path.chmod(0o755)
    return subprocess.run(
        [SHELL, "-c", '. "$0"; find_python', str(ROOT / "scripts" / "lib.sh")],
        env={"PATH": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )


REAL = f'exec "{sys.executable}" "$@"'
OLD = "echo 3.9"
SHIM = "echo 'version manager: not installed' >&2; exit 127"
BARE = 'case "$2" in *ensurepip*) exit 1 ;; esac; echo 3.12'


def test_python3_comes_first(tmp_path: Path) -> None:
    result = find_python(tmp_path, {"python3": REAL, "python3.12": REAL})
    assert (result.returncode, result.stdout) == (0, "python3\n")


@pytest.mark.parametrize("unfit", [OLD, SHIM, BARE])
def test_another_python_is_taken_where_python3_is_unfit(tmp_path: Path, unfit: str) -> None:
    result = find_python(tmp_path, {"python3": unfit, "python3.13": SHIM, "python3.12": REAL})
    assert (result.returncode, result.stdout, result.stderr) == (0, "python3.12\n", "")


@pytest.mark.parametrize(
    ("pythons", "said"),
    [
        ({}, "found: no python3 on PATH. Install one"),
        ({"python3": OLD}, "found: python3 is 3.9. Install one"),
        ({"python3": BARE}, "python3 lacks venv or ensurepip (on Debian and Ubuntu: apt install"),
    ],
)
def test_no_fit_python_is_one_sentence(tmp_path: Path, pythons: dict[str, str], said: str) -> None:
    result = find_python(tmp_path, pythons)
    assert result.returncode == 3
    assert result.stderr.startswith("xdplab needs Python 3.11 or newer with venv; ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.fixture
def ready() -> None:
    """Skips where calling a script would first set up the environment for minutes."""
    environment = [sys.executable, "-I", str(ROOT / "scripts" / "environment.py")]
    if subprocess.run([*environment, "--current", "run"], check=False).returncode:
        pytest.skip("the repository's .venv is not there or not up to date")


def called(command: Path | str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What a script answers when it is called from another folder."""
    return subprocess.run(
        [str(command), *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("how", ["its path", "a link", "a link to a link", "a relative link"])
def test_a_script_finds_its_repository_from_anywhere(tmp_path: Path, how: str) -> None:
    bench = ROOT / "scripts" / "bench"
    # Blanks in its name: whatever is not quoted shows.
    folder = tmp_path / "some where"
    folder.mkdir()
    link = folder / "measure"
    if how == "a link":
        link.symlink_to(bench)
    elif how == "a link to a link":
        (tmp_path / "first").symlink_to(bench)
        link.symlink_to(tmp_path / "first")
    elif how == "a relative link":
        link.symlink_to(os.path.relpath(bench, folder))
    command = bench if how == "its path" else link
    result = called(command, "--help", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: xdplab run ")
    # Nothing was set up beside the link.
    assert [path for path in folder.iterdir() if path != link] == []


@pytest.mark.usefixtures("ready")
def test_a_script_is_found_by_a_relative_path_as_well(tmp_path: Path) -> None:
    name = os.path.relpath(ROOT / "scripts" / "bench", tmp_path)
    result = called(name, "no-such-suite", cwd=tmp_path)
    assert result.returncode == 2
    assert "no-such-suite" in result.stderr
    assert list(tmp_path.iterdir()) == []
