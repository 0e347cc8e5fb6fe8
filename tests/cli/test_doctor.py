from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from xdplab.cli.doctor import command
from xdplab.errors import UsageError
from xdplab.kernel import features
from xdplab.kernel.features import Probe, ProbeOutcome


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    features._conclusive.clear()


def test_it_says_all_four_things() -> None:
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 0, result.output
    for part in ("What can be measured here", "What disturbs measuring here", "Environment"):
        assert part in result.stdout
    assert "bpf_xdp_pull_data" in result.stdout
    assert "The user-space engine can run, which takes no privileges" in result.stdout
    assert "\x1b" not in result.stdout


def test_reasons_and_remedies_are_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ProbeOutcome(Probe.UNKNOWN, "loading was refused", "run it as root")
    monkeypatch.setattr(features, "_on_linux", lambda function: refused)
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 0, result.output
    assert "  Programs cannot be measured in the kernel: loading was refused." in result.stdout
    assert result.stdout.count("-> run it as root\n") == 1


def test_outside_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 0, result.output
    assert "this is darwin, not Linux. Run xdplab on Linux" in result.stdout


def test_json_stands_alone_on_standard_output() -> None:
    result = CliRunner().invoke(command, ["--json", "-"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert set(data) == {"schema", "environment", "features", "warnings"}
    assert data["features"].keys() == features._PROBES.keys()
    for outcome in data["features"].values():
        assert outcome["outcome"] in {"supported", "not supported", "could not tell"}
    assert "What can be measured here" in result.stderr


def test_json_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "doctor.json"
    result = CliRunner().invoke(command, ["--json", str(target)])
    assert result.exit_code == 0, result.output
    assert json.loads(target.read_text())["schema"] == 1
    assert "Environment" in result.stdout


def test_a_bad_json_target_is_an_error_at_once(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["--json", str(tmp_path / "missing" / "x.json")])
    assert isinstance(result.exception, UsageError)
    assert result.stdout == ""


def test_as_nobody_in_an_ascii_world() -> None:
    """A process without any capability, where the terminal knows ASCII only."""
    program = "from xdplab.cli.doctor import command; command([])"
    arguments = [sys.executable, "-c", program]
    if os.geteuid() == 0:
        arguments = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *arguments]
    try:
        done = subprocess.run(
            arguments,
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            check=False,
        )
    except FileNotFoundError as error:
        pytest.skip(f"capabilities cannot be dropped here: {error}")
    assert done.returncode == 0, done.stderr
    assert b"Programs cannot be measured in the kernel" in done.stdout
