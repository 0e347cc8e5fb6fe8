"""xdplab redirect, redirect-map and redirect-multi by their installed command, packet by packet."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.live.commands import live, packet_socket, run, send
from tests.live.pairs import MAC, Place, join, places
from xdplab.packets.frame import udp_frame

pytestmark = pytest.mark.needs_kernel

COUNT = 1000
FRAME = udp_frame("ipv4", 100).data
SWAPPED = FRAME[6:12] + FRAME[:6] + FRAME[12:]


@dataclass(frozen=True)
class Path:
    """v0 here, v1 and w0 in between, where the command runs, w1 beyond."""

    here: Place
    between: Place
    beyond: Place


@contextlib.contextmanager
def path(mtu: int = 1500) -> Iterator[Path]:
    with places(3) as (here, between, beyond):
        join(here, "v0", between, "v1", mtu=mtu)
        join(between, "w0", beyond, "w1", pair=1, mtu=mtu)
        yield Path(here, between, beyond)


def mac(pair: int, end: int) -> bytes:
    return bytes.fromhex(MAC.format(pair=pair, end=end).replace(":", ""))


@pytest.mark.parametrize(
    ("command", "mode", "arrives"),
    [
        (("redirect",), "native", SWAPPED),
        (("redirect", "-l", "load-bytes"), "skb", SWAPPED),
        (("redirect-map",), "native", SWAPPED),
        (("redirect-map", "-X"), "native", SWAPPED[:6] + mac(1, 0) + SWAPPED[12:]),
        (("redirect-map", "-X"), "skb", SWAPPED[:6] + mac(1, 0) + SWAPPED[12:]),
    ],
    ids=["redirect", "by calls", "by devmap", "with its program", "with its program, skb"],
)
def test_what_is_redirected_arrives_and_both_ends_count_the_same(
    command: tuple[str, ...], mode: str, arrives: bytes
) -> None:
    with path() as way, packet_socket(way.beyond, "w1") as hears:
        options = ("v1", "w0", "-m", mode, "-s", "--json")
        with (
            live(way.beyond, "pass", "w1", "--json") as sink,
            live(way.between, *command, *options) as device,
        ):
            # Nothing to warn of: the peer has its program.
            assert len(device.said) == 1
            send(way.here, "v0", FRAME, COUNT)
            heard = hears.recv(2000)
            found = device.stop()
            sunk = sink.stop()
    assert heard == arrives
    assert found["packets"] == found["actions"]["XDP_REDIRECT"] == COUNT
    assert found["losses"] == {}
    assert sunk["packets"] == COUNT
    events = found["events"]
    if not found["start"]["not_counted"]:
        assert events["xdp_redirect"] == {"redirected": COUNT}
        assert events.get("xdp_devmap_xmit", {}).get("sent", 0) == (
            COUNT if mode == "native" else 0
        )
    assert found["behind"]["XDP_PASS"] == (COUNT if "-X" in command else 0)
    assert found["drivers"]["w0"].get("tx_queue_0_xdp_xmit", 0) == (
        COUNT if mode == "native" else 0
    )


def test_a_devmaps_program_may_drop() -> None:
    with path() as way, live(way.beyond, "pass", "w1", "--json") as sink:
        arguments = ("redirect-map", "v1", "w0", "-X", "-A", "drop", "--json")
        with live(way.between, *arguments) as device:
            send(way.here, "v0", FRAME, COUNT)
            found = device.stop()
        assert sink.stop()["packets"] == 0
    assert found["actions"]["XDP_REDIRECT"] == COUNT
    assert found["behind"]["XDP_DROP"] == COUNT


def losses(found: dict[str, object]) -> object:
    """Losses by cause, where they can be counted here."""
    start = found["start"]
    assert isinstance(start, dict)
    if start["not_counted"]:
        pytest.skip(f"no tracepoints here: {start['not_counted']}")
    return found["losses"]


def test_a_peer_without_a_program_is_named_before_and_its_drops_are_counted() -> None:
    with path() as way, live(way.between, "redirect", "v1", "w0", "--json") as device:
        assert "w0's peer w1 has neither a native XDP program nor GRO" in device.said[0]
        send(way.here, "v0", FRAME, COUNT)
        found = device.stop()
    assert found["packets"] == COUNT
    # Newer kernels refuse at the redirect, older ones as late as in the driver.
    assert losses(found) in (
        {"xdp_redirect_err EOPNOTSUPP": COUNT},
        {"xdp_devmap_xmit dropped, ENXIO": COUNT},
    )


def test_an_interface_that_is_down_is_named_before_and_its_drops_are_counted() -> None:
    with path() as way, live(way.beyond, "pass", "w1"):
        way.between.set("w0", state="down")
        with live(way.between, "redirect-map", "v1", "w0", "--json") as device:
            assert "w0 is down" in device.said[0]
            send(way.here, "v0", FRAME, COUNT)
            found = device.stop()
    assert losses(found) == {"xdp_redirect_err ENETDOWN": COUNT}


def test_lines_and_summary_name_what_is_lost_unasked() -> None:
    with path() as way, live(way.between, "redirect", "v1", "w0", "-i", "0.1") as device:
        send(way.here, "v0", FRAME, COUNT)
        device.send_signal(signal.SIGINT)
        status, stdout, _ = device.rest()
    assert status == 0
    assert f"v1: {COUNT:,} packets in" in stdout
    if any("is not counted here" in line for line in device.said):
        pytest.skip("no tracepoints here")
    assert f"on average, {COUNT:,} lost; ended" in stdout
    cause = r"xdp_redirect_err EOPNOTSUPP|xdp_devmap_xmit dropped, ENXIO"
    assert re.search(rf" [1-9][\d,]* err,drop/s \(({cause})\)$", stdout, re.MULTILINE)


def test_packets_that_are_too_long_for_the_way_out_are_named_and_counted() -> None:
    with path() as way:
        way.between.set("w0", mtu=600)
        with (
            live(way.beyond, "pass", "w1"),
            live(way.between, "redirect", "v1", "w0", "--json") as device,
        ):
            assert "w0 has an MTU of 600: larger packets are dropped there" in device.said[0]
            send(way.here, "v0", FRAME, COUNT)
            send(way.here, "v0", udp_frame("ipv4", 1000).data, 10)
            found = device.stop()
    assert found["packets"] == COUNT + 10
    assert losses(found) == {"xdp_redirect_err EMSGSIZE": 10}


@pytest.mark.parametrize("command", [("redirect", "-l", "load-bytes"), ("redirect-map", "-X")])
def test_frames_of_many_pages_are_redirected_whole(command: tuple[str, ...]) -> None:
    frame = udp_frame("ipv4", 8900).data
    with (
        path(mtu=9000) as way,
        packet_socket(way.beyond, "w1") as hears,
        packet_socket(way.here, "v0") as sends,
        live(way.beyond, "pass", "w1"),
        live(way.between, *command, "v1", "w0", "--json") as device,
    ):
        heard = set()
        for _ in range(100):
            sends.send(frame)
            heard.add(hears.recv(9100))
        found = device.stop()
    source = mac(1, 0) if "-X" in command else frame[:6]
    assert heard == {frame[6:12] + source + frame[12:]}
    assert found["start"]["frags"]
    assert found["packets"] == 100
    assert found["losses"] == {}


def heard_by(hears: socket.socket) -> list[bytes]:
    """All that has reached a socket by now."""
    hears.setblocking(False)
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(hears.recv(2000))
    return found


@pytest.mark.parametrize("egress", [False, True])
def test_multi_sends_to_all_others(egress: bool) -> None:
    with places(4) as (here, between, one, two), contextlib.ExitStack() as sockets:
        join(here, "v0", between, "v1")
        join(between, "w0", one, "w1", pair=1)
        join(between, "x0", two, "x1", pair=2)
        hears = [
            sockets.enter_context(packet_socket(place, name))
            for place, name in ((here, "v0"), (one, "w1"), (two, "x1"))
        ]
        options = ("-X", "--json") if egress else ("--json",)
        with (
            live(here, "pass", "v0"),
            live(one, "pass", "w1"),
            live(two, "pass", "x1"),
            live(between, "redirect-multi", "v1", "w0", "x0", *options) as device,
        ):
            assert all(between.programs(name) for name in ("v1", "w0", "x0"))
            send(here, "v0", FRAME, 100)
            send(one, "w1", FRAME, 50)
            found = device.stop()
            back, first, second = (heard_by(one) for one in hears)
    assert found["packets"] == 150
    assert found["losses"] == {}

    def leaves(pair: int) -> bytes:
        return FRAME[:6] + mac(pair, 0) + FRAME[12:] if egress else FRAME

    # v1 is the far end of its pair, w0 and x0 the near ones of theirs.
    from_v1 = FRAME[:6] + mac(0, 1) + FRAME[12:] if egress else FRAME
    assert first == [leaves(1)] * 100
    assert second == [leaves(2)] * 150
    assert back == [from_v1] * 50


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("redirect-multi", "v1"), "it takes 2 to 32"),
        (("redirect-multi", "v1", "v1"), "an interface twice"),
        (("redirect-map", "v1", "w0", "-A", "drop"), "-X was not given"),
        (("redirect", "v1", "nosuch"), "'nosuch'"),
    ],
)
def test_what_cannot_be_is_said(arguments: tuple[str, ...], words: str) -> None:
    with path() as way:
        refused = run(way.between, *arguments)
        assert refused.returncode == 2
        assert words in refused.stderr
        assert "Traceback" not in refused.stderr
        assert not way.between.programs("v1")


def test_a_second_interface_that_refuses_leaves_none_on_the_first() -> None:
    with path() as way, live(way.between, "drop", "w0"):
        refused = run(way.between, "redirect-multi", "v1", "w0")
        assert refused.returncode == 2
        assert "w0 has an XDP program already" in refused.stderr
        assert not way.between.programs("v1")


def test_what_a_broadcast_skips_is_lost_and_counted() -> None:
    with path() as way, live(way.between, "redirect-multi", "v1", "w0", "--json") as device:
        send(way.here, "v0", FRAME, COUNT)
        found = device.stop()
    # Kernels that have the driver refuse count it there.
    assert losses(found) in (
        {"xdp_devmap_xmit dropped, skipped by the broadcast": COUNT},
        {"xdp_devmap_xmit dropped, ENXIO": COUNT},
    )


def test_a_removal_is_seen_within_an_interval_and_another_name_is_none() -> None:
    with path() as way, live(way.between, "drop", "v1", "-i", "3600") as device:
        way.between.set("v1", state="down")
        way.between.netlink.link("set", index=way.between.ifindex("v1"), ifname="z1")
        way.between.set("z1", state="up")
        time.sleep(0.5)
        assert device.process.poll() is None
        way.between.netlink.link("del", index=way.between.ifindex("z1"))
        status, stdout, stderr = device.rest()
    assert status == 3
    assert "an interface was removed" in stdout + stderr
