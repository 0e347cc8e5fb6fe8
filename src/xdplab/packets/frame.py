"""Frames: bytes with their layout. Building one needs no interface and no privilege."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from xdplab.errors import FrameError

ETHERNET_BYTES = 14
MINIMUM_BYTES = ETHERNET_BYTES
"""The kernel's test run refuses anything shorter than an Ethernet header (EINVAL)."""

MAXIMUM_BYTES = 73_000
"""Where Linux 6.18 still runs a multi-buffer frame; from 73,500 it answers ENOMEM."""

MAXIMUM_IP_FRAME_BYTES = ETHERNET_BYTES + 65_535
"""An Ethernet header before the longest IPv4 packet (RFC 791: a total length of 16 bits)."""

MAXIMUM_METADATA_BYTES = 216
"""XDP_PACKET_HEADROOM (256) less sizeof(struct xdp_frame) (40)."""

PACKETS = ("ipv4", "ipv6", "vlan", "qinq")
"""Packet kinds of `udp_frame`: IPv4, IPv6, IPv4 behind one VLAN tag, and behind two."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as a program gets it.

    `data` is the linear part and the frags in one piece, `metadata` what lies in front of it.
    `linear_bytes` asks for that much of it in the linear part, None leaves it to the engine.
    `ingress_ifindex` and `rx_queue_index` (u32) are where a program is told that it came in; an
    ifindex of 0 leaves that to the engine, which has its queue 0 then.
    FrameError where the kernel could not take it.
    """

    data: bytes
    metadata: bytes = b""
    linear_bytes: int | None = None
    ingress_ifindex: int = 0
    rx_queue_index: int = 0

    def __post_init__(self) -> None:
        if not MINIMUM_BYTES <= len(self.data) <= MAXIMUM_BYTES:
            raise FrameError(
                f"a frame of {len(self.data)} bytes was asked for; "
                f"it must have {MINIMUM_BYTES} (an Ethernet header) to {MAXIMUM_BYTES} bytes"
            )
        if len(self.metadata) % 4 or len(self.metadata) > MAXIMUM_METADATA_BYTES:
            raise FrameError(
                f"metadata of {len(self.metadata)} bytes was asked for; its length must be "
                f"a multiple of 4 up to {MAXIMUM_METADATA_BYTES}"
            )
        if self.linear_bytes is not None and not (
            ETHERNET_BYTES <= self.linear_bytes <= len(self.data)
        ):
            raise FrameError(
                f"a linear part of {self.linear_bytes} bytes was asked for; it must have "
                f"{ETHERNET_BYTES} to {len(self.data)} bytes"
            )


_UDP_BYTES = 8
_HEADERS_BYTES = {
    "ipv4": ETHERNET_BYTES + 20 + _UDP_BYTES,
    "ipv6": ETHERNET_BYTES + 40 + _UDP_BYTES,
    "vlan": ETHERNET_BYTES + 4 + 20 + _UDP_BYTES,
    "qinq": ETHERNET_BYTES + 8 + 20 + _UDP_BYTES,
}


def headers_bytes(packet: str) -> int:
    """The least that a frame of that kind has: its headers, UDP included. FrameError if unknown."""
    if packet not in _HEADERS_BYTES:
        raise FrameError(f"there is no packet kind {packet!r}; there are {', '.join(PACKETS)}")
    return _HEADERS_BYTES[packet]


@functools.lru_cache
def udp_frame(packet: str, frame_bytes: int) -> Frame:
    """A UDP packet of one of PACKETS in a frame of `frame_bytes` (without the FCS).

    Addresses are those set aside for documentation (RFC 5737, RFC 3849) and MAC addresses
    locally administered ones. FrameError where the headers do not fit or the kind is unknown.
    """
    needed_bytes = headers_bytes(packet)
    if frame_bytes < needed_bytes:
        raise FrameError(
            f"a frame of {frame_bytes} bytes has no room for the {needed_bytes} bytes of headers "
            f"of {packet} and UDP; ask for {needed_bytes} or more"
        )
    if frame_bytes > MAXIMUM_IP_FRAME_BYTES:
        raise FrameError(
            f"a frame of {frame_bytes} bytes was asked for; IP's length field ends "
            f"at {MAXIMUM_IP_FRAME_BYTES} bytes of frame"
        )
    # Scapy takes most of a second to import; only who builds frames should wait for it.
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
    from scapy.packet import Raw

    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    ipv4 = IP(src="192.0.2.1", dst="192.0.2.2")
    layers = {
        "ipv4": ether / ipv4,
        "ipv6": ether / IPv6(src="2001:db8::1", dst="2001:db8::2"),
        "vlan": ether / Dot1Q(vlan=1) / ipv4,
        "qinq": ether / Dot1AD(vlan=1) / Dot1Q(vlan=2) / ipv4,
    }
    headers = layers[packet] / UDP(sport=1234, dport=9)
    return Frame(bytes(headers / Raw(bytes(frame_bytes - needed_bytes))))
