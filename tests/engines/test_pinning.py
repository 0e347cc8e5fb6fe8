"""One CPU for each process that measures, and calls that other tasks broke into."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from xdplab.engines.pinning import involuntary_switches, is_shared, pinned_cpu

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are pinned on Linux alone")

_CLAIM = (
    "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])});"
    "from xdplab.engines.pinning import is_shared, pinned_cpu;"
    "cpu = pinned_cpu(); print(cpu, is_shared(cpu), flush=True); sys.stdin.read()"
)


def _other(cpu: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _CLAIM, str(cpu)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_last_cpu_is_left_to_who_had_it_first_until_that_process_ends() -> None:
    mine = pinned_cpu()
    assert mine in os.sched_getaffinity(0)
    assert pinned_cpu() == mine
    free = sorted(os.sched_getaffinity(0) - {mine})
    if not free:
        pytest.skip("one CPU alone may be used here")
    first = _other(free[0])
    told = _answer(first)
    if told != f"{free[0]} False":
        first.communicate()
        pytest.skip(f"another xdplab measures on CPU {free[0]} now")
    # Whoever may use that CPU alone uses it all the same, and is told.
    second = _other(free[0])
    assert _answer(second) == f"{free[0]} True"
    assert is_shared(free[0])
    first.kill()
    for process in (first, second):
        process.communicate()
    assert not is_shared(free[0])


def test_a_switch_is_seen_where_two_tasks_want_one_cpu() -> None:
    home = os.sched_getaffinity(0)
    cpu = min(home)
    hog = subprocess.Popen(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"]
    )
    try:
        os.sched_setaffinity(0, {cpu})
        before = involuntary_switches()
        until = time.monotonic() + 30
        while involuntary_switches() == before and time.monotonic() < until:
            pass
        assert involuntary_switches() > before
    finally:
        os.sched_setaffinity(0, home)
        hog.kill()
        hog.communicate()
