"""The memory that sockets and the kernel share: chunks of one size, and which of them are free."""

from __future__ import annotations

import contextlib
import mmap
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from xdplab.errors import NotPossibleError, UsageError
from xdplab.net.xsk.abi import MINIMUM_CHUNK_BYTES, XDP_PACKET_HEADROOM_BYTES, Addresses
from xdplab.net.xsk.closing import Closing
from xdplab.net.xsk.rings import is_power_of_two

if TYPE_CHECKING:
    from xdplab.net.xsk.bound import BoundSocket

# The kernel keeps room behind a packet for a skb_shared_info (320 bytes) and 128 more
# (xdp_umem_reg in net/xdp/xdp_umem.c).
_TAIL_BYTES = 448


class Umem(Closing):
    """Memory of `frames` chunks of `chunk_bytes` each, for one socket or for several.

    `chunk_bytes` is a power of two from 2048 up to the page's size. Of a chunk the kernel keeps 256
    bytes before a received packet for metadata, and `headroom_bytes` more where asked; the rest,
    `frame_bytes`, is the longest packet that fits. Longer ones need a socket with frags.

    `data` is all of it as a numpy view of bytes. Sockets on one umem, and their batches, belong to
    one thread at a time; close the sockets before it. UsageError where the kernel would refuse the
    sizes, NotPossibleError where there is not so much memory.
    """

    def __init__(
        self, frames: int = 4096, *, chunk_bytes: int = MINIMUM_CHUNK_BYTES, headroom_bytes: int = 0
    ) -> None:
        self.frames = frames
        self.chunk_bytes = chunk_bytes
        self.headroom_bytes = headroom_bytes
        self._check()
        # A page more than the kernel is told of: rows() of the last packet end within it.
        self.length_bytes = frames * chunk_bytes
        pages = -(-self.length_bytes // mmap.PAGESIZE) + 1
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        try:
            self._map = mmap.mmap(-1, pages * mmap.PAGESIZE, flags)
        except (OSError, OverflowError):
            raise NotPossibleError(
                f"getting the {self.length_bytes} bytes of a umem of {frames} frames failed: there "
                "is not so much memory. Ask for fewer frames, or for smaller rings"
            ) from None
        self._whole: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self.data: NDArray[np.uint8] = self._whole[: self.length_bytes]
        self._free: Addresses = np.arange(frames, dtype=np.uint64)[::-1] * np.uint64(chunk_bytes)
        self._free_count = frames
        self.owners: list[BoundSocket] = []

    def _check(self) -> None:
        if self.frames < 1:
            raise UsageError(f"a umem of {self.frames} frames was asked for; it has at least one")
        page = mmap.PAGESIZE
        if not (MINIMUM_CHUNK_BYTES <= self.chunk_bytes <= page) or not is_power_of_two(
            self.chunk_bytes
        ):
            sizes = [
                str(1 << bit)
                for bit in range(MINIMUM_CHUNK_BYTES.bit_length() - 1, page.bit_length())
            ]
            raise UsageError(
                f"a umem with chunks of {self.chunk_bytes} bytes was asked for; the kernel takes "
                f"powers of two from 2048 bytes to a page, here {' or '.join(sizes)}. Longer "
                "packets need frags=True"
            )
        most = self.chunk_bytes - XDP_PACKET_HEADROOM_BYTES - _TAIL_BYTES
        if not 0 <= self.headroom_bytes <= most:
            raise UsageError(
                f"a headroom of {self.headroom_bytes} bytes was asked for; in chunks of "
                f"{self.chunk_bytes} bytes it may have 0 to {most}"
            )

    @property
    def address(self) -> int:
        """Where it begins in this process."""
        return int(self._whole.ctypes.data)

    @property
    def frame_bytes(self) -> int:
        """The longest packet that the kernel puts into one chunk."""
        return self.chunk_bytes - self.packet_offset_bytes

    @property
    def packet_offset_bytes(self) -> int:
        """Where in its chunk the kernel puts a received packet, and `Xsk.send` one to be sent."""
        return XDP_PACKET_HEADROOM_BYTES + self.headroom_bytes

    @property
    def free(self) -> int:
        """How many chunks belong to nobody: neither to a ring nor to a batch."""
        return self._free_count

    def take(self, count: int) -> Addresses:
        """Up to `count` free chunks, now the caller's: their addresses."""
        count = min(count, self._free_count)
        left = self._free_count - count
        taken = self._free[left : self._free_count].copy()
        self._free_count = left
        return taken

    def give(self, addresses: Addresses) -> None:
        """Make chunks free again; any address in a chunk stands for it."""
        count = len(addresses)
        self._free[self._free_count : self._free_count + count] = addresses & np.uint64(
            -self.chunk_bytes & 0xFFFF_FFFF_FFFF_FFFF
        )
        self._free_count += count

    def rows(self, length_bytes: int) -> NDArray[np.uint8]:
        """Every `length_bytes` in a row as a matrix, row number = address: a view, made for
        indexing by arrays of addresses. At most a page long.
        """
        return as_strided(self._whole, (self.length_bytes, length_bytes), (1, 1))

    def close(self) -> None:
        """Give the memory up; it goes when no view of a packet in it is left."""
        self.data = self._whole = np.empty(0, np.uint8)
        with contextlib.suppress(BufferError):
            self._map.close()
