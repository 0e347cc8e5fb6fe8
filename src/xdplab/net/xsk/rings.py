"""The four rings of an AF_XDP socket as memory shared with the kernel.

A ring has a power of two of entries and two free-running u32 counters. Who produces writes entries
and then moves the producer counter; who consumes reads entries and then moves the consumer counter.
Fill and tx are produced here and consumed by the kernel, rx and completion the other way round.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdplab.net.xsk.abi import XDP_RING_NEED_WAKEUP
from xdplab.net.xsk.fence import ring_fence

_U32 = 0xFFFF_FFFF


class RingOffsets(NamedTuple):
    """struct xdp_ring_offset: bytes from the start of a ring's mapping (u64 each)."""

    producer: int
    consumer: int
    desc: int
    flags: int


class MmapOffsets(NamedTuple):
    """struct xdp_mmap_offsets."""

    rx: RingOffsets
    tx: RingOffsets
    fill: RingOffsets
    completion: RingOffsets

    @classmethod
    def parse(cls, raw: bytes) -> MmapOffsets:
        """From the 128 bytes of the structure."""
        return cls(*(RingOffsets(*part) for part in struct.iter_unpack("=4Q", raw)))


class Ring:
    """One ring's mapping. `entries` is its size, `array` its entries as a numpy view.

    Descriptors (`DESCRIPTOR`) in rx and tx, addresses (u64) in fill and completion. The view is of
    shared memory: whoever keeps one past `close` keeps the socket in the kernel.
    """

    def __init__(
        self, fd: int, page_offset: int, offsets: RingOffsets, entries: int, type: Any
    ) -> None:
        """`page_offset` tells the kernel which ring to map; `type` is an entry's numpy dtype."""
        producer, consumer, start, flags = offsets
        self.entries = entries
        self._mask = entries - 1
        dtype = np.dtype(type)
        self._map = mmap.mmap(
            fd,
            start + entries * dtype.itemsize,
            mmap.MAP_SHARED | mmap.MAP_POPULATE,
            mmap.PROT_READ | mmap.PROT_WRITE,
            offset=page_offset,
        )
        whole = memoryview(self._map)
        self._producer = whole[producer : producer + 4].cast("I")
        self._consumer = whole[consumer : consumer + 4].cast("I")
        self._flags = whole[flags : flags + 4].cast("I")
        whole.release()
        self.array: NDArray[Any] = np.frombuffer(self._map, dtype, entries, start)
        self._fence = ring_fence()

    @property
    def needs_wakeup(self) -> bool:
        """Whether the kernel asks for a system call before it looks at this ring again."""
        return bool(self._flags[0] & XDP_RING_NEED_WAKEUP)

    def _spans(self, first: int, count: int) -> tuple[slice, slice]:
        """The entries from counter value `first` as a slice of the array, and the wrapped rest."""
        start = first & self._mask
        end = start + count
        if end <= self.entries:
            return slice(start, end), slice(0, 0)
        return slice(start, self.entries), slice(0, end - self.entries)

    def close(self) -> bool:
        """Give the mapping up; False where somebody still has a view of it.

        The mapping, and with it the socket in the kernel, then goes with the last view.
        """
        for view in (self._producer, self._consumer, self._flags):
            view.release()
        del self.array
        # Unless this closes it, the mapping goes with the last view's reference to it.
        mapping = self._map
        del self._map
        with contextlib.suppress(BufferError):
            mapping.close()
        return mapping.closed


class ProducerRing(Ring):
    """Fill or tx: entries go to the kernel."""

    def __init__(
        self, fd: int, page_offset: int, offsets: RingOffsets, entries: int, type: Any
    ) -> None:
        super().__init__(fd, page_offset, offsets, entries, type)
        self._next = self._producer[0]

    @property
    def free(self) -> int:
        """How many entries there is room for."""
        return self.entries - self.pending

    @property
    def pending(self) -> int:
        """How many entries the kernel has not taken yet."""
        return (self._next - self._consumer[0]) & _U32

    def put(self, entries: NDArray[Any]) -> None:
        """Hand entries over, at most `free` of them."""
        count = len(entries)
        head, tail = self._spans(self._next, count)
        first = head.stop - head.start
        self.array[head] = entries[:first]
        if tail.stop:
            self.array[tail] = entries[first:]
        self.publish(count)

    def publish(self, count: int) -> None:
        """Let the kernel see `count` more entries, which are written."""
        if self._fence:
            self._fence()
        self._next = (self._next + count) & _U32
        self._producer[0] = self._next


class ConsumerRing(Ring):
    """Rx or completion: entries come from the kernel."""

    def __init__(
        self, fd: int, page_offset: int, offsets: RingOffsets, entries: int, type: Any
    ) -> None:
        super().__init__(fd, page_offset, offsets, entries, type)
        self._next = self._consumer[0]

    def available(self) -> int:
        """How many entries have come and were not taken."""
        count = (self._producer[0] - self._next) & _U32
        if self._fence and count:
            self._fence()
        return count

    def peek(self, count: int) -> NDArray[Any]:
        """The first `count` entries: a view where they lie in one piece, else a copy.

        No more than are `available`.
        """
        head, tail = self._spans(self._next, count)
        if not tail.stop:
            return self.array[head]
        return np.concatenate((self.array[head], self.array[tail]))

    def release(self, count: int) -> None:
        """Give the first `count` entries back to the kernel, which may overwrite them."""
        if self._fence:
            self._fence()
        self._next = (self._next + count) & _U32
        self._consumer[0] = self._next

    def take(self, count: int) -> NDArray[Any]:
        """The first `count` entries as a copy, and given back."""
        taken = self.peek(count).copy()
        self.release(count)
        return taken


def is_power_of_two(number: int) -> bool:
    """Whether a ring, or an aligned umem's chunk, may have that size."""
    return number > 0 and number & (number - 1) == 0
