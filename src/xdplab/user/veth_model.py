"""A model of veth's receive path (runtime/veth_model.c): its job, its memory, what came of it.

A figure of it is a model's: what the modelled code costs on this machine, with nothing of the
kernel around it.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Sequence
from dataclasses import dataclass

from xdplab.errors import FrameError, XdplabError
from xdplab.packets.frame import Frame
from xdplab.user import runtime
from xdplab.user.abi import SkbReuse, UserFrame, UserVethJob

RING_ENTRIES = 256
"""VETH_RING_SIZE (drivers/net/veth.c)."""

BUDGET = 64
"""NAPI_POLL_WEIGHT."""

CACHE_HEADS = 64
"""NAPI_SKB_CACHE_SIZE (net/core/skbuff.c); filled by 16, halved when it is full."""

WARMUP_PACKETS = 1024
"""Packets before the clock starts: rings, slabs and caches are then as they stay."""

SHORTEST_BYTES, LONGEST_BYTES = 34, 1514
"""Ethernet and IPv4 headers, which the stack behind PASS looks at, and veth's default MTU."""


@dataclass(frozen=True, slots=True)
class VethCounts:
    """What became of the packets, heads and buffers of a run.

    Packets: `generated` were sent, `polled` by the first interface, `forwarded` taken by a second
    one's ring and `polled_far` there; each ended as one of `dropped`, `passed`, `lost` (no room, no
    memory), `refused` (sent where there is no interface). `seen` is the
    sum of what the stack behind PASS read of the headers. Heads: of `heads_made`, `heads_free` are
    in the slabs' lists and `heads_cached` in the NAPI cache. `pages_out` and `buffers_out` were
    not given back.
    """

    generated: int
    polled: int
    forwarded: int
    polled_far: int
    dropped: int
    passed: int
    lost: int
    refused: int
    seen: int
    heads_made: int
    heads_free: int
    heads_cached: int
    pages_out: int
    buffers_out: int

    @property
    def ended(self) -> int:
        """Packets whose way has ended."""
        return self.dropped + self.passed + self.lost + self.refused


class VethModel:
    """The memory of one model; jobs run on it one after the other, each on it laid out anew."""

    def __init__(self) -> None:
        library = runtime.library()
        size = int(library.function("user_veth_bytes", ctypes.c_uint64)())
        self._run = library.function("user_veth_run", ctypes.c_int64, ctypes.c_void_p)
        self._heads = library.function(
            "user_veth_heads",
            ctypes.c_uint32,
            ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_int32),
            ctypes.c_uint32,
        )
        self._memory = mmap.mmap(-1, size)
        self._size = size

    def job(
        self,
        program: int,
        user_frame: UserFrame,
        frame: Frame,
        *,
        skb_reuse: SkbReuse,
        packets: int,
        warmup: int = WARMUP_PACKETS,
        ring_entries: int = RING_ENTRIES,
        budget: int = BUDGET,
    ) -> VethJob:
        """A job of so many packets of this frame. `program` is a native program's address.

        FrameError where the frame is not one linear part of 34 to 1514 bytes.
        """
        data = frame.data
        if frame.metadata or not SHORTEST_BYTES <= len(data) <= LONGEST_BYTES:
            raise FrameError(
                f"the veth model sends {SHORTEST_BYTES} to {LONGEST_BYTES} bytes without metadata; "
                f"a frame of {len(data)} bytes with {len(frame.metadata)} of metadata was asked for"
            )
        packet = ctypes.create_string_buffer(data, len(data))
        struct = UserVethJob(
            program=program,
            frame=ctypes.addressof(user_frame),
            memory=ctypes.addressof(ctypes.c_char.from_buffer(self._memory)),
            memory_bytes=self._size,
            packet=ctypes.addressof(packet),
            packet_bytes=len(data),
            skb_reuse=skb_reuse,
            ring_entries=ring_entries,
            budget=budget,
            clock=time.CLOCK_MONOTONIC,
            warmup=warmup,
            packets=packets,
        )
        return VethJob(self, struct, packet)

    def run(self, struct: UserVethJob) -> int:
        """Run a job: nanoseconds that its polls took."""
        elapsed_ns = int(self._run(ctypes.addressof(struct)))
        if elapsed_ns < 0:
            raise XdplabError(f"the veth model cannot run such a job (error {-elapsed_ns})")
        return elapsed_ns

    def heads(self, struct: UserVethJob, steps: Sequence[int]) -> int:
        """Take (above zero) and give back (below) heads through the NAPI cache alone.

        Answers the most heads that it ever had; the job has what became of them, `polled` those
        that are still taken.
        """
        return int(
            self._heads(ctypes.addressof(struct), (ctypes.c_int32 * len(steps))(*steps), len(steps))
        )


class VethJob:
    """A job of the model: call it for the nanoseconds that its packets took.

    `program` may be set between calls.
    """

    def __init__(self, model: VethModel, struct: UserVethJob, packet: object) -> None:
        self._model = model
        self._packet = packet
        self.struct = struct

    def __call__(self, program: int | None = None) -> int:
        if program is not None:
            self.struct.program = program
        return self._model.run(self.struct)

    @property
    def counts(self) -> VethCounts:
        """What the last call came to."""
        struct = self.struct
        return VethCounts(**{name: int(getattr(struct, name)) for name in VethCounts.__slots__})
