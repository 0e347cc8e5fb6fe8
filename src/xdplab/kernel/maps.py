"""Maps of a loaded object as its user-space half sees them: entries, and ring buffers emptied."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from xdplab.kernel import bpf
from xdplab.program import MapSpec

PROG_ARRAY, RINGBUF = 3, 27
"""enum bpf_map_type of those that are not made of keys and values."""

_PERCPU_TYPES = frozenset({5, 6, 10})  # percpu_hash, percpu_array, lru_percpu_hash


def fill(map_fd: int, spec: MapSpec, entries: Iterable[tuple[bytes, bytes]]) -> None:
    """Add or replace entries; of a per-CPU map every CPU gets the value. OSError as bpf(2) says."""
    copies, size = 1, spec.value_size
    if spec.type in _PERCPU_TYPES:
        copies, size = _possible_cpus(), -(-spec.value_size // 8) * 8
    for key, value in entries:
        bpf.map_update(map_fd, key, value.ljust(size, b"\0") * copies)


@cache
def _possible_cpus() -> int:
    """How many values a per-CPU map keeps of each entry."""
    spans = Path("/sys/devices/system/cpu/possible").read_text().strip().split(",")
    return int(spans[-1].rpartition("-")[2]) + 1


class RingBuffer:
    """The positions of a ring buffer in the kernel, as its consumer has them mapped.

    The fd stays its owner's. Positions are u64 counts of bytes, the consumer's at the start of the
    map's first page, the producer's at the start of its second.
    """

    def __init__(self, map_fd: int) -> None:
        page = mmap.PAGESIZE
        self._consumer = mmap.mmap(map_fd, page)
        self._producer = mmap.mmap(map_fd, page, prot=mmap.PROT_READ, offset=page)

    def skip(self) -> None:
        """Take all that was written as read."""
        self._consumer[:8] = self._producer[:8]

    def close(self) -> None:
        """Give the mappings up."""
        self._consumer.close()
        self._producer.close()
