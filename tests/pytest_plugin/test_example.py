"""The example project as whoever copies it has it: its tests, its baselines, its workflow."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "pytest-project"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "mine"))


def ran(project: Path, *arguments: str) -> tuple[int, dict[str, int], str]:
    """pytest's exit status there, how many tests ended how, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    last = done.stdout.splitlines()[-1]
    counts = {how: int(number) for number, how in re.findall(r"(\d+) (\w+)", last)}
    counts.pop("warnings", None)
    return done.returncode, counts, done.stdout


def test_the_project_passes_and_its_baselines_gate(project: Path) -> None:
    """In the order of its README."""
    status, counts, said = ran(project)
    assert (status, counts["skipped"]) == (0, 2), said
    assert said.count("there is no baseline") == 2
    status, counts, said = ran(project, "--xdplab-update")
    assert (status, "skipped" in counts) == (0, False), said
    source = project / "src" / "ports.bpf.c"
    program = source.read_text()
    # One more store in memory for each packet: counted exactly, whatever the machine does.
    marked = program.replace("{", "{", 1)
    function = re.search(r'SEC\("xdp"\)[^{]*\{', marked)
    assert function is not None
    where = function.end()
    source.write_text(f"{marked[:where]} volatile int more = 1; (void)more; {marked[where:]}")
    by_workflow, _ = workflow_commands(project)
    status, _, said = ran(project, *by_workflow)
    assert status == 1, said
    assert "worse than its baseline by more than 0 insns" in said


def test_the_workflow_chooses_tests_that_are_there(project: Path) -> None:
    functions, times = (
        ran(project, "--collect-only", "-q", *command) for command in workflow_commands(project)
    )
    assert functions[0] == times[0] == 0
    assert "test_instructions" in functions[2]
    assert "test_time" not in functions[2]
    assert re.findall("::(\\w+)", times[2]) == ["test_time"]


def workflow_commands(project: Path) -> list[list[str]]:
    """The arguments of its two calls of pytest; the file is YAML of three keys."""
    text = (project / "github-workflow.yml").read_text()
    commands = re.findall(r"- run: (?:\.venv/bin/)?pytest (.*)", text)
    assert len(commands) == 2
    assert "\t" not in text
    assert re.findall(r"^(\w+):", text, re.MULTILINE) == ["name", "on", "jobs"]
    return [shlex.split(command) for command in commands]
