"""xdplab xsk-drop and xsk-tx by their installed command: what this process received, one by one."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.live.commands import live, packet_socket, run, send
from tests.live.pairs import join, places
from xdplab.packets.frame import udp_frame

pytestmark = pytest.mark.needs_kernel

COUNT = 2000
FRAME = udp_frame("ipv4", 100).data
SWAPPED = FRAME[6:12] + FRAME[:6] + FRAME[12:]


@pytest.mark.parametrize(
    ("mode", "options"),
    [("native", ()), ("skb", ("-f", "4096", "-R", "4096", "-m", "-C", "copy", "-Q"))],
    ids=["as it is", "all options"],
)
def test_every_packet_reaches_this_process(mode: str, options: tuple[str, ...]) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "xsk-drop", "v1", "-A", mode, *options, "--json=-") as drop:
            assert drop.said == [f"xdplab: xsk-drop on v1 ({mode}, copy)\n"]
            send(a, "v0", FRAME, COUNT)
            found = drop.stop(quiet="-Q" in options)
    assert found["packets"] == found["actions"]["XDP_REDIRECT"] == COUNT
    assert found["socket"]["received"] == COUNT
    assert found["socket"]["received_bytes"] == COUNT * len(FRAME)
    assert found["losses"] == {}


def test_what_is_sent_back_arrives() -> None:
    with (
        places(2) as (a, b),
        packet_socket(join(b, "v1", a, "v0"), "v0") as hears,
        live(b, "xsk-tx", "v1", "--json") as tx,
    ):
        send(a, "v0", FRAME, 500)
        heard = [hears.recv(2000) for _ in range(500)]
        found = tx.stop()
    assert heard == [SWAPPED] * 500
    assert found["packets"] == found["socket"]["received"] == found["socket"]["sent"] == 500
    assert found["losses"] == {}


def test_what_a_full_ring_loses_is_counted() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "xsk-drop", "v1", "-R", "64", "--json") as drop:
            # Nobody empties the ring meanwhile.
            drop.send_signal(signal.SIGSTOP)
            os.waitpid(drop.process.pid, os.WUNTRACED)
            send(a, "v0", FRAME, COUNT)
            drop.send_signal(signal.SIGCONT)
            found = drop.stop()
    taken, lost = found["socket"]["received"], found["socket"]["rx_ring_full"]
    assert found["packets"] == taken + lost == COUNT
    assert lost >= COUNT - 200
    if not found["start"]["not_counted"]:
        assert sum(found["losses"].values()) == lost
        assert all(cause.startswith("xdp_redirect_err ") for cause in found["losses"])


def jumbo(*options: str) -> tuple[list[str], dict[str, Any]]:
    """What was said and counted of a hundred long packets and one short one."""
    with places(2) as (a, b):
        join(a, "v0", b, "v1", mtu=9000)
        with live(b, "xsk-drop", "v1", *options, "--json") as drop:
            send(a, "v0", udp_frame("ipv4", 8900).data, 100)
            send(a, "v0", FRAME, 1)
            return drop.said, drop.stop()


def test_frames_of_many_pages_are_received_whole_with_frags() -> None:
    said, found = jumbo("-F")
    assert said == ["xdplab: xsk-drop on v1 (native, frags, copy)\n"]
    assert found["packets"] == found["socket"]["received"] == 101
    assert found["socket"]["received_bytes"] == 100 * 8900 + len(FRAME)
    assert found["losses"] == {}


def test_without_frags_their_loss_is_said_before_and_counted() -> None:
    said, found = jumbo()
    assert "a packet of more than 3840 bytes does not fit a frame" in said[0]
    assert found["packets"] == 101
    assert found["socket"]["received"] == 1
    assert found["socket"]["rx_dropped"] == 100
    if not found["start"]["not_counted"]:
        assert sum(found["losses"].values()) == 100


def test_packets_of_other_queues_pass() -> None:
    with places(2) as (a, b), packet_socket(join(a, "v0", b, "v1", queues=2), "v1") as hears:
        with (
            live(b, "xsk-drop", "v1", "-q", "1", "--json") as drop,
            packet_socket(a, "v0") as sends,
        ):
            for number in range(200):
                sends.send(FRAME[:34] + number.to_bytes(2, "big") + FRAME[36:])
            found = drop.stop()
        passed = found["actions"]["XDP_PASS"]
        assert found["socket"]["received"] == found["actions"]["XDP_REDIRECT"] == 200 - passed
        for _ in range(passed):
            assert len(hears.recv(2000)) == len(FRAME)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("-q", "7"), 2, "queue"),
        (("-R", "100"), 2, "power of two"),
        (("-f", "1000"), 2, "'1000'"),
        (("-C", "zero-copy"), 3, "zero-copy"),
    ],
)
def test_what_cannot_be_is_said(arguments: tuple[str, ...], status: int, words: str) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        refused = run(b, "xsk-drop", "v1", *arguments)
        assert refused.returncode == status, refused.stderr
        assert words in refused.stderr
        assert "Traceback" not in refused.stderr
        assert not b.programs("v1")


def test_an_interface_with_a_program_is_left_as_it_is() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "xsk-drop", "v1"):
            refused = run(b, "xsk-tx", "v1")
            assert refused.returncode == 2
            assert "v1 has an XDP program already" in refused.stderr


def test_an_interface_that_is_removed_ends_it_and_what_it_counted_is_shown() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "xsk-drop", "v1", "-i", "0.1") as drop:
            send(a, "v0", FRAME, COUNT)
            a.netlink.link("del", index=a.ifindex("v0"))
            status, stdout, stderr = drop.rest()
    assert status == 3, stderr
    assert "gone" in stderr or "removed" in stderr
    assert f"v1: {COUNT:,} packets in " in stdout
    assert f"socket: received {COUNT:,}" in stdout
