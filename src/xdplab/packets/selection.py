"""Which packets of a capture are meant: by their numbers, or by an expression of libpcap.

The expressions are tcpdump's (pcap-filter(7)), compiled by the system's libpcap and evaluated by
it, so that they mean here what they mean there. Compiling needs no interface and no privilege.
"""

from __future__ import annotations

import ctypes
import re
import weakref
from functools import cache

from xdplab.errors import FrameError, NotPossibleError
from xdplab.packets.pcap import CapturedFrame

_LIBRARIES = ("libpcap.so.0.8", "libpcap.so.1", "libpcap.so", "libpcap.dylib")
"""Debian's name of it, that of other distributions, what development packages have, macOS."""

_ETHERNET = 1
"""DLT_EN10MB (pcap/dlt.h)."""

_SNAPSHOT_BYTES = 262_144
_OPTIMIZED = 1
_NETMASK_UNKNOWN = 0xFFFF_FFFF
"""PCAP_NETMASK_UNKNOWN (pcap/pcap.h): `ip broadcast` is then refused."""


class _Program(ctypes.Structure):
    """struct bpf_program (pcap/bpf.h)."""

    _fields_ = (("bf_len", ctypes.c_uint), ("bf_insns", ctypes.c_void_p))


class _Header(ctypes.Structure):
    """struct pcap_pkthdr (pcap/pcap.h)."""

    _fields_ = (
        ("tv_sec", ctypes.c_long),
        ("tv_usec", ctypes.c_long),
        ("caplen", ctypes.c_uint32),
        ("len", ctypes.c_uint32),
    )


@cache
def _library() -> ctypes.CDLL:
    for name in _LIBRARIES:
        try:
            lib = ctypes.CDLL(name)
        except OSError:
            continue
        lib.pcap_open_dead.restype = ctypes.c_void_p
        lib.pcap_open_dead.argtypes = (ctypes.c_int, ctypes.c_int)
        lib.pcap_compile.argtypes = (
            *(ctypes.c_void_p, ctypes.POINTER(_Program), ctypes.c_char_p),
            *(ctypes.c_int, ctypes.c_uint32),
        )
        lib.pcap_geterr.restype = ctypes.c_char_p
        lib.pcap_geterr.argtypes = (ctypes.c_void_p,)
        lib.pcap_offline_filter.argtypes = (
            *(ctypes.POINTER(_Program), ctypes.POINTER(_Header), ctypes.c_char_p),
        )
        lib.pcap_freecode.argtypes = (ctypes.POINTER(_Program),)
        lib.pcap_close.argtypes = (ctypes.c_void_p,)
        return lib
    raise NotPossibleError(
        "packets cannot be filtered: libpcap, which knows the expressions, is not installed. "
        "Install it (Debian and Ubuntu: apt-get install libpcap0.8; Fedora: dnf install libpcap), "
        "or choose packets by their numbers (--packets)"
    )


class Filter:
    """An expression of pcap-filter(7) on Ethernet frames, such as "udp port 53".

    NotPossibleError without libpcap, FrameError with its reason for what it does not understand.
    """

    def __init__(self, expression: str) -> None:
        lib = _library()
        self._program = _Program()
        self._header = _Header()
        self._run = lib.pcap_offline_filter
        handle = lib.pcap_open_dead(_ETHERNET, _SNAPSHOT_BYTES)
        if not handle:
            raise MemoryError
        try:
            result = lib.pcap_compile(
                handle,
                ctypes.byref(self._program),
                expression.encode(errors="surrogateescape"),
                _OPTIMIZED,
                _NETMASK_UNKNOWN,
            )
            if result:
                said = lib.pcap_geterr(handle).decode(errors="replace")
                raise FrameError(
                    f"the filter {expression!r} was not understood: {said}. Give an expression as "
                    "tcpdump takes it, such as 'udp port 53' (man pcap-filter)"
                )
        finally:
            lib.pcap_close(handle)
        weakref.finalize(self, lib.pcap_freecode, self._program)

    def takes(self, frame: CapturedFrame) -> bool:
        """Whether the expression is true of the frame, as far as it was captured."""
        captured_bytes = len(frame.data)
        self._header.caplen = captured_bytes
        self._header.len = captured_bytes + frame.cut_bytes
        return bool(self._run(self._program, self._header, frame.data))


class Numbers:
    """Numbers of packets in their capture, from 1 as Wireshark counts: "3", "10-20", "5-", and
    several of these with commas between. FrameError for anything else."""

    def __init__(self, text: str) -> None:
        self._ranges: list[tuple[int, int | None]] = []
        for part in text.split(","):
            found = re.fullmatch(r"([0-9]{1,18})(-([0-9]{0,18}))?", part.strip())
            first = int(found[1]) if found else 0
            last: int | None = first
            if found and found[2]:
                last = int(found[3]) if found[3] else None
            if not first or (last is not None and last < first):
                raise FrameError(
                    f"{text!r} names no packets. Give their numbers from 1 on: 3, 10-20, 5-, or "
                    "several of these with commas between"
                )
            self._ranges.append((first, last))
        ends = [last for _, last in self._ranges if last is not None]
        self.last: int | None = max(ends) if len(ends) == len(self._ranges) else None
        """The last number that is meant; None where there is no end."""

    def takes(self, number: int) -> bool:
        """Whether the packet of that number is meant."""
        return any(
            first <= number and (last is None or number <= last) for first, last in self._ranges
        )
