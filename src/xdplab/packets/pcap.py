"""Frames out of captures: pcap and pcapng, one at a time, however large the file.

Read strictly: a capture that breaks off must not be taken for a whole one, since counts are said
to be exact. Formats: libpcap's pcap-savefile(5), and the pcapng draft of the IETF (opsawg).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from xdplab.errors import FrameError

_ETHERNET = 1
"""LINKTYPE_ETHERNET (tcpdump.org, link-layer header types)."""

_MAXIMUM_BYTES = 262_144
"""libpcap's largest snapshot length: a longer packet is damage, not data."""

_PCAP_MAGIC = {
    b"\xd4\xc3\xb2\xa1": "<",
    b"\xa1\xb2\xc3\xd4": ">",
    b"\x4d\x3c\xb2\xa1": "<",
    b"\xa1\xb2\x3c\x4d": ">",
}
"""First bytes (times in us, in ns) -> byte order for struct."""

_SECTION, _INTERFACE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 3, 6
_SECTION_BYTES = b"\x0a\x0d\x0d\x0a"
_ORDER_MAGIC = 0x1A2B3C4D


def capture_frames(path: Path) -> Iterator[bytes]:
    """The frames of a capture in its order, as they were captured.

    FrameError where the file cannot be read, is no capture, breaks off in mid-packet, or holds
    something else than Ethernet frames.
    """
    number = 0
    try:
        if not path.is_file():
            raise FrameError(f"reading {str(path)!r} failed: it is no file, or not there")
        with path.open("rb") as file:
            magic = file.read(4)
            frames = _Reader(file, path)
            known = frames.pcapng() if magic == _SECTION_BYTES else frames.pcap(magic)
            for data in known:
                number += 1
                yield data
    except OSError as error:
        raise FrameError(f"reading {str(path)!r} failed: {error.strerror or error}") from None
    if number == 0:
        raise FrameError(f"{str(path)!r} holds no packets")


class _Reader:
    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._packets = 0

    def _error(self, what: str) -> FrameError:
        where = f"behind packet {self._packets}" if self._packets else "at its start"
        return FrameError(
            f"reading {str(self._path)!r} failed {where}: {what}. "
            "Is it a whole pcap or pcapng file?"
        )

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise self._error(f"it ends in the middle ({len(data)} of {size} bytes)")
        return data

    def _check_link(self, linktype: int) -> None:
        if linktype != _ETHERNET:
            raise FrameError(
                f"{str(self._path)!r} holds frames of link type {linktype}, not Ethernet (1)"
            )

    def _check_length(self, length: int) -> None:
        if length > _MAXIMUM_BYTES:
            raise self._error(f"a packet of {length} bytes cannot be")

    def pcap(self, magic: bytes) -> Iterator[bytes]:
        order = _PCAP_MAGIC.get(magic)
        if order is None:
            raise self._error("it does not begin as a capture does")
        # The upper half of the field tells of an FCS, which test runs do not mind.
        self._check_link(struct.unpack(f"{order}I", self._exactly(20)[16:])[0] & 0xFFFF)
        while first := self._file.read(1):
            header = first + self._exactly(15)
            length = struct.unpack(f"{order}I", header[8:12])[0]
            self._check_length(length)
            data = self._exactly(length)
            self._packets += 1
            yield data

    def pcapng(self) -> Iterator[bytes]:
        order = "<"
        interfaces: list[tuple[int, int]] = []
        kind_bytes = _SECTION_BYTES
        while kind_bytes:
            kind_bytes += self._exactly(4 - len(kind_bytes))
            if kind_bytes == _SECTION_BYTES:
                order, body = self._section()
                interfaces = []
                kind = _SECTION
            else:
                kind, length = struct.unpack(f"{order}II", kind_bytes + self._exactly(4))
                body = self._body(order, length, 8)
            if kind == _INTERFACE:
                if len(body) < 8:
                    raise self._error("an interface block is too short")
                linktype, _, snap = struct.unpack(f"{order}HHI", body[:8])
                interfaces.append((linktype, snap))
            elif kind in {_SIMPLE, _ENHANCED}:
                yield self._packet(order, kind, body, interfaces)
            kind_bytes = self._file.read(1)

    def _section(self) -> tuple[str, bytes]:
        length_bytes, magic = self._exactly(4), self._exactly(4)
        for order in "<>":
            if struct.unpack(f"{order}I", magic)[0] == _ORDER_MAGIC:
                return order, self._body(order, struct.unpack(f"{order}I", length_bytes)[0], 12)
        raise self._error("a section names no byte order")

    def _body(self, order: str, length: int, read: int) -> bytes:
        """A block's body behind `read` bytes of it; its length stands at its end once more."""
        if length % 4 or length < read + 4 or length > 16 * _MAXIMUM_BYTES:
            raise self._error(f"a block of {length} bytes cannot be")
        rest = self._exactly(length - read)
        if struct.unpack(f"{order}I", rest[-4:])[0] != length:
            raise self._error("a block's two lengths differ")
        return rest[:-4]

    def _packet(
        self, order: str, kind: int, body: bytes, interfaces: list[tuple[int, int]]
    ) -> bytes:
        header = 20 if kind == _ENHANCED else 4
        if len(body) < header:
            raise self._error("a packet block is too short")
        words = struct.unpack(f"{order}{header // 4}I", body[:header])
        interface = words[0] if kind == _ENHANCED else 0
        if interface >= len(interfaces):
            raise self._error(f"a packet is of interface {interface}, which is not declared")
        linktype, snap = interfaces[interface]
        self._check_link(linktype)
        length = words[3] if kind == _ENHANCED else min(words[0], snap or words[0])
        self._check_length(length)
        if header + length > len(body):
            raise self._error(f"a packet of {length} bytes is longer than its block")
        self._packets += 1
        return body[header : header + length]
