"""docs/af-xdp.md: every example runs, on interfaces of the names that it uses."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.pairs import Place, join, places
from tests.net.sockets import packet
from xdplab.net import Xsk

pytestmark = pytest.mark.needs_kernel

PAGE = Path(__file__).parents[2] / "docs" / "af-xdp.md"

# Each example in order: what it must print, of packets of 64 bytes that keep coming.
PRINTS = (
    r"(64 bytes to 02:00:00:00:00:01\n)+",
    r"0x88b5: (\d+) packets, \d+ bytes\n",
    r"2 packets of their own length\n10000 rows of a matrix\nTrue 0\n",
    r"passed on 1 thousand\n",
    r"[1-9]\d* packets/s\n[1-9]\d* packets/s\nlost: \d+\n",
    r"(4000 bytes in 3 frames\n)+",
    r"(64 64\n)+",
    r"True\n",
)


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def send_until(stop: threading.Event, place: Place, length_bytes: int, frags: bool) -> None:
    with (
        place.namespace,
        Xsk("v1", rx_ring=0, tx_ring=64, frags=frags) as sender,
    ):
        while not stop.wait(0.002):
            sender.send([packet(number, length_bytes) for number in range(20)])


@contextmanager
def traffic(place: Place, length_bytes: int, frags: bool) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=send_until, args=(stop, place, length_bytes, frags))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_there_is_an_expectation_for_every_example() -> None:
    assert len(examples()) == len(PRINTS)


@pytest.mark.parametrize("number", range(len(PRINTS)))
def test_an_example_prints_what_it_says(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    code = examples()[number]
    frags = "frags=True" in code
    with places(2) as (outside, dut):
        for pair, (near, far) in enumerate((("v1", "eth0"), ("v3", "eth1"))):
            join(outside, near, dut, far, pair=pair, queues=2)
            if frags:
                outside.set(near, mtu=9000)
                dut.set(far, mtu=9000)
        with traffic(outside, 4000 if frags else 64, frags), dut.namespace:
            exec(compile(code, f"{PAGE.name}, example {number}", "exec"), {})
    assert re.fullmatch(PRINTS[number], capsys.readouterr().out)
