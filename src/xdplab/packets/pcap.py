"""Frames out of captures: pcap and pcapng, one at a time, however large the file.

Read strictly: a capture that breaks off must not be taken for a whole one, since counts are said
to be exact. Its packets until then are given all the same, and the error comes behind them.
Formats: libpcap's pcap-savefile(5), and the pcapng draft of the IETF (opsawg).
"""

from __future__ import annotations

import errno
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from xdplab.errors import CaptureEndError, FrameError

_ETHERNET = 1
"""LINKTYPE_ETHERNET (tcpdump.org, link-layer header types)."""

_MAXIMUM_BYTES = 262_144
"""libpcap's largest snapshot length: a longer packet is damage, not data."""

_FCS_BYTES = 4
"""IEEE 802.3. Writers disagree on the unit in which captures tell of it (bits, bytes, words of 16
bits), but Ethernet knows no other length."""

_LINK_HAS_FCS = 0x0400_0000
"""Above a pcap header's link type: the topmost four bits say how long an FCS its packets have."""

_PCAP_MAGIC = {
    b"\xd4\xc3\xb2\xa1": "<",
    b"\xa1\xb2\xc3\xd4": ">",
    b"\x4d\x3c\xb2\xa1": "<",
    b"\xa1\xb2\x3c\x4d": ">",
}
"""First bytes (times in us, in ns) -> byte order for struct."""

_SECTION, _INTERFACE, _OBSOLETE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
"""Types of pcapng blocks. Old writers have the obsolete packet block for the enhanced one."""

_OPTIONS_END, _PACKET_FLAGS, _INTERFACE_FCS = 0, 2, 13
_FLAGS_FCS = 0b1111 << 5
"""Where a packet's flags have the length of its FCS; 0 leaves that to the interface."""

_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "zcat"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstdcat"),
    b"\xfd7zX": ("xz", "xzcat"),
}
"""First bytes (RFC 1952, RFC 8878, the .xz file format) -> their format, and what reads it."""

_STDIN = Path("-")

_SECTION_BYTES = b"\x0a\x0d\x0d\x0a"
_ORDER_MAGIC = 0x1A2B3C4D


@dataclass(frozen=True, slots=True)
class CapturedFrame:
    """A frame as far as it was captured, without its FCS, which no XDP program is given.

    `cut_bytes` is how much more of it went by than was captured: a snapshot length, as by
    tcpdump's -s.
    """

    data: bytes
    cut_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Interface:
    linktype: int
    snap: int
    has_fcs: bool


def capture_frames(path: Path) -> Iterator[CapturedFrame]:
    """The frames of a capture in its order, while they are read: it may be a pipe, and "-" is the
    standard input.

    FrameError where it cannot be read, is no capture, is damaged, or holds something else than
    Ethernet frames; CaptureEndError where it ends in mid-packet behind whole ones.
    """
    number, name = 0, capture_name(path)
    try:
        with _opened(path) as file:
            magic = file.read(4)
            frames = _Reader(file, name)
            known = frames.pcapng() if magic == _SECTION_BYTES else frames.pcap(magic)
            for frame in known:
                number += 1
                yield frame
    except OSError as error:
        raise FrameError(f"reading {name} failed: {error.strerror or error}") from None
    if number == 0:
        raise FrameError(f"{name} holds no packets")


def capture_name(path: Path) -> str:
    """What messages call a capture."""
    return "standard input" if path == _STDIN else repr(str(path))


def _opened(path: Path) -> AbstractContextManager[BinaryIO]:
    if path != _STDIN:
        return path.open("rb")
    if sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed")
    return nullcontext(sys.stdin.buffer)


class _Reader:
    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._packets = 0

    def _error(self, what: str) -> FrameError:
        where = f"behind packet {self._packets}" if self._packets else "at its start"
        return FrameError(
            f"reading {self._name} failed {where}: {what}. Is it a whole pcap or pcapng file?"
        )

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        self._check_whole(data, size)
        return data

    def _check_whole(self, data: bytes, size: int) -> None:
        if len(data) == size:
            return
        error = self._error(f"it ends in the middle ({len(data)} of {size} bytes)")
        raise CaptureEndError(str(error)) if self._packets else error

    def _check_link(self, linktype: int) -> None:
        if linktype != _ETHERNET:
            raise FrameError(f"{self._name} holds frames of link type {linktype}, not Ethernet (1)")

    def _check_length(self, length: int) -> None:
        if length > _MAXIMUM_BYTES:
            raise self._error(f"a packet of {length} bytes cannot be")

    def _frame(self, data: bytes, original: int, has_fcs: bool) -> CapturedFrame:
        self._packets += 1
        # Some writers have shorter originals than what they captured of them.
        on_wire = max(original, len(data)) - (_FCS_BYTES if has_fcs else 0)
        data = data[: max(on_wire, 0)]
        return CapturedFrame(data, max(0, on_wire - len(data)))

    def pcap(self, magic: bytes) -> Iterator[CapturedFrame]:
        order = _PCAP_MAGIC.get(magic)
        if order is None:
            for start, (packing, tool) in _COMPRESSED.items():
                if magic.startswith(start):
                    raise FrameError(
                        f"reading {self._name} failed: it is compressed ({packing}). Decompress it "
                        f"first: {tool} FILE | xdplab count ... --pcap -"
                    )
            what = "does not begin as a capture does" if magic else "is empty"
            raise self._error(f"it {what}")
        link = struct.unpack(f"{order}I", self._exactly(20)[16:])[0]
        self._check_link(link & 0xFFFF)
        has_fcs = bool(link & _LINK_HAS_FCS and link >> 28)
        while header := self._file.read(16):
            self._check_whole(header, 16)
            length, original = struct.unpack(f"{order}II", header[8:])
            self._check_length(length)
            yield self._frame(self._exactly(length), original, has_fcs)

    def pcapng(self) -> Iterator[CapturedFrame]:
        order = "<"
        interfaces: list[_Interface] = []
        kind_bytes = _SECTION_BYTES
        while kind_bytes:
            self._check_whole(kind_bytes, 4)
            if kind_bytes == _SECTION_BYTES:
                order, body = self._section()
                interfaces = []
                kind = _SECTION
            else:
                kind, length = struct.unpack(f"{order}II", kind_bytes + self._exactly(4))
                body = self._body(order, length, 8)
            if kind == _INTERFACE:
                interfaces.append(self._interface(order, body))
            elif kind in {_OBSOLETE, _SIMPLE, _ENHANCED}:
                yield self._packet(order, kind, body, interfaces)
            kind_bytes = self._file.read(4)

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

    def _options(self, order: str, data: bytes) -> Mapping[int, bytes]:
        found: dict[int, bytes] = {}
        at = 0
        while at + 4 <= len(data):
            code, length = struct.unpack(f"{order}HH", data[at : at + 4])
            if code == _OPTIONS_END:
                break
            at += 4
            if at + length > len(data):
                raise self._error(f"an option of {length} bytes is longer than its block")
            found[code] = data[at : at + length]
            at += length + -length % 4
        return found

    def _interface(self, order: str, body: bytes) -> _Interface:
        if len(body) < 8:
            raise self._error("an interface block is too short")
        linktype, _, snap = struct.unpack(f"{order}HHI", body[:8])
        fcs = self._options(order, body[8:]).get(_INTERFACE_FCS, b"")
        return _Interface(linktype, snap, has_fcs=any(fcs))

    def _packet(
        self, order: str, kind: int, body: bytes, interfaces: list[_Interface]
    ) -> CapturedFrame:
        header = 4 if kind == _SIMPLE else 20
        if len(body) < header:
            raise self._error("a packet block is too short")
        words = struct.unpack(f"{order}{header // 4}I", body[:header])
        number = 0
        if kind == _ENHANCED:
            number = words[0]
        elif kind == _OBSOLETE:
            # The other half of the word counts drops.
            number = struct.unpack(f"{order}H", body[:2])[0]
        if number >= len(interfaces):
            raise self._error(f"a packet is of interface {number}, which is not declared")
        interface = interfaces[number]
        self._check_link(interface.linktype)
        original = words[-1]
        length = min(original, interface.snap or original) if kind == _SIMPLE else words[3]
        self._check_length(length)
        if header + length > len(body):
            raise self._error(f"a packet of {length} bytes is longer than its block")
        has_fcs = interface.has_fcs
        if kind != _SIMPLE:
            options = self._options(order, body[header + length + -length % 4 :])
            flags = options.get(_PACKET_FLAGS, b"")
            if len(flags) == 4 and struct.unpack(f"{order}I", flags)[0] & _FLAGS_FCS:
                has_fcs = True
        return self._frame(body[header : header + length], original, has_fcs)
