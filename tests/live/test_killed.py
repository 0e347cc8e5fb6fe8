"""kill -9 at any moment: interfaces are as they were before, and nothing is left in the kernel."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time

import pytest

from tests.cli.command import XDPLAB, environment
from tests.cli.test_ending import SETTLE_S, bpf_ids_held
from tests.live.pairs import Place, join, places
from xdplab.kernel import bpf

pytestmark = pytest.mark.needs_kernel

COMMANDS = (
    ("drop", "v1", "-p", "parse-ip"),
    ("pass", "v1", "-m", "skb"),
    ("tx", "v1", "-e"),
    ("redirect", "v1", "w1", "-s"),
    ("redirect-map", "v1", "w1", "-X"),
    ("redirect-multi", "v1", "w1"),
    ("redirect-cpu", "v1", "-c", "0", "-r", "redirect", "-D", "w1"),
    ("xsk-drop", "v1"),
    ("xsk-tx", "v1"),
    ("trafficgen", "v1", "-g", "skb"),
)
AT_ONCE = 4
KILLS = 20


def attached(place: Place) -> bool:
    """Whether an interface there has a program."""
    return any(place.programs(name) for name in ("v1", "w1"))


def start(place: Place, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """The command, its output thrown away."""
    with place.namespace:
        return subprocess.Popen(
            [XDPLAB, *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )


def test_every_command_killed_at_random_moments_leaves_nothing() -> None:
    rng = random.Random(os.getpid())
    before = bpf.live_ids()
    met = 0
    with places(1 + AT_ONCE) as (peers, *ours):
        for number, place in enumerate(ours):
            join(place, "v1", peers, f"v{number}a", pair=number)
            join(place, "w1", peers, f"w{number}a", pair=number)
        for batch in range(KILLS // AT_ONCE):
            running = []
            for number, place in enumerate(ours):
                command = COMMANDS[(batch * AT_ONCE + number) % len(COMMANDS)]
                running.append((start(place, command), place))
            begun = time.monotonic()
            # Most have not begun in the first batch; later ones are killed at work.
            while batch and not any(attached(place) for place in ours):
                assert time.monotonic() < begun + 30
                time.sleep(0.02)
            begun = time.monotonic()
            for end_s, (process, place) in sorted(
                ((rng.uniform(0.0, 0.6), one) for one in running), key=lambda pair: pair[0]
            ):
                time.sleep(max(0.0, begun + end_s - time.monotonic()))
                met += attached(place)
                os.kill(process.pid, signal.SIGKILL)
            for process, _ in running:
                assert process.wait(30) == -signal.SIGKILL
            until = time.monotonic() + SETTLE_S
            while any(attached(place) for place in ours) and time.monotonic() < until:
                time.sleep(0.02)
            assert not any(attached(place) for place in ours)
    assert met >= AT_ONCE

    def left() -> set[tuple[str, int]]:
        """What came since, is still there, and no process holds."""
        present = {(kind, number) for kind, ids in bpf.live_ids().items() for number in ids}
        return present - {(k, n) for k, ids in before.items() for n in ids} - set(bpf_ids_held())

    found = left()
    until = time.monotonic() + SETTLE_S
    while found and time.monotonic() < until:
        time.sleep(0.05)
        found &= left()
    if set(bpf_ids_held()) - {(k, n) for k, ids in before.items() for n in ids}:
        # Maps and programs of somebody who measures meanwhile hang on his links unseen.
        found = {(kind, number) for kind, number in found if kind == "link"}
    assert not found


def test_a_command_that_is_ended_while_it_begins_leaves_nothing() -> None:
    with places(1) as (place,):
        join(place, "v1", place, "w1")
        for after_s in (0.1, 0.4):
            for number in (signal.SIGINT, signal.SIGTERM):
                process = start(place, ("drop", "v1", "-d", "20"))
                time.sleep(after_s)
                process.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                # Before Python could set a handler the signal itself ends it.
                assert process.returncode in {130, -number}
                assert not attached(place)
