"""What a generator sends: packets of many flows, or the frames of a capture.

A flow's packets differ from another's in addresses and ports, which run through ranges; all
combinations come in turn, source ports fastest. Only these fields and the checksums over them
change from packet to packet, so that a generator needs one frame, the places of the fields, and
the sums of what stays: a one's complement sum (RFC 1071) can be completed for each packet.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from xdplab.errors import FrameError
from xdplab.packets.frame import ETHERNET_BYTES, MAXIMUM_IP_FRAME_BYTES

Frames = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint64]

UDP, TCP = "udp", "tcp"
_PROTOCOLS = {UDP: 17, TCP: 6}
_TRANSPORT_BYTES = {UDP: 8, TCP: 20}
_CHECKSUM_AT = {UDP: 6, TCP: 16}
_VLAN_BYTES = 4
_MOST_VLANS = 2


@dataclass(frozen=True, slots=True)
class Span:
    """The values first, first + 1, ..., first + count - 1 of a field, in host order."""

    first: int
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise FrameError(f"a range of {self.count} values was asked for; it must have one")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the frame that may vary: `size_bytes` (2 or 4) at `offset`, big-endian."""

    offset: int
    size_bytes: int
    span: Span


@dataclass(frozen=True)
class Flows:
    """Packets of one kind with ranges of addresses and ports.

    `frame_bytes` is the frame's length without the FCS. Addresses are of IPv4 or of IPv6, both
    alike; ranges of IPv6 addresses stay within their last 32 bits. `vlans` are the tags, outer
    first. FrameError where the headers do not fit or a range leaves its field.
    """

    source: Span
    destination: Span
    ipv6: bool = False
    protocol: str = UDP
    source_port: Span = Span(1234)
    destination_port: Span = Span(9)
    frame_bytes: int = 64
    vlans: tuple[int, ...] = ()
    source_mac: str = "02:00:00:00:00:01"
    destination_mac: str = "02:00:00:00:00:02"

    def __post_init__(self) -> None:
        if len(self.vlans) > _MOST_VLANS or not all(0 <= tag < 4096 for tag in self.vlans):
            raise FrameError(
                f"VLAN tags {', '.join(map(str, self.vlans))} were asked for; there can be "
                f"{_MOST_VLANS} of 0 to 4095"
            )
        needed = self.header_bytes
        if not needed <= self.frame_bytes <= MAXIMUM_IP_FRAME_BYTES:
            raise FrameError(
                f"a frame of {self.frame_bytes} bytes was asked for; with these headers it must "
                f"have {needed} to {MAXIMUM_IP_FRAME_BYTES}"
            )
        bits = 128 if self.ipv6 else 32
        for what, span in (("source", self.source), ("destination", self.destination)):
            _check(f"{what} addresses", span, bits)
            if span.count >= 2**32:
                raise FrameError(f"the range of {what} addresses has more than 2^32 - 1 of them")
            if span.first % 2**32 + span.count > 2**32:
                raise FrameError(f"the range of {what} addresses goes beyond its last 32 bits")
        _check("source ports", self.source_port, 16)
        _check("destination ports", self.destination_port, 16)

    @property
    def _network_at(self) -> int:
        return ETHERNET_BYTES + _VLAN_BYTES * len(self.vlans)

    @property
    def _transport_at(self) -> int:
        return self._network_at + (40 if self.ipv6 else 20)

    @property
    def header_bytes(self) -> int:
        """Ethernet to the transport's header, without what it carries."""
        return self._transport_at + _TRANSPORT_BYTES[self.protocol]

    @property
    def fields(self) -> tuple[Field, Field, Field, Field]:
        """Source port, destination port, source address, destination address: fastest first."""
        # Addresses vary in their last four bytes.
        source_at = self._network_at + (20 if self.ipv6 else 12)
        destination_at = self._network_at + (36 if self.ipv6 else 16)
        return (
            Field(self._transport_at, 2, self.source_port),
            Field(self._transport_at + 2, 2, self.destination_port),
            Field(source_at, 4, Span(self.source.first % 2**32, self.source.count)),
            Field(destination_at, 4, Span(self.destination.first % 2**32, self.destination.count)),
        )

    @property
    def count(self) -> int:
        """How many flows there are: packets after which the first comes again."""
        return math.prod(field.span.count for field in self.fields)

    @property
    def longest_bytes(self) -> int:
        """The length of its longest frame."""
        return self.frame_bytes

    @property
    def ip_checksum_offset(self) -> int:
        """Where IPv4's checksum is; 0 where there is none."""
        return 0 if self.ipv6 else self._network_at + 10

    @property
    def checksum_offset(self) -> int:
        """Where the transport's checksum is."""
        return self._transport_at + _CHECKSUM_AT[self.protocol]

    @cached_property
    def first_frame(self) -> bytes:
        """The first flow's frame, checksums right."""
        # Scapy takes most of a second to import; only who builds frames should wait for it.
        from scapy.layers.inet import IP
        from scapy.layers.inet import TCP as Tcp
        from scapy.layers.inet import UDP as Udp
        from scapy.layers.inet6 import IPv6
        from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
        from scapy.packet import Raw

        packet = Ether(src=self.source_mac, dst=self.destination_mac)
        for place, tag in enumerate(self.vlans):
            outer_of_two = place == 0 and len(self.vlans) > 1
            packet /= (Dot1AD if outer_of_two else Dot1Q)(vlan=tag)
        addresses = [
            str((ipaddress.IPv6Address if self.ipv6 else ipaddress.IPv4Address)(span.first))
            for span in (self.source, self.destination)
        ]
        packet /= (IPv6 if self.ipv6 else IP)(src=addresses[0], dst=addresses[1])
        packet /= (Udp if self.protocol == UDP else Tcp)(
            sport=self.source_port.first, dport=self.destination_port.first
        )
        return bytes(packet / Raw(bytes(self.frame_bytes - self.header_bytes)))

    @cached_property
    def sums(self) -> tuple[int, int]:
        """Little-endian sums over all that stays: of IPv4's header (0: none), of the transport.

        A program on a little-endian machine adds the varied fields, each as it lies in memory,
        folds, and complements. The transport's has the pseudo header in it.
        """
        frame = np.frombuffer(self.first_frame, np.uint8).copy()
        addresses = frame[self._network_at + (8 if self.ipv6 else 12) : self._transport_at].copy()
        frame[self.checksum_offset : self.checksum_offset + 2] = 0
        if self.ip_checksum_offset:
            frame[self.ip_checksum_offset : self.ip_checksum_offset + 2] = 0
        source_port, destination_port, source, destination = self.fields
        for field in (source_port, destination_port):
            if field.span.count > 1:
                frame[field.offset : field.offset + 2] = 0
        half = len(addresses) // 2
        for field, end in ((source, half), (destination, 2 * half)):
            if field.span.count > 1:
                frame[field.offset : field.offset + 4] = 0
                addresses[end - 4 : end] = 0
        segment = frame[self._transport_at :]
        pseudo = len(segment).to_bytes(4, "big") + bytes((0, 0, 0, _PROTOCOLS[self.protocol]))
        transport = _sum(addresses) + _sum(np.frombuffer(pseudo, np.uint8)) + _sum(segment)
        if not self.ip_checksum_offset:
            return 0, transport
        return _sum(frame[self._network_at : self._transport_at]), transport

    def write(self, frames: Frames, start: int) -> None:
        """Set the varied fields and checksums of packets `start`, `start` + 1, ... in place.

        `frames` has shape (packets, at least `header_bytes`), each row a first frame before.
        """
        places = start + np.arange(len(frames), dtype=np.uint64)
        ip_total = np.full(len(frames), self.sums[0], np.uint64)
        total = np.full(len(frames), self.sums[1], np.uint64)
        for field in self.fields:
            count = field.span.count
            if count == 1:
                continue
            values = field.span.first + places % np.uint64(count)
            places = places // np.uint64(count)
            written = values.astype(f">u{field.size_bytes}").view(np.uint8)
            columns = written.reshape(len(frames), field.size_bytes)
            frames[:, field.offset : field.offset + field.size_bytes] = columns
            words = columns.copy().view("<u2").astype(np.uint64).sum(axis=1)
            total += words
            if field.size_bytes == 4:
                ip_total += words
        if self.ip_checksum_offset:
            _write_checksums(frames, self.ip_checksum_offset, _complement(ip_total))
        checksums = _complement(total)
        if self.protocol == UDP:
            # 0 would mean that there is none (RFC 768).
            checksums[checksums == 0] = 0xFFFF
        _write_checksums(frames, self.checksum_offset, checksums)

    def frame(self, index: int) -> bytes:
        """The frame of packet `index`, from 0."""
        row = np.frombuffer(self.first_frame, np.uint8).copy().reshape(1, -1)
        if self.count > 1:
            self.write(row, index)
        return row.tobytes()


@dataclass(frozen=True)
class Captured:
    """Frames that were captured, sent in their order and then from the first again.

    FrameError where there is none.
    """

    frames: Sequence[bytes]

    def __post_init__(self) -> None:
        if not self.frames:
            raise FrameError("there is no frame to send")

    @property
    def count(self) -> int:
        """How many frames there are."""
        return len(self.frames)

    @cached_property
    def longest_bytes(self) -> int:
        """The length of the longest frame."""
        return max(map(len, self.frames))

    def frame(self, index: int) -> bytes:
        """The frame of packet `index`, from 0."""
        return self.frames[index % len(self.frames)]


Traffic = Flows | Captured


def address_span(text: str) -> tuple[Span, bool]:
    """A range of addresses and whether they are IPv6: "192.0.2.1", "192.0.2.1-192.0.2.9" or
    "198.18.0.0/16". FrameError for anything else."""
    try:
        if "/" in text:
            network = ipaddress.ip_network(text)
            return Span(int(network[0]), network.num_addresses), network.version == 6
        low_text, dash, high_text = text.partition("-")
        low = ipaddress.ip_address(low_text)
        high = ipaddress.ip_address(high_text) if dash else low
        if low.version == high.version and int(low) <= int(high):
            return Span(int(low), int(high) - int(low) + 1), low.version == 6
    except ValueError:
        pass
    raise FrameError(
        f"{text!r} is no range of addresses such as 192.0.2.1, 192.0.2.1-192.0.2.9 or 198.18.0.0/16"
    )


def port_span(text: str) -> Span:
    """A range of ports: "9" or "1000-1999". FrameError for anything else."""
    found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", text, re.ASCII)
    if found:
        low, high = int(found[1]), int(found[2] or found[1])
        if low <= high < 2**16:
            return Span(low, high - low + 1)
    raise FrameError(f"{text!r} is no range of ports such as 9 or 1000-1999 (up to 65535)")


def _check(what: str, span: Span, bits: int) -> None:
    if span.first < 0 or span.first + span.count > 2**bits:
        raise FrameError(f"the range of {what} leaves its {bits} bits")


def _sum(data: Frames) -> int:
    padded = data if len(data) % 2 == 0 else np.append(data, np.uint8(0))
    return int(padded.copy().view("<u2").astype(np.uint64).sum())


def _complement(total: _Words) -> _Words:
    for _ in range(3):
        total = (total & np.uint64(0xFFFF)) + (total >> np.uint64(16))
    return total ^ np.uint64(0xFFFF)


def _write_checksums(frames: Frames, offset: int, values: _Words) -> None:
    frames[:, offset : offset + 2] = values.astype("<u2").view(np.uint8).reshape(-1, 2)
