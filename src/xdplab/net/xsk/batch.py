"""Received packets, in the socket's memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from xdplab import traits
from xdplab.errors import UsageError
from xdplab.net.xsk.abi import XDP_PKT_CONTD, Descriptors
from xdplab.net.xsk.closing import Closing
from xdplab.net.xsk.metadata import SEAL_BYTES, SEALED, sealed_length

if TYPE_CHECKING:
    from xdplab.net.xsk.socket import Xsk

Packet = NDArray[np.uint8]
"""A packet's bytes."""


class Batch(Closing):
    """The packets of one `Xsk.receive`: a sequence, of views into the umem where it can be.

    `descriptors` is a structured array of `DESCRIPTOR`, one a packet but for packets of several
    frames. The frames are the batch's until `release()`, or the end of `with`; their bytes may
    be changed in place. After that the kernel writes into them whatever comes next.
    """

    __slots__ = ("_ends", "descriptors", "xsk")

    def __init__(self, xsk: Xsk, descriptors: Descriptors) -> None:
        self.xsk = xsk
        self._set(descriptors)

    def _set(self, descriptors: Descriptors) -> None:
        self.descriptors = descriptors
        # Where each packet ends; None where all have one descriptor.
        self._ends: NDArray[np.intp] | None = None
        if self.xsk.frags:
            ends = np.flatnonzero((descriptors["options"] & XDP_PKT_CONTD) == 0)
            if len(ends) < len(descriptors):
                self._ends = ends + 1

    def __len__(self) -> int:
        return len(self.descriptors) if self._ends is None else len(self._ends)

    def __iter__(self) -> Iterator[Packet]:
        if self._ends is not None:
            for number in range(len(self)):
                yield self[number]
            return
        data = self.xsk.umem.data
        for start, length in zip(
            self.descriptors["addr"].tolist(), self.descriptors["len"].tolist(), strict=True
        ):
            yield data[start : start + length]

    def __getitem__(self, number: int) -> Packet:
        """A packet's bytes: a view, or a copy where it lies in several frames."""
        pieces = self.pieces(number)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def pieces(self, number: int) -> list[Packet]:
        """A packet's bytes as views, one a frame that it lies in."""
        data = self.xsk.umem.data
        own = self.descriptors[self._span(number)]
        return [
            data[start : start + length]
            for start, length in zip(own["addr"].tolist(), own["len"].tolist(), strict=True)
        ]

    def _span(self, number: int) -> slice:
        count = len(self)
        if not -count <= number < count:
            raise IndexError(f"packet {number} of a batch of {count}")
        number %= count
        if self._ends is None:
            return slice(number, number + 1)
        return slice(int(self._ends[number - 1]) if number else 0, int(self._ends[number]))

    @property
    def firsts(self) -> Descriptors:
        """Each packet's first descriptor."""
        if self._ends is None:
            return self.descriptors
        return self.descriptors[self._starts(self._ends)]

    @staticmethod
    def _starts(ends: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.concatenate((np.zeros(1, np.intp), ends[:-1]))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Each packet's length in bytes."""
        lengths = self.descriptors["len"].astype(np.int64)
        if self._ends is None:
            return lengths
        totals: NDArray[np.int64] = np.add.reduceat(lengths, self._starts(self._ends))
        return totals

    def heads(self, length_bytes: int) -> NDArray[np.uint8]:
        """The first bytes of every packet as a matrix, one row a packet: a copy, made at once.

        What a packet's first frame does not have is zero. UsageError beyond a frame's length.
        """
        self._check_head(length_bytes)
        firsts = self.firsts
        rows: NDArray[np.uint8] = self.xsk.umem.rows(length_bytes)[firsts["addr"]]
        lengths = firsts["len"]
        if len(lengths) and lengths.min() < length_bytes:
            rows[np.arange(length_bytes) >= lengths[:, None]] = 0
        return rows

    def write_heads(self, heads: NDArray[np.uint8]) -> None:
        """Put a matrix such as `heads` gives back into the packets; each must be that long."""
        length_bytes = heads.shape[1]
        self._check_head(length_bytes)
        firsts = self.firsts
        if len(firsts) and firsts["len"].min() < length_bytes:
            raise UsageError(
                f"writing {length_bytes} bytes into every packet of a batch failed: one has "
                f"{firsts['len'].min()} in its first frame. Write to that one by itself"
            )
        self.xsk.umem.rows(length_bytes)[firsts["addr"]] = heads

    def _check_head(self, length_bytes: int) -> None:
        most = self.xsk.umem.frame_bytes
        if not 0 < length_bytes <= most:
            raise UsageError(
                f"the first {length_bytes} bytes of packets were asked for; a frame has 1 to {most}"
            )

    def metadata(self, number: int) -> Packet | None:
        """What programs left before a packet: a view of its bytes.

        The socket's `metadata` says how long it is. None where the packet has no seal; UsageError
        where the socket was not told of metadata.
        """
        kind = self.xsk.metadata
        start = int(self.descriptors[self._span(number).start]["addr"])
        data = self.xsk.umem.data
        if kind is None:
            raise UsageError(
                "a packet's metadata was asked for, and AF_XDP does not tell its length: open the "
                f'socket with metadata=BYTES, or metadata="{SEALED}" if the program seals it'
            )
        if kind != SEALED:
            return data[start - kind : start]
        end = start - SEAL_BYTES
        length = sealed_length(int(data[end:start].view(np.uint32)[0]))
        return None if length is None else data[end - length : end]

    def traits(self, number: int) -> dict[int, bytes]:
        """The values that programs set by traits.bpf.h, by key; {} where there is no metadata.

        TraitsError where its metadata is something else, UsageError as `metadata`.
        """
        found = self.metadata(number)
        return {} if found is None or not len(found) else traits.decode(found.tobytes())

    def release(self) -> None:
        """Give the frames back, to be received into again. Once is enough; `with` does it."""
        descriptors = self.descriptors
        self._set(descriptors[:0])
        if len(descriptors):
            self.xsk.recycle(descriptors["addr"])

    def take(self, most: int) -> Descriptors:
        """The first packets, of at most `most` descriptors in all: they leave the batch."""
        count = min(most, len(self.descriptors))
        if self._ends is not None:
            whole = int(np.searchsorted(self._ends, count, side="right"))
            count = int(self._ends[whole - 1]) if whole else 0
        taken, rest = self.descriptors[:count], self.descriptors[count:]
        self._set(rest)
        return taken

    def close(self) -> None:
        """As `release`."""
        self.release()
