"""BPF_PROG_TEST_RUN, prepared once and called many times: the call that everything is timed by."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from dataclasses import dataclass

from xdplab.kernel.bpf import syscall, syscall_number
from xdplab.packets.frame import Frame

_PROG_TEST_RUN = 10

# BPF_F_TEST_XDP_LIVE_FRAMES (linux/bpf.h).
_LIVE_FRAMES = 1 << 1


class _TestRunAttr(ctypes.Structure):
    _fields_ = (
        ("prog_fd", ctypes.c_uint32),
        ("retval", ctypes.c_uint32),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("data_in", ctypes.c_uint64),
        ("data_out", ctypes.c_uint64),
        ("repeat", ctypes.c_uint32),
        ("duration", ctypes.c_uint32),
        ("ctx_size_in", ctypes.c_uint32),
        ("ctx_size_out", ctypes.c_uint32),
        ("ctx_in", ctypes.c_uint64),
        ("ctx_out", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    )


def xdp_md(frame: Frame) -> bytes:
    """The frame's layout and where it came in, as a test run is told: struct xdp_md, 24 bytes.

    Its words: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex. A test
    run wants offsets from the metadata's start for the first three.
    """
    meta = len(frame.metadata)
    linear = len(frame.data) if frame.linear_bytes is None else frame.linear_bytes
    words = (meta, meta + linear, 0, frame.ingress_ifindex, frame.rx_queue_index, 0)
    return b"".join(word.to_bytes(4, "little") for word in words)


@dataclass(frozen=True, slots=True)
class TestRunOutcome:
    """What one test run returned: raw retval (u32), the frame and ctx after the last repeat."""

    retval: int
    data: bytes
    ctx: bytes


class TestRun:
    """BPF_PROG_TEST_RUN of one program on one frame, prepared once and called many times.

    `frame` is the linear part and frags in one piece, `ctx` a `struct xdp_md` (24 bytes) or
    None. With a `batch_size` (1 to 256; 0: none) frames are live: they go where the program's
    action says, that many at a time. The program's fd stays the caller's. Calls that a signal
    interrupts (EINTR) are made again and counted in `interrupted`.
    """

    # Not a test case, whatever pytest thinks of the name.
    __test__ = False

    def __init__(
        self, prog_fd: int, frame: bytes, ctx: bytes | None = None, batch_size: int = 0
    ) -> None:
        self.interrupted = 0
        self._frame = ctypes.create_string_buffer(frame, max(1, len(frame)))
        self._attr = _TestRunAttr(
            prog_fd=prog_fd, data_size_in=len(frame), data_in=ctypes.addressof(self._frame)
        )
        if batch_size:
            self._attr.flags = _LIVE_FRAMES
            self._attr.batch_size = batch_size
        if ctx is not None:
            self._ctx = ctypes.create_string_buffer(ctx, len(ctx))
            self._attr.ctx_in = ctypes.addressof(self._ctx)
            self._attr.ctx_size_in = len(ctx)
        self._address = ctypes.addressof(self._attr)
        self._size = ctypes.sizeof(self._attr)
        self._number = syscall_number()

    def __call__(self, repeat: int) -> int:
        """Run `repeat` times; return the elapsed nanoseconds of the system call by our clock.

        `duration_ns` and `retval` then hold the kernel's answer.
        """
        attr, number, address, size = self._attr, self._number, self._address, self._size
        attr.repeat = repeat
        clock = time.perf_counter_ns
        while True:
            start = clock()
            result = syscall(number, _PROG_TEST_RUN, address, size)
            elapsed_ns = clock() - start
            if result >= 0:
                return elapsed_ns
            number_of_error = ctypes.get_errno()
            if number_of_error != errno.EINTR:
                raise OSError(number_of_error, os.strerror(number_of_error))
            self.interrupted += 1

    def attempt(self, repeat: int) -> bool:
        """Run `repeat` times; False where a signal ended it before that, after some of them.

        For runs that leave something behind and must not be made again as a whole.
        """
        self._attr.repeat = repeat
        # The kernel left the last frame's size there, and would take it for room that is given.
        self._attr.data_size_out = 0
        if syscall(self._number, _PROG_TEST_RUN, self._address, self._size) >= 0:
            return True
        number_of_error = ctypes.get_errno()
        if number_of_error != errno.EINTR:
            raise OSError(number_of_error, os.strerror(number_of_error))
        self.interrupted += 1
        return False

    @property
    def duration_ns(self) -> int:
        """The kernel's figure of the last call: u32, whole nanoseconds per run, rounded down."""
        return int(self._attr.duration)

    @property
    def retval(self) -> int:
        """The program's return value in the last call (u32)."""
        return int(self._attr.retval)

    def outcome(self, repeat: int = 1) -> TestRunOutcome:
        """Run, and bring back the frame and, where one was given, the ctx, as the last run left
        them: every run but the first finds what the one before did to its frame."""
        attr = self._attr
        room = attr.data_size_in + 4096
        out = ctypes.create_string_buffer(room)
        attr.data_out, attr.data_size_out = ctypes.addressof(out), room
        ctx_out = ctypes.create_string_buffer(24)
        if attr.ctx_in:
            attr.ctx_out, attr.ctx_size_out = ctypes.addressof(ctx_out), 24
        try:
            self(repeat)
            return TestRunOutcome(
                retval=self.retval,
                data=out.raw[: attr.data_size_out],
                ctx=ctx_out.raw[: attr.ctx_size_out],
            )
        finally:
            attr.data_out, attr.data_size_out = 0, 0
            attr.ctx_out, attr.ctx_size_out = 0, 0
