"""The process as a receiver: an AF_XDP socket whose packets a thread drops or sends back."""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping
from typing import Protocol

from xdplab.errors import XdplabError
from xdplab.kernel import bpf
from xdplab.kernel.libbpf import LoadedObject
from xdplab.live.choices import CopyMode
from xdplab.net.interface import Interface
from xdplab.net.xsk import Tally, Umem, Xsk, drop_loop, send_back_loop

_ROUND_S = 0.1
"""After which the loop looks whether it is to end, also while packets come without a pause."""

_CHUNKS_BYTES = (2048, 4096)
"""What a umem may be divided into: half a page, or one (linux/if_xdp.h)."""

_LINK_HEADERS_BYTES = 22
"""Ethernet with two VLAN tags, which an MTU leaves out."""


class Consumer(Protocol):
    """Who takes packets out of the kernel in this process.

    `kind` is "copy" or "zero-copy", `doubts` what the user should know before packets flow,
    `error` what ended it early.
    """

    kind: str
    doubts: list[str]
    error: XdplabError | None

    def join(self, loaded: LoadedObject) -> None:
        """Be where the loaded program sends packets to, and begin."""

    def read(self) -> Mapping[str, int]:
        """Counts so far, by name."""

    def close(self) -> None:
        """Stop, and give the socket up."""


class XskConsumer:
    """An AF_XDP socket on one queue of an interface, emptied by a thread of its own.

    `sends_back` returns packets by the same queue, MAC addresses swapped, else they are
    dropped. `frame_bytes` is the umem's chunk (2048 or 4096), None for what the MTU needs;
    `ring` the entries of its rings, a power of two. Raises as `Xsk` does.
    """

    def __init__(
        self,
        interface: Interface,
        queue: int,
        *,
        sends_back: bool,
        frame_bytes: int | None,
        ring: int,
        copy_mode: CopyMode,
        need_wakeup: bool,
        frags: bool,
    ) -> None:
        self.error: XdplabError | None = None
        self.queue = queue
        self._sends_back = sends_back
        self._tally = Tally()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        if frame_bytes is None:
            wanted_bytes = interface.mtu + _LINK_HEADERS_BYTES
            fits = [size for size in _CHUNKS_BYTES if size - 256 >= wanted_bytes]
            frame_bytes = fits[0] if fits else _CHUNKS_BYTES[-1]
        tx_ring = ring if sends_back else 0
        self._umem = Umem(2 * (ring + tx_ring), chunk_bytes=frame_bytes)
        try:
            self._xsk = Xsk(
                interface.name,
                queue,
                umem=self._umem,
                rx_ring=ring,
                tx_ring=tx_ring,
                mode=None if copy_mode == "auto" else copy_mode,
                frags=frags,
                need_wakeup=need_wakeup,
            )
        except BaseException:
            self._umem.close()
            raise
        self.kind = "zero-copy" if self._xsk.is_zero_copy else "copy"
        self.doubts: list[str] = []
        if not frags and interface.mtu + _LINK_HEADERS_BYTES > self._umem.frame_bytes:
            self.doubts.append(
                f"{interface.name}'s MTU is {interface.mtu}, and a packet of more than "
                f"{self._umem.frame_bytes} bytes does not fit a frame: the socket drops it. Add -F"
            )

    def join(self, loaded: LoadedObject) -> None:
        """Be where the loaded program sends packets to, and begin."""
        key, value = struct.pack("=I", self.queue), struct.pack("=I", self._xsk.fileno())
        bpf.map_update(loaded.maps["sockets"], key, value)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        loop = send_back_loop if self._sends_back else drop_loop
        try:
            while not self._stopped.is_set():
                loop(self._xsk, self._tally, seconds=_ROUND_S, stop=self._stopped.is_set)
        except XdplabError as error:
            # Its traceback would hold the loop's views of the rings, and those the queue.
            self.error = error.with_traceback(None)

    def read(self) -> Mapping[str, int]:
        """Counts so far: of the loop, and of the kernel's struct xdp_statistics."""
        tally = self._tally
        counts = {"received": tally.packets, "received_bytes": tally.bytes}
        if self._sends_back:
            counts |= {"sent": tally.sent, "dropped, tx ring full": tally.packets - tally.sent}
        counts |= {"batches": tally.batches, "naps": tally.naps}
        return counts | dict(self._xsk.statistics().as_dict())

    def close(self) -> None:
        """Stop, and give the socket up."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        self._xsk.close()
        self._umem.close()
