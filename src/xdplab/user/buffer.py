"""Frames in memory, laid out as the kernel's test run lays them out."""

from __future__ import annotations

import ctypes
import mmap

from xdplab.errors import FrameError
from xdplab.packets.frame import Frame
from xdplab.user.abi import FRAGS, HEADROOM_BYTES, TAILROOM_BYTES, UserBuffer, UserFrag, UserFrame

PAGE_BYTES = 4096
"""What a linear part with its headroom and tailroom fills, and each frag at most."""

MAXIMUM_LINEAR_BYTES = PAGE_BYTES - HEADROOM_BYTES - TAILROOM_BYTES


class FrameBuffer:
    """The memory of one frame. `buffer` is its struct user_buffer, for the packet loop.

    `restores`: each packet finds the frame's bytes as they were; else a program finds what the
    one before it left, as in the kernel's test run.
    """

    def __init__(self, frame: Frame, *, restores: bool = True) -> None:
        linear_bytes = min(len(frame.data), MAXIMUM_LINEAR_BYTES)
        if frame.linear_bytes is not None:
            linear_bytes = min(frame.linear_bytes, MAXIMUM_LINEAR_BYTES)
        rest = frame.data[linear_bytes:]
        pieces = [rest[start : start + PAGE_BYTES] for start in range(0, len(rest), PAGE_BYTES)]
        if len(pieces) > FRAGS:
            raise FrameError(
                f"a frame of {len(frame.data)} bytes would need {len(pieces)} frags; "
                f"it may have {FRAGS}"
            )
        self._frame = frame
        self._pieces = pieces
        self._original = frame.metadata + frame.data[:linear_bytes]
        self._original_memory = ctypes.create_string_buffer(
            self._original, max(1, len(self._original))
        )
        self._memory = mmap.mmap(-1, PAGE_BYTES * (1 + len(pieces)))
        self._view = (ctypes.c_char * len(self._memory)).from_buffer(self._memory)
        start = ctypes.addressof(self._view)
        self._frags = (UserFrag * max(1, len(pieces)))()
        for number, piece in enumerate(pieces):
            self._frags[number].data = start + PAGE_BYTES * (1 + number)
            self._frags[number].bytes = len(piece)
        data = start + HEADROOM_BYTES
        self.buffer = UserBuffer(
            hard_start=start,
            hard_end=start + PAGE_BYTES,
            data=data,
            data_end=data + linear_bytes,
            data_meta=data - len(frame.metadata),
            original=ctypes.addressof(self._original_memory) if restores else None,
            original_bytes=len(self._original),
            frags=ctypes.addressof(self._frags),
            frag_count=len(pieces),
        )
        self.restore()

    def restore(self) -> None:
        """Put the frame's bytes back, and zeros around them."""
        ctypes.memset(ctypes.addressof(self._view), 0, PAGE_BYTES)
        ctypes.memmove(self.buffer.data_meta, self._original, len(self._original))
        for number, piece in enumerate(self._pieces):
            ctypes.memmove(self._frags[number].data, piece, len(piece))


def frame_bytes(frame: UserFrame) -> tuple[bytes, bytes]:
    """The frame as a program left it: linear part and frags in one piece, and its metadata."""
    parts = [ctypes.string_at(frame.data, frame.data_end - frame.data)]
    frags = frame.frags[: frame.frag_count]
    parts.extend(ctypes.string_at(frag.data, frag.bytes) for frag in frags)
    metadata = b""
    if frame.data_meta < frame.data:
        metadata = ctypes.string_at(frame.data_meta, frame.data - frame.data_meta)
    return b"".join(parts), metadata
