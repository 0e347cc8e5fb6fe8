"""AF_XDP as linux/if_xdp.h and linux/socket.h have it: numbers, structures, descriptors."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

AF_XDP = 44
SOL_XDP = 283

# Socket options.
XDP_MMAP_OFFSETS = 1
XDP_RX_RING = 2
XDP_TX_RING = 3
XDP_UMEM_REG = 4
XDP_UMEM_FILL_RING = 5
XDP_UMEM_COMPLETION_RING = 6
XDP_STATISTICS = 7
XDP_OPTIONS = 8
XDP_MAX_TX_SKB_BUDGET = 9

# sxdp_flags
XDP_SHARED_UMEM = 1 << 0
XDP_COPY = 1 << 1
XDP_ZEROCOPY = 1 << 2
XDP_USE_NEED_WAKEUP = 1 << 3
XDP_USE_SG = 1 << 4

XDP_OPTIONS_ZEROCOPY = 1 << 0
XDP_RING_NEED_WAKEUP = 1 << 0

XDP_PKT_CONTD = 1 << 0
"""In a descriptor's options: the packet goes on in the next descriptor."""

# Where each ring is mapped from.
XDP_PGOFF_RX_RING = 0
XDP_PGOFF_TX_RING = 0x80000000
XDP_UMEM_PGOFF_FILL_RING = 0x100000000
XDP_UMEM_PGOFF_COMPLETION_RING = 0x180000000

XDP_PACKET_HEADROOM_BYTES = 256
"""What the kernel leaves free before each received packet (linux/bpf.h), metadata included."""

MINIMUM_CHUNK_BYTES = 2048
"""XDP_UMEM_MIN_CHUNK_SIZE (net/xdp_sock.h); the largest is a page."""

DESCRIPTOR = np.dtype([("addr", np.uint64), ("len", np.uint32), ("options", np.uint32)])
"""struct xdp_desc: where in the umem (bytes from its start), how long (bytes), XDP_PKT_CONTD."""

Descriptors = NDArray[Any]
"""A structured array of DESCRIPTOR."""

Addresses = NDArray[np.uint64]
"""Places in a umem, in bytes from its start."""


class UmemReg(ctypes.Structure):
    """struct xdp_umem_reg as of its first 28 bytes and the padding behind them."""

    _fields_ = (
        ("addr", ctypes.c_uint64),
        ("len", ctypes.c_uint64),
        ("chunk_size", ctypes.c_uint32),
        ("headroom", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("tx_metadata_len", ctypes.c_uint32),
    )


class SockaddrXdp(ctypes.Structure):
    """struct sockaddr_xdp"""

    _fields_ = (
        ("family", ctypes.c_uint16),
        ("flags", ctypes.c_uint16),
        ("ifindex", ctypes.c_uint32),
        ("queue_id", ctypes.c_uint32),
        ("shared_umem_fd", ctypes.c_uint32),
    )


@dataclass(frozen=True, slots=True)
class XskStatistics:
    """struct xdp_statistics: u64 counts since the socket was made.

    `rx_dropped`: for want of a frame in the fill ring, or because the packet is longer than a frame
    and the socket has no frags. `rx_ring_full`: nobody took what had come. `rx_fill_ring_empty`:
    how often the kernel found the fill ring empty. `rx_invalid`, `tx_invalid`: descriptors that
    the kernel refused. `tx_ring_empty`: how often it found nothing to send.
    """

    rx_dropped: int
    rx_invalid: int
    tx_invalid: int
    rx_ring_full: int
    rx_fill_ring_empty: int
    tx_ring_empty: int

    @property
    def lost(self) -> int:
        """Packets that came to the socket and were not received."""
        return self.rx_dropped + self.rx_ring_full

    def as_dict(self) -> Mapping[str, int]:
        """Counts by name, in the order of the kernel's structure."""
        return {name: getattr(self, name) for name in self.__slots__}
