"""Real boots: a Debian kernel in QEMU. Skips where there is no QEMU or no such kernel to be had."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xdplab.before_after.plan import OwnProgram, Planned, choose, plan
from xdplab.before_after.results import results_of
from xdplab.before_after.run import run
from xdplab.before_after.why import function_results
from xdplab.counting import count
from xdplab.engines.base import XDP_DROP, action_name
from xdplab.errors import NotPossibleError
from xdplab.guests import profile
from xdplab.guests.console import GuestError
from xdplab.guests.debian import fetch
from xdplab.guests.qemu import PROGRAM, Machine, boot, find_qemu
from xdplab.packets.frame import udp_frame
from xdplab.program.shipped import shipped_object

LIMIT_S = 240.0
"""A boot takes 5 s alone; where all else runs at the same time it must not fail for that."""


@pytest.fixture(scope="module")
def kernel() -> Path:
    """Debian's small kernel, downloaded once and kept in the user's cache."""
    try:
        find_qemu()
        return fetch()
    except NotPossibleError as error:
        pytest.skip(str(error))


def planned() -> Planned:
    """A few rows: with maps and BTF in them, and one's own program."""
    suite = choose(["adjust-head"])[0]
    spec = shipped_object("calls_maps")
    own = [
        OwnProgram(shipped_object("packet_access"), "parse_ip_dpa", {"a": udp_frame("ipv4", 64)}),
        OwnProgram(spec, "lookup_array_16", {"a": udp_frame("ipv4", 64)}),
    ]
    return plan([(suite, {"sizes": (6, 200)})], own)


def test_two_boots_of_a_real_kernel_say_the_same_to_the_digit(kernel: Path) -> None:
    """`run` raises where they do not."""
    what = planned()
    (one,) = run(
        [kernel], what, Machine(limit_s=LIMIT_S), 2, lambda: False, lambda _label, _share: None
    )
    report = one.reports[0]
    assert len(one.reports) == 2
    assert not report.maps
    assert not report.progs
    results = results_of(what, one.reports, counts=True)
    costs = {(r.variant, *r.parameters.values(), r.method): r for r in results if not r.baseline}
    empty = costs["empty", "packet"].estimate
    pair = costs["helper", 6, "packet"].estimate
    assert empty is not None
    assert pair is not None
    assert 0 < empty.point < pair.point
    dropped = report.rows[what.bundle.rows["prog", "0/a"].number]
    assert dropped.retval == XDP_DROP
    # The same object on the same frame does the same in user space.
    counted = count(shipped_object("packet_access"), "parse_ip_dpa", [udp_frame("ipv4", 64)])
    assert counted.actions == {action_name(dropped.retval): 1}
    suite, values = what.suites[0]
    assert any("does not clear" in note for note in what.notes(suite, values, report))


def test_a_profiled_boot_finds_the_helper_where_it_is_called(kernel: Path) -> None:
    """Functions add up to what a run counts, all but what ticks leave."""
    what = plan([(choose(["adjust-head"])[0], {"sizes": (6,)})], [])
    found = function_results(kernel, what, Machine(limit_s=LIMIT_S), lambda: False)
    of_runs = [one for one in found if one.method == "packet" and one.estimate]
    by_program: dict[str, dict[str, float]] = {}
    for one in of_runs:
        assert one.estimate is not None
        of_program = by_program.setdefault(one.variant, {})
        of_program[str(one.parameters["function"])] = one.estimate.point
    assert by_program["helper"]["bpf_xdp_adjust_head"] > 10
    assert "bpf_xdp_adjust_head" not in by_program["empty"]
    assert by_program["helper"][profile.BPF] > by_program["empty"][profile.BPF] > 0
    added = sum(by_program["helper"].values()) - sum(by_program["empty"].values())
    assert 20 < added < 1000


def test_a_boot_that_takes_too_long_is_ended(kernel: Path) -> None:
    start = time.monotonic()
    with pytest.raises(GuestError, match="not done within 0.3 s"):
        boot(kernel, b"", Machine(limit_s=0.3))
    assert time.monotonic() - start < LIMIT_S
    assert not guests_of(os.getpid())


def guests_of(parent: int) -> list[int]:
    """QEMU processes whose parent is that one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, _, rest = (entry / "stat").read_text().rpartition(")")
            if PROGRAM[:15] in name and int(rest.split()[1]) == parent:
                found.append(int(entry.name))
    return found


def test_nothing_outlives_a_killed_run(kernel: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from xdplab.guests.qemu import Machine, boot; "
        "boot(Path(sys.argv[1]), b'', Machine(append='rdinit=/nothing panic=0'))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(kernel)], stderr=subprocess.DEVNULL
    ) as process:
        until = time.monotonic() + 60
        guests: list[int] = []
        while not guests and time.monotonic() < until:
            guests = guests_of(process.pid)
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert guests
    until = time.monotonic() + 20
    while any(is_running(pid) for pid in guests) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(is_running(pid) for pid in guests)


def is_running(pid: int) -> bool:
    """Whether it is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
