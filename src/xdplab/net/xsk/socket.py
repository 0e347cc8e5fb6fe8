"""`Xsk`: packets of one queue of an interface, received and sent."""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xdplab.errors import KernelError, NotPossibleError, UsageError
from xdplab.net.xsk.abi import DESCRIPTOR, XDP_PKT_CONTD, Addresses, Descriptors
from xdplab.net.xsk.batch import Batch
from xdplab.net.xsk.bound import BindMode, BoundSocket
from xdplab.net.xsk.metadata import SEAL_BYTES, SEALED, Metadata
from xdplab.net.xsk.program import ProgramMode, XskProgram
from xdplab.net.xsk.umem import Umem

_BACKPRESSURE = frozenset({errno.EAGAIN, errno.EBUSY, errno.ENOBUFS, errno.EINTR})

_MAXIMUM_FRAMES = 17
"""MAX_SKB_FRAGS, of which the kernel makes one packet; some kernels are configured to more."""

_PAUSE_S = 0.0002
"""Between two looks at the completion ring: nobody is woken for it."""


class Xsk(BoundSocket):
    """An AF_XDP socket on one queue of an interface of the calling thread's network namespace.

    `rx_ring` and `tx_ring` are entries (powers of two), 0 for a socket that does not receive or
    send. Packets lie in `umem`, of the size that the rings need if none is given; sockets share one
    that is given to several, and then take mode, need_wakeup and frags from the first. `mode` None
    leaves it to the kernel: zero-copy where the driver has it, which `is_zero_copy` tells.
    `frags` takes packets that are longer than a frame, in several. `metadata` says what lies before
    received packets: a number of bytes, or "sealed"; see `Batch.metadata`.

    Nothing is received until an XDP program redirects packets here: `Xsk.attach` loads the
    package's own, `XskProgram` any. A queue that is busy is waited for, `patience_s` seconds:
    closing a socket frees it a while later.

    Not for use from several threads at once. Raises UsageError (no such interface or queue, sizes
    that cannot be), NotPossibleError (a right, a lock limit, a queue in use, no zero-copy),
    MissingFeatureError (a kernel without AF_XDP or frags), KernelError.
    """

    def __init__(
        self,
        interface: str,
        queue: int = 0,
        *,
        umem: Umem | None = None,
        rx_ring: int = 2048,
        tx_ring: int = 0,
        mode: BindMode | None = None,
        frags: bool = False,
        need_wakeup: bool = True,
        metadata: Metadata = None,
        patience_s: float = 2.0,
    ) -> None:
        self._program: XskProgram | None = None
        super().__init__(
            interface,
            queue,
            umem=umem,
            rx_ring=rx_ring,
            tx_ring=tx_ring,
            mode=mode,
            frags=frags,
            need_wakeup=need_wakeup,
            metadata=metadata,
            patience_s=patience_s,
        )
        # Frames that circulate for receiving (in fill, rx and batches), at most as many as fill
        # has entries, so that it always has room for those that come back.
        self._receiving = 0
        self._sending = 0
        self._need_wakeup = need_wakeup
        self._is_gone = False
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._refill()

    @classmethod
    def attach(
        cls, interface: str, queue: int = 0, *, program_mode: ProgramMode = "native", **options: Any
    ) -> Xsk:
        """A socket with the package's own program before it, which redirects the queue's packets.

        `options` are those of Xsk. Packets of other queues pass to the stack. The program goes with
        the socket, and with the process.
        """
        xsk = cls(interface, queue, **options)
        try:
            xsk._program = XskProgram(
                interface, mode=program_mode, frags=xsk.frags, sealed=xsk.metadata == SEALED
            )
            xsk._program.add(xsk)
        except BaseException:
            xsk.close()
            raise
        return xsk

    def close(self) -> None:
        """Give everything up: the program that `attach` loaded, rings, socket, its own umem.

        Views of packets live on, as ordinary memory. A view of a ring that is still held keeps the
        queue in use: UsageError, when all else is closed.
        """
        if self._program:
            self._program.close()
            self._program = None
        super().close()

    # --- receiving

    def wait(self, timeout_s: float) -> bool:
        """Sleep until something has come, at most so long; whether it has.

        NotPossibleError when the interface has gone.
        """
        if self.rx.available():
            return True
        self._poll.poll(max(0.0, timeout_s) * 1000)
        came = bool(self.rx.available())
        # poll(2) does not tell of a socket whose interface has gone; its error does, once.
        if not came and self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._is_gone = True
        if self._is_gone and not came:
            raise NotPossibleError(
                f"waiting for packets on {self.interface} failed: the interface has gone. "
                "Open a new socket when it is back"
            )
        return came

    def receive(self, limit: int | None = None, timeout_s: float = 0.0) -> Batch:
        """What has come, at most `limit` packets; none after `timeout_s` seconds without any.

        The kernel may use the ring's entries again at once, the frames after `Batch.release()`.
        """
        rx = self.rx
        self._refill()
        count = rx.available()
        if not count and (timeout_s or self.fill.needs_wakeup):
            self.wait(timeout_s)
            count = rx.available()
        if limit is not None and count > limit:
            count = self._descriptors_of(limit, count) if self.frags else max(0, limit)
        return Batch(self, rx.take(count))

    def _descriptors_of(self, packets: int, available: int) -> int:
        if packets <= 0:
            return 0
        options = self.rx.peek(available)["options"]
        ends = np.flatnonzero((options & XDP_PKT_CONTD) == 0)
        return int(ends[packets - 1]) + 1 if packets <= len(ends) else available

    def recycle(self, addresses: Addresses) -> None:
        """Give received frames back to the fill ring, by any address within each."""
        if self.metadata == SEALED:
            self._break_seals(addresses)
        self.fill.put(addresses)

    def _refill(self) -> None:
        """Frames that were sent on came back to the umem, not here: take others in their place."""
        if self._rx is None:
            return
        wanted = self.fill.entries - self._receiving
        if not wanted or not self.umem.free:
            return
        addresses = self.umem.take(wanted)
        if self.metadata == SEALED:
            self._break_seals(addresses + np.uint64(self.umem.packet_offset_bytes))
        self.fill.put(addresses)
        self._receiving += len(addresses)

    def _break_seals(self, addresses: Addresses) -> None:
        self.umem.rows(SEAL_BYTES)[addresses - np.uint64(SEAL_BYTES)] = 0

    # --- sending

    def send(self, packets: Sequence[bytes] | NDArray[np.uint8], timeout_s: float = 1.0) -> int:
        """Copy packets into free frames and send them; how many were taken within the time.

        `packets` are bytes-like objects or, much quicker, a matrix with one packet a row.
        UsageError where one is empty, or longer than a frame and the socket has no frags.
        """
        until = time.monotonic() + timeout_s
        sent = 0
        while sent < len(packets):
            room = min(self.tx.free, self.umem.free)
            if isinstance(packets, np.ndarray):
                self._check_packet(packets.shape[1])
            if isinstance(packets, np.ndarray) and packets.shape[1] <= self.umem.frame_bytes:
                taken = self._send_rows(packets[sent : sent + room])
            else:
                taken = self._send_each(packets[sent : sent + room], room)
            sent += taken
            self.kick()
            if not self.reclaim() and not taken:
                self._check_frames()
                if time.monotonic() > until:
                    break
                time.sleep(_PAUSE_S)
        return sent

    def _check_frames(self) -> None:
        if not self.umem.free and not self._sending:
            raise UsageError(
                f"sending on {self.interface} failed: of the umem's {self.umem.frames} frames none "
                "is free, all wait to be received into. Give it twice the entries of all rx and "
                "tx rings on it"
            )

    def _check_packet(self, length_bytes: int) -> None:
        most = self.umem.frame_bytes * (_MAXIMUM_FRAMES if self.frags else 1)
        if not 0 < length_bytes <= most:
            remedy = "" if self.frags else ", or frags=True"
            raise UsageError(
                f"sending a packet of {length_bytes} bytes on {self.interface} failed: with this "
                f"umem it has 1 to {most}. Use larger chunks{remedy}"
            )

    def _send_rows(self, rows: NDArray[np.uint8]) -> int:
        count, length_bytes = len(rows), rows.shape[1]
        descriptors = self.frames(count)
        self.umem.rows(length_bytes)[descriptors["addr"]] = rows
        descriptors["len"] = length_bytes
        self.submit(descriptors)
        return count

    def _send_each(self, packets: Sequence[bytes] | NDArray[np.uint8], room: int) -> int:
        frame_bytes = self.umem.frame_bytes
        pieces: list[NDArray[np.uint8]] = []
        options: list[int] = []
        count = 0
        for packet in packets:
            data = np.frombuffer(packet, np.uint8)
            self._check_packet(len(data))
            needed = -(-len(data) // frame_bytes)
            if len(pieces) + needed > room:
                break
            pieces += [data[at : at + frame_bytes] for at in range(0, len(data), frame_bytes)]
            options += [XDP_PKT_CONTD] * (needed - 1) + [0]
            count += 1
        descriptors = self.frames(len(pieces))
        memory = self.umem.data
        for at, piece in zip(descriptors["addr"].tolist(), pieces, strict=True):
            memory[at : at + len(piece)] = piece
        descriptors["len"] = [len(piece) for piece in pieces]
        descriptors["options"] = options
        self.submit(descriptors)
        return count

    def frames(self, count: int) -> Descriptors:
        """Up to `count` free frames to write packets into: descriptors without a length.

        Write each packet at `umem.data[addr:]`, set `len`, and `submit` them.
        """
        descriptors = np.zeros(min(count, self.umem.free), DESCRIPTOR)
        descriptors["addr"] = self.umem.take(len(descriptors))
        descriptors["addr"] += np.uint64(self.umem.packet_offset_bytes)
        return descriptors

    def submit(self, descriptors: Descriptors) -> None:
        """Put descriptors into the tx ring; `kick` has them sent.

        Their frames are the kernel's until `reclaim` finds them sent. UsageError where there are
        more than `tx.free`.
        """
        if len(descriptors) > self.tx.free:
            raise UsageError(
                f"submitting {len(descriptors)} descriptors on {self.interface} failed: the tx "
                f"ring has room for {self.tx.free}. Kick and reclaim, or submit fewer"
            )
        self.tx.put(descriptors)
        self._sending += len(descriptors)

    def forward(self, batch: Batch) -> int:
        """Send received packets on from this socket without a copy; how many there was room for.

        The batch may be this socket's or that of another one on the same umem. It keeps what was
        not taken. `kick` has them sent.
        """
        if batch.xsk.umem is not self.umem:
            raise UsageError(
                f"sending packets on from {batch.xsk.interface} to {self.interface} failed: the "
                "sockets do not share a umem. Open both with the same"
            )
        self.reclaim()
        descriptors = batch.take(self.tx.free)
        self.submit(descriptors)
        batch.xsk._receiving -= len(descriptors)
        return int(np.count_nonzero((descriptors["options"] & XDP_PKT_CONTD) == 0))

    def kick(self) -> None:
        """Have the kernel send what is in the tx ring, until it has taken all or is congested."""
        tx = self.tx
        pending = tx.pending
        while pending and (tx.needs_wakeup or not self._need_wakeup):
            try:
                self._socket.send(b"", socket.MSG_DONTWAIT)
            except OSError as error:
                if error.errno not in _BACKPRESSURE:
                    raise self._why_not_sent(error.errno or 0) from None
            # A full completion ring stops the kernel as well.
            self.reclaim()
            before, pending = pending, tx.pending
            if pending == before:
                return

    def _why_not_sent(self, number: int) -> Exception:
        tried = f"sending on {self.interface}"
        if number in {errno.ENETDOWN, errno.ENXIO, errno.EBADF}:
            return NotPossibleError(
                f"{tried} failed ({errno.errorcode[number]}): the interface is down or has gone. "
                "Set it up (ip link set DEVICE up), or open a new socket"
            )
        return KernelError(tried, number)

    def reclaim(self) -> int:
        """Take back the frames of packets that were sent; how many."""
        count = self.completion.available()
        if count:
            self.umem.give(self.completion.take(count))
            self._sending -= count
        return count

    @property
    def sending(self) -> int:
        """Frames that were submitted and did not come back yet."""
        return self._sending

    def flush(self, timeout_s: float = 1.0) -> bool:
        """Wait until all that was submitted is sent; whether it was within the time."""
        until = time.monotonic() + timeout_s
        while self._sending:
            self.kick()
            if not self.reclaim():
                if time.monotonic() > until:
                    return False
                time.sleep(_PAUSE_S)
        return True
