"""Frames are what was asked for, byte for byte, or a FrameError."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw

from xdplab.errors import FrameError
from xdplab.packets.frame import (
    MAXIMUM_BYTES,
    MAXIMUM_IP_FRAME_BYTES,
    MAXIMUM_METADATA_BYTES,
    PACKETS,
    Frame,
    headers_bytes,
    udp_frame,
)

_LAYERS: dict[str, tuple[type[Packet], ...]] = {
    "ipv4": (Ether, IP, UDP),
    "ipv6": (Ether, IPv6, UDP),
    "vlan": (Ether, Dot1Q, IP, UDP),
    "qinq": (Ether, Dot1AD, Dot1Q, IP, UDP),
}
# Ethernet 14, a tag 4 each, IPv4 20 or IPv6 40, UDP 8.
_HEADER_BYTES = {"ipv4": 42, "ipv6": 62, "vlan": 46, "qinq": 50}
_kinds = st.sampled_from(PACKETS)
_fitting = _kinds.flatmap(
    lambda kind: st.tuples(st.just(kind), st.integers(_HEADER_BYTES[kind], MAXIMUM_IP_FRAME_BYTES))
)


def _layers(parsed: Packet) -> tuple[type[Packet], ...]:
    return tuple(layer for layer in parsed.layers() if layer is not Raw)


@settings(max_examples=60, deadline=None)
@given(_fitting)
def test_any_size_that_fits_parses_back_as_asked(asked: tuple[str, int]) -> None:
    kind, frame_bytes = asked
    frame = udp_frame(kind, frame_bytes)
    assert len(frame.data) == frame_bytes
    assert frame.metadata == b""
    assert frame.linear_bytes is None
    parsed = Ether(frame.data)
    assert _layers(parsed) == _LAYERS[kind]
    assert (parsed[UDP].sport, parsed[UDP].dport) == (1234, 9)
    # No padding: the packet's own lengths end where the frame does.
    payload_bytes = frame_bytes - _HEADER_BYTES[kind]
    assert parsed[UDP].len == 8 + payload_bytes
    assert bytes(parsed[UDP].payload) == bytes(payload_bytes)


@pytest.mark.parametrize("kind", PACKETS)
def test_headers_are_as_long_as_the_shortest_packet(kind: str) -> None:
    least = headers_bytes(kind)
    assert least == _HEADER_BYTES[kind]
    assert bytes(Ether(udp_frame(kind, least).data)[UDP].payload) == b""


def test_the_longest_packet_is_the_longest_that_ipv4_can_name() -> None:
    assert MAXIMUM_IP_FRAME_BYTES == 14 + 65_535
    longest = Ether(udp_frame("ipv4", MAXIMUM_IP_FRAME_BYTES).data)
    assert longest[IP].len == 65_535


@pytest.mark.parametrize("kind", PACKETS)
def test_checksums_are_right(kind: str) -> None:
    frame = udp_frame(kind, 128)
    parsed = Ether(frame.data)
    for layer in (IP, UDP):
        if layer in parsed:
            # Without one, scapy works the checksum out when it builds the packet again.
            del parsed[layer].chksum
    assert bytes(parsed) == frame.data


@pytest.mark.parametrize("kind", PACKETS)
def test_addresses_are_nobodys(kind: str) -> None:
    parsed = Ether(udp_frame(kind, 64).data)
    for mac in (parsed.src, parsed.dst):
        # Locally administered, and not a group's.
        assert int(mac[:2], 16) & 0b11 == 0b10
    assert parsed.src != parsed.dst
    network = "2001:db8::" if kind == "ipv6" else "192.0.2."
    layer = parsed[IPv6] if kind == "ipv6" else parsed[IP]
    assert layer.src.startswith(network)
    assert layer.dst.startswith(network)


def test_tags_are_told_apart() -> None:
    parsed = Ether(udp_frame("qinq", 64).data)
    assert (parsed.type, parsed[Dot1AD].vlan, parsed[Dot1Q].vlan) == (0x88A8, 1, 2)
    assert Ether(udp_frame("vlan", 64).data).type == 0x8100


@pytest.mark.parametrize("kind", PACKETS)
@pytest.mark.parametrize("lacking", [1, 2, 30, 42, 60])
def test_too_short_for_its_headers_says_how_long_it_must_be(kind: str, lacking: int) -> None:
    frame_bytes = _HEADER_BYTES[kind] - lacking
    least = _HEADER_BYTES[kind]
    wanted = f"frame of {frame_bytes} bytes has no room for the {least} bytes of headers of {kind}"
    with pytest.raises(FrameError, match=f"{re.escape(wanted)}.*ask for {least} or more"):
        udp_frame(kind, frame_bytes)


@pytest.mark.parametrize("kind", PACKETS)
@pytest.mark.parametrize("frame_bytes", [MAXIMUM_IP_FRAME_BYTES + 1, MAXIMUM_BYTES, 10**9])
def test_too_long_for_an_ip_packet_says_the_limit(kind: str, frame_bytes: int) -> None:
    with pytest.raises(FrameError, match=f"{frame_bytes} bytes was asked for.*65549"):
        udp_frame(kind, frame_bytes)


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(FrameError, match="no packet kind 'ipx'; there are ipv4, ipv6, vlan, qinq"):
        udp_frame("ipx", 64)
    with pytest.raises(FrameError, match="no packet kind 'ipx'; there are ipv4, ipv6, vlan, qinq"):
        headers_bytes("ipx")


# --- layout


@pytest.mark.parametrize("size", [14, 60, MAXIMUM_BYTES])
def test_a_frame_may_be_as_long_as_the_kernel_takes(size: int) -> None:
    assert len(Frame(bytes(size)).data) == size


@pytest.mark.parametrize("size", [0, 13, MAXIMUM_BYTES + 1])
def test_another_length_is_refused(size: int) -> None:
    with pytest.raises(FrameError, match=f"a frame of {size} bytes was asked for.*14.*to 73000"):
        Frame(bytes(size))


@given(st.integers(0, 300))
def test_metadata_is_a_multiple_of_four_up_to_its_limit(size: int) -> None:
    if size % 4 == 0 and size <= MAXIMUM_METADATA_BYTES:
        assert Frame(bytes(64), metadata=bytes(size)).metadata == bytes(size)
    else:
        with pytest.raises(FrameError, match=f"metadata of {size} bytes.*multiple of 4 up to 216"):
            Frame(bytes(64), metadata=bytes(size))


@given(st.integers(-5, 120))
def test_the_linear_part_lies_within_the_frame(linear_bytes: int) -> None:
    if 14 <= linear_bytes <= 100:
        assert Frame(bytes(100), linear_bytes=linear_bytes).linear_bytes == linear_bytes
    else:
        with pytest.raises(FrameError, match=f"linear part of {linear_bytes} bytes.*14 to 100"):
            Frame(bytes(100), linear_bytes=linear_bytes)
