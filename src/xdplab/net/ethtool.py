"""What a driver says of itself: its name, its own counters, its features (ethtool's ioctl).

Everything is asked in the network namespace of the calling thread. `OSError` is the kernel's.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import re
import socket
import struct
from collections.abc import Mapping

# linux/sockios.h and linux/ethtool.h.
_SIOCETHTOOL = 0x8946
_GDRVINFO = 0x03
_GSTRINGS = 0x1B
_GSTATS = 0x1D
_GGRO, _SGRO = 0x2B, 0x2C
_GCHANNELS = 0x3C
_STATISTICS_SET = 1
_STRING_BYTES = 32
_DRVINFO_BYTES = 196
_N_STATS_OFFSET = 180

# Queues may be added between asking for a number and asking for as many values, and the kernel
# writes as many as there are then.
_SLACK = 4096


def _ask(interface: str, request: ctypes.Array[ctypes.c_char]) -> None:
    name = interface.encode()
    ifreq = struct.pack("@16sP16x", name, ctypes.addressof(request))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, _SIOCETHTOOL, ifreq)


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace").strip()


def driver_name(interface: str) -> str:
    """The driver's name, such as "veth"; "" where it tells nothing."""
    return _driver(interface)[0]


def _driver(interface: str) -> tuple[str, int]:
    request = ctypes.create_string_buffer(_DRVINFO_BYTES)
    struct.pack_into("=I", request, 0, _GDRVINFO)
    try:
        _ask(interface, request)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return "", 0
        raise
    (count,) = struct.unpack_from("=I", request, _N_STATS_OFFSET)
    return _text(request.raw[4:36]), count


def has_gro(interface: str) -> bool:
    """Whether generic receive offload is on (struct ethtool_value); False where it is unknown."""
    request = ctypes.create_string_buffer(struct.pack("=II", _GGRO, 0), 8)
    with contextlib.suppress(OSError):
        _ask(interface, request)
    return bool(struct.unpack_from("=I", request, 4)[0])


def queue_count(interface: str) -> int | None:
    """How many rx or tx queues are in use, whichever are more; None where the driver tells nothing.

    struct ethtool_channels: the command, the maxima of rx, tx, other and combined, then the counts.
    """
    request = ctypes.create_string_buffer(struct.pack("=I32x", _GCHANNELS), 36)
    try:
        _ask(interface, request)
    except OSError:
        return None
    rx, tx, _, combined = struct.unpack_from("=4I", request, 20)
    return int(max(rx, tx) + combined)


def name_of(ifindex: int) -> str:
    """The present name of an interface of the calling thread's namespace; "" where it is gone."""
    try:
        return socket.if_indextoname(ifindex)
    except OSError:
        return ""


class DriverCounters:
    """A driver's own counters (`ethtool -S`), their names asked for once.

    A driver without counters has none; that is no error. With the interface's `ifindex` they
    are still found when it was given another name.
    """

    def __init__(self, interface: str, ifindex: int | None = None) -> None:
        self._interface = interface
        self._ifindex = ifindex
        self._names: tuple[str, ...] = ()
        _, count = _driver(interface)
        if count:
            self._names = self._read_names(count)

    def _read_names(self, count: int) -> tuple[str, ...]:
        request = ctypes.create_string_buffer(12 + (count + _SLACK) * _STRING_BYTES)
        struct.pack_into("=III", request, 0, _GSTRINGS, _STATISTICS_SET, count)
        _ask(self._interface, request)
        raw = request.raw
        starts = range(12, 12 + count * _STRING_BYTES, _STRING_BYTES)
        return tuple(_text(raw[start : start + _STRING_BYTES]) for start in starts)

    def read(self) -> Mapping[str, int]:
        """Present values (u64) by name. OSError (ENODEV) where the interface is gone."""
        try:
            return self._read()
        except OSError as error:
            if error.errno != errno.ENODEV or self._ifindex is None:
                raise
            name = name_of(self._ifindex)
            if name in {"", self._interface}:
                raise
            self._interface = name
        return self._read()

    def _read(self) -> Mapping[str, int]:
        count = len(self._names)
        if not count:
            _driver(self._interface)
            return {}
        request = ctypes.create_string_buffer(8 + (count + _SLACK) * 8)
        struct.pack_into("=II", request, 0, _GSTATS, count)
        _ask(self._interface, request)
        return dict(zip(self._names, struct.unpack_from(f"={count}Q", request, 8), strict=True))


def set_gro(interface: str, on: bool) -> None:
    """Turn generic receive offload on or off (struct ethtool_value)."""
    _ask(interface, ctypes.create_string_buffer(struct.pack("=II", _SGRO, on), 8))


def summed(counters: Mapping[str, int]) -> dict[str, int]:
    """Queues' counters added up: `rx_queue_0_xdp_drops` and its likes become `rx_xdp_drops`."""
    total: dict[str, int] = {}
    for name, value in counters.items():
        short = re.sub(r"^(rx|tx)_queue_\d+_", r"\1_", name)
        total[short] = total.get(short, 0) + value
    return total
