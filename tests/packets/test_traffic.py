"""Traffic: every packet's bytes are those that another implementation would have built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import Ether

from xdplab.errors import FrameError
from xdplab.packets.traffic import Captured, Flows, Span, address_span, port_span

SPANS = st.builds(Span, st.integers(1, 60_000), st.integers(1, 5))
LOW = st.integers(0, 2**32 - 10)


@st.composite
def flows(draw: st.DrawFn) -> Flows:
    ipv6 = draw(st.booleans())
    prefix = draw(st.integers(0, 2**96 - 1)) << 32 if ipv6 else 0
    source, destination = (Span(prefix + draw(LOW), draw(st.integers(1, 4))) for _ in range(2))
    vlans = tuple(draw(st.lists(st.integers(0, 4095), max_size=2)))
    protocol = draw(st.sampled_from(["udp", "tcp"]))
    return Flows(
        source,
        destination,
        ipv6=ipv6,
        protocol=protocol,
        source_port=draw(SPANS),
        destination_port=draw(SPANS),
        frame_bytes=draw(st.integers(82, 200)),
        vlans=vlans,
    )


def rebuilt(frame: bytes) -> bytes:
    """The frame with lengths and checksums computed anew by scapy."""
    packet: Any = Ether(frame)
    for layer in ("IP", "UDP", "TCP"):
        if packet.haslayer(layer):
            del packet[layer].chksum
    return bytes(packet)


@given(flows(), st.integers(0, 10_000))
def test_a_packet_is_whole_and_its_checksums_are_right(traffic: Flows, index: int) -> None:
    frame = traffic.frame(index)
    assert len(frame) == traffic.frame_bytes
    assert rebuilt(frame) == frame


@given(flows())
def test_all_flows_come_once_and_then_again(traffic: Flows) -> None:
    seen = set()
    for index in range(traffic.count):
        packet: Any = Ether(traffic.frame(index))
        ip = packet["IPv6" if traffic.ipv6 else "IP"]
        transport = packet["UDP" if traffic.protocol == "udp" else "TCP"]
        assert transport.sport - traffic.source_port.first in range(traffic.source_port.count)
        seen.add((ip.src, ip.dst, transport.sport, transport.dport))
    assert len(seen) == traffic.count
    assert traffic.frame(traffic.count) == traffic.frame(0) == traffic.first_frame


@given(flows(), st.integers(0, 1000))
def test_many_packets_at_once_are_the_same_as_one_by_one(traffic: Flows, start: int) -> None:
    rows = np.tile(np.frombuffer(traffic.first_frame, np.uint8), (7, 1))
    traffic.write(rows, start)
    assert [row.tobytes() for row in rows] == [traffic.frame(start + i) for i in range(7)]


@pytest.mark.parametrize(
    ("text", "first", "count", "ipv6"),
    [
        ("192.0.2.1", 0xC0000201, 1, False),
        ("192.0.2.254-192.0.3.1", 0xC00002FE, 4, False),
        ("198.18.0.0/16", 0xC6120000, 65536, False),
        ("2001:db8::1", 0x20010DB8 << 96 | 1, 1, True),
        ("2001:db8::/112", 0x20010DB8 << 96, 65536, True),
    ],
)
def test_ranges_of_addresses(text: str, first: int, count: int, ipv6: bool) -> None:
    assert address_span(text) == (Span(first, count), ipv6)


@pytest.mark.parametrize(
    "text",
    ["", "192.0.2", "192.0.2.9-192.0.2.1", "192.0.2.1-::1", "192.0.2.1/24", "a-b", "1.2.3.4-"],
)
def test_what_is_no_range_of_addresses(text: str) -> None:
    with pytest.raises(FrameError, match="no range of addresses"):
        address_span(text)


def test_ranges_of_ports() -> None:
    assert port_span("9") == Span(9)
    assert port_span("1000-1999") == Span(1000, 1000)
    assert port_span("0-65535") == Span(0, 65536)


@pytest.mark.parametrize("text", ["", "65536", "9-", "-9", "5-4", "9,10", "0x9", "٩"])
def test_what_is_no_range_of_ports(text: str) -> None:
    with pytest.raises(FrameError, match="no range of ports"):
        port_span(text)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"frame_bytes": 41}, "it must have 42 to"),
        ({"frame_bytes": 61, "vlans": (1, 2), "protocol": "tcp"}, "it must have 62 to"),
        ({"frame_bytes": 65_550}, "to 65549"),
        ({"vlans": (1, 2, 3)}, "there can be 2"),
        ({"vlans": (4096,)}, "of 0 to 4095"),
        ({"source": Span(2**32 - 1, 2)}, "leaves its 32 bits"),
        ({"destination_port": Span(65535, 2)}, "leaves its 16 bits"),
        ({"ipv6": True, "frame_bytes": 80, "source": Span(2**32 - 1, 2)}, "its last 32 bits"),
    ],
)
def test_what_cannot_be_sent_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(FrameError, match=said):
        Flows(**{"source": Span(1), "destination": Span(2), **settings})


def test_a_range_has_a_value() -> None:
    with pytest.raises(FrameError, match="it must have one"):
        Span(5, 0)


def test_captured_frames_come_in_turn() -> None:
    traffic = Captured([b"a" * 60, b"b" * 1000, b"c" * 70])
    assert [traffic.frame(i)[:1] for i in range(5)] == [b"a", b"b", b"c", b"a", b"b"]
    assert (traffic.count, traffic.longest_bytes) == (3, 1000)
    with pytest.raises(FrameError, match="no frame to send"):
        Captured([])
