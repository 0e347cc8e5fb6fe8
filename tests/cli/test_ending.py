"""However a run ends, what it measured is kept and the kernel is as it was before."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import XDPLAB, environment
from xdplab.documents import document_from_json

pytestmark = pytest.mark.needs_kernel

SETTLE_S = 10.0
"""What the kernel frees in its own time is gone by then, also where it is busy."""


def start(*arguments: str) -> subprocess.Popen[str]:
    """A run that goes on until it is ended."""
    return subprocess.Popen(
        [XDPLAB, "run", "--time", "60", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def measuring(*arguments: str) -> subprocess.Popen[str]:
    """A run that has begun to measure: it says so when its handlers are in place."""
    process = start(*arguments)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("measuring "):
            return process
    raise AssertionError(f"the run ended with {process.wait()} before it measured")


def rest(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it still writes until it ends; no more than a pipe holds."""
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        stdout, stderr = process.stdout.read(), process.stderr.read()
    process.wait(30)
    return stdout, stderr


@pytest.mark.parametrize("after_s", [0.05, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_anything_was_measured_ends_at_once(
    tmp_path: Path, after_s: float, number: signal.Signals
) -> None:
    target = tmp_path / "run.json"
    process = start("adjust-head", "--json", str(target))
    time.sleep(after_s)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    if process.returncode == -number:
        # Before Python could set a handler there is nothing to keep and nobody to say so.
        assert (stdout, target.exists()) == ("", False)
        return
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert "ended by Ctrl-C" in stderr or "were measured and kept" in stderr


@pytest.mark.parametrize("after_s", [0.0, 0.2, 1.0, 3.0])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_was_measured(
    tmp_path: Path, after_s: float, number: signal.Signals
) -> None:
    kept = kept_after(tmp_path / "run.json", after_s, number)
    # In three seconds something is measured, but on a machine that has other things to do.
    if after_s >= 3 and not kept:
        assert kept_after(tmp_path / "again.json", 5 * after_s, number)


def kept_after(target: Path, after_s: float, number: signal.Signals) -> int:
    """How many figures a run kept that a signal ended after so long; what it then says of it."""
    process = measuring("adjust-head", "--json", str(target))
    time.sleep(after_s)
    process.send_signal(number)
    stdout, stderr = rest(process)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    document = document_from_json(json.loads(target.read_text()))
    assert not document.run.complete
    measured = [r for r in document.results if r.estimate is not None]
    assert f"{len(measured)} figures were measured and kept" in stderr
    assert all(r.trials for r in measured)
    # A table where there is something to show, and none of nothing but excuses.
    assert ("adjust_head" in stdout) == bool(measured)
    assert (stdout == "") == (not measured)
    return len(measured)


@pytest.mark.parametrize("signals", [2, 3])
def test_impatience_is_no_traceback(signals: int) -> None:
    process = measuring("packet-access")
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
    _, stderr = rest(process)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert "ended by Ctrl-C" in stderr or "were measured and kept" in stderr


def bpf_ids_held() -> Iterator[tuple[str, int]]:
    """Programs, maps and links that some process holds a descriptor of, from /proc."""
    for directory in Path("/proc").glob("[0-9]*/fdinfo"):
        try:
            entries = list(directory.iterdir())
        except OSError:
            continue
        for entry in entries:
            try:
                lines = entry.read_text().splitlines()
            except OSError:
                continue
            for line in lines:
                name, _, value = line.partition(":")
                if name in {"prog_id", "map_id", "link_id"}:
                    yield name.removesuffix("_id"), int(value)


def pinned_namespaces() -> set[str]:
    """Network namespaces that a mount keeps: all that can outlive their processes."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in mounts if " nsfs " in line}


def test_sigkill_at_random_moments_leaves_nothing() -> None:
    from xdplab.kernel import bpf

    rng = random.Random(os.getpid())
    before = bpf.live_ids()
    pinned_before = pinned_namespaces()

    def loaded() -> bool:
        return bool(bpf.live_ids()["prog"] - before["prog"])

    met = 0
    for batch in range(5):
        # Four at once, which is also what two users on a machine do.
        processes = [start() for _ in range(4)]
        # Once from their begin on; else from when the kernel has something of theirs, however
        # long that takes here: kills before anything was loaded would prove nothing.
        until = time.monotonic() + 30
        while batch and not loaded() and time.monotonic() < until:
            time.sleep(0.01)
        ends = sorted((rng.uniform(0.0, 1.5), process.pid) for process in processes)
        begun = time.monotonic()
        for end_s, pid in ends:
            time.sleep(max(0.0, begun + end_s - time.monotonic()))
            met += loaded()
            os.kill(pid, signal.SIGKILL)
        for process in processes:
            process.communicate(timeout=10)
            assert process.returncode == -signal.SIGKILL
    assert met >= 4

    def unheld() -> set[tuple[str, int]]:
        live = {(kind, number) for kind, ids in bpf.live_ids().items() for number in ids}
        # Another process, such as a measurement beside these tests, may hold its own.
        return live - {(k, n) for k, ids in before.items() for n in ids} - set(bpf_ids_held())

    # What they left would stay: whatever comes later is somebody else's.
    left = unheld()
    until = time.monotonic() + SETTLE_S
    while left and time.monotonic() < until:
        time.sleep(0.05)
        left &= unheld()
    others_measure = bool(set(bpf_ids_held()) - {(k, n) for k, ids in before.items() for n in ids})
    if others_measure:
        # Maps and programs hang on theirs unseen; links would still tell.
        left = {(kind, number) for kind, number in left if kind == "link"}
    assert not left
    assert pinned_namespaces() <= pinned_before
