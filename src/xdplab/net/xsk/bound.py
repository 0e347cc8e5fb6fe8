"""An AF_XDP socket's life: opened, its rings mapped, bound to a queue, closed in order."""

from __future__ import annotations

import contextlib
import struct
from typing import Literal, get_args

import numpy as np

from xdplab.errors import UsageError
from xdplab.net.xsk import abi, opening
from xdplab.net.xsk.abi import XskStatistics
from xdplab.net.xsk.closing import Closing
from xdplab.net.xsk.metadata import Metadata, check_metadata
from xdplab.net.xsk.rings import ConsumerRing, ProducerRing, Ring
from xdplab.net.xsk.umem import Umem

BindMode = Literal["copy", "zero-copy"]

_FLAGS = {None: 0, "copy": abi.XDP_COPY, "zero-copy": abi.XDP_ZEROCOPY}

_UNUSED_RING = 64
"""Entries of fill where nothing is received and of completion where nothing is sent: the kernel
wants both rings all the same."""


class BoundSocket(Closing):
    """The socket of `Xsk`, whose arguments these are, without what moves packets."""

    def __init__(
        self,
        interface: str,
        queue: int,
        *,
        umem: Umem | None,
        rx_ring: int,
        tx_ring: int,
        mode: BindMode | None,
        frags: bool,
        need_wakeup: bool,
        metadata: Metadata,
        patience_s: float,
    ) -> None:
        self.interface = interface
        self.queue = queue
        self.mode = mode
        self.frags = frags
        self.metadata = metadata
        self.is_zero_copy = False
        self._rings: list[Ring] = []
        self._rx: ConsumerRing | None = None
        self._tx: ProducerRing | None = None
        _check(rx_ring, tx_ring, queue, mode)
        check_metadata(metadata)
        ifindex = opening.interface_index(interface)
        self._socket = opening.open_socket()
        self._owns_umem = umem is None
        try:
            self.umem = Umem(2 * (rx_ring + tx_ring)) if umem is None else umem
            self._map(rx_ring, tx_ring)
            self._bind(ifindex, need_wakeup, patience_s)
        except BaseException:
            self.close()
            raise

    def _map(self, rx_ring: int, tx_ring: int) -> None:
        raw = self._socket
        if not self.umem.owners:
            opening.register_umem(raw, self.umem)
        fill, completion = 2 * rx_ring or _UNUSED_RING, 2 * tx_ring or _UNUSED_RING
        for option, entries in (
            (abi.XDP_UMEM_FILL_RING, fill),
            (abi.XDP_UMEM_COMPLETION_RING, completion),
            (abi.XDP_RX_RING, rx_ring),
            (abi.XDP_TX_RING, tx_ring),
        ):
            if entries:
                opening.make_ring(raw, option, entries)
        at = opening.read_offsets(raw)
        fd = raw.fileno()
        self.fill = ProducerRing(fd, abi.XDP_UMEM_PGOFF_FILL_RING, at.fill, fill, np.uint64)
        self._rings.append(self.fill)
        self.completion = ConsumerRing(
            fd, abi.XDP_UMEM_PGOFF_COMPLETION_RING, at.completion, completion, np.uint64
        )
        self._rings.append(self.completion)
        if rx_ring:
            self._rx = ConsumerRing(fd, abi.XDP_PGOFF_RX_RING, at.rx, rx_ring, abi.DESCRIPTOR)
            self._rings.append(self._rx)
        if tx_ring:
            self._tx = ProducerRing(fd, abi.XDP_PGOFF_TX_RING, at.tx, tx_ring, abi.DESCRIPTOR)
            self._rings.append(self._tx)

    def _bind(self, ifindex: int, need_wakeup: bool, patience_s: float) -> None:
        raw, owners = self._socket, self.umem.owners
        if owners:
            # The kernel takes no flags here: all is as with the first socket.
            if (self.frags, self.mode) != (owners[0].frags, owners[0].mode):
                raise UsageError(
                    f"opening a socket on {self.interface} failed: it shares a umem, and its frags "
                    "or mode are not those of the first socket there. Give both the same"
                )
            flags = abi.XDP_SHARED_UMEM
        else:
            flags = _FLAGS[self.mode]
            flags |= abi.XDP_USE_NEED_WAKEUP if need_wakeup else 0
            flags |= abi.XDP_USE_SG if self.frags else 0
        lender_fd = owners[0].fileno() if owners else 0
        opening.bind(raw, self.interface, ifindex, self.queue, flags, lender_fd, patience_s)
        owners.append(self)
        options = raw.getsockopt(abi.SOL_XDP, abi.XDP_OPTIONS, 4)
        self.is_zero_copy = bool(struct.unpack("=I", options)[0] & abi.XDP_OPTIONS_ZEROCOPY)
        if self._tx:
            # Without this option, which Linux 6.18 has, a system call sends 32.
            with contextlib.suppress(OSError):
                raw.setsockopt(abi.SOL_XDP, abi.XDP_MAX_TX_SKB_BUDGET, self._tx.entries)

    @property
    def rx(self) -> ConsumerRing:
        """The rx ring; UsageError where the socket does not receive."""
        if self._rx is None:
            raise UsageError(
                f"receiving on {self.interface} failed: the socket has no rx ring. Open it with one"
            )
        return self._rx

    @property
    def tx(self) -> ProducerRing:
        """The tx ring; UsageError where the socket does not send."""
        if self._tx is None:
            raise UsageError(
                f"sending on {self.interface} failed: the socket has no tx ring. Open it with "
                "tx_ring=2048, say"
            )
        return self._tx

    def fileno(self) -> int:
        """The socket's descriptor: for select, or an xskmap of one's own."""
        return self._socket.fileno()

    def statistics(self) -> XskStatistics:
        """The kernel's counts since the socket was opened."""
        raw = self._socket.getsockopt(abi.SOL_XDP, abi.XDP_STATISTICS, 48)
        # Linux before 5.9 has the first three.
        return XskStatistics(*struct.unpack("=6Q", raw.ljust(48, b"\0")))

    def close(self) -> None:
        """Give everything up: rings, socket, and the umem where it is the socket's own.

        Views of packets live on, as ordinary memory. A view of a ring that is still held keeps the
        queue in use: UsageError, when all else is closed.
        """
        closed = [ring.close() for ring in self._rings]
        self._rings.clear()
        self._socket.close()
        if hasattr(self, "umem"):
            if self in self.umem.owners:
                self.umem.owners.remove(self)
            if self._owns_umem:
                self.umem.close()
        if not all(closed):
            raise UsageError(
                f"closing the AF_XDP socket of {self.interface} was not all that holds its queue: "
                "an array of one of its rings is still in use, and the queue until it goes. "
                "Delete it, or copy what is needed"
            )


def _check(rx_ring: int, tx_ring: int, queue: int, mode: BindMode | None) -> None:
    if not rx_ring and not tx_ring:
        raise UsageError(
            "an AF_XDP socket without rings was asked for; give it an rx ring, a tx ring, or both"
        )
    for name, entries in (("rx_ring", rx_ring), ("tx_ring", tx_ring)):
        if entries:
            opening.check_ring(name, entries)
    if queue < 0:
        raise UsageError(f"queue {queue} was asked for; queues begin at 0")
    if mode not in _FLAGS:
        modes = " and ".join(get_args(BindMode))
        raise UsageError(f"bind mode {mode!r} was asked for; there are {modes}")
