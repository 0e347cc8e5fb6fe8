"""The generator `ring`: frames from user space through a packet socket's transmit ring.

TPACKET_V2 (linux/if_packet.h, packet(7)): a ring of slots that this process and the kernel share.
Who sends marks slots and makes one system call for all of them. The queueing discipline is
bypassed, so that frames go straight to the driver as skbs, of any size that the interface takes:
the generator for generic XDP, which passes the others' clones by, and for jumbo frames.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import socket
import struct
import time
from types import TracebackType

import numpy as np
import numpy.typing as npt

from xdplab.errors import KernelError, NotPossibleError
from xdplab.net.generators.base import MADE_UP_S, Outlet, Sent
from xdplab.packets.traffic import Flows, Traffic

_SOL_PACKET = 263
_PACKET_VERSION, _PACKET_TX_RING, _PACKET_LOSS, _PACKET_QDISC_BYPASS = 10, 13, 14, 20
_TPACKET_V2 = 1
_SEND_REQUEST = 1

_DATA_AT = 32
"""Where a slot's frame begins: TPACKET2_HDRLEN less the sockaddr_ll in it. Before it the status,
the length and the length again, each a u32."""

_SLOTS = 1024
"""Enough for one call's cost to be shared by many; more would only need more cache."""

_LEAST_SLOT_BYTES = 128
_LEAST_BLOCK_BYTES = 1 << 16
_PATIENCE_S = 2.0
_NAP_S = 20e-6

_REFUSED = frozenset({errno.ENOBUFS, errno.EAGAIN})


class RingGenerator:
    """Frames through a packet socket; see the module."""

    name = "ring"
    chunk = 1 << 14
    made_up_s = MADE_UP_S

    def __init__(self, outlet: Outlet, traffic: Traffic) -> None:
        self._traffic = traffic
        self._generated = 0
        self._refused = 0
        self._position = 0
        self._exit = contextlib.ExitStack()
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._socket = _open(outlet)
            self._exit.callback(self._socket.close)
            self._map(traffic.longest_bytes)
            self._prepare()
            self._socket.bind((outlet.name, 0))
        except OSError as error:
            self.close()
            raise KernelError(
                f"opening a transmit ring on {outlet.name}", error.errno or 0
            ) from None
        except BaseException:
            self.close()
            raise

    def _map(self, longest_bytes: int) -> None:
        # Powers of two: slots then lie one behind the other across blocks, as one array.
        slot_bytes = max(_LEAST_SLOT_BYTES, 1 << (_DATA_AT + longest_bytes - 1).bit_length())
        block_bytes = max(_LEAST_BLOCK_BYTES, slot_bytes)
        blocks = -(-_SLOTS * slot_bytes // block_bytes)
        self._slots = blocks * block_bytes // slot_bytes
        request = struct.pack("=4I", block_bytes, blocks, slot_bytes, self._slots)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_TX_RING, request)
        ring = mmap.mmap(self._socket.fileno(), blocks * block_bytes)
        self._exit.callback(_close, ring)
        rows = np.frombuffer(ring, np.uint8).reshape(self._slots, slot_bytes)
        self._status = rows[:, 0:4].view(np.uint32)[:, 0]
        self._lengths = rows[:, 4:8].view(np.uint32)[:, 0]
        self._data = rows[:, _DATA_AT:]

    def _prepare(self) -> None:
        traffic = self._traffic
        first = np.frombuffer(traffic.frame(0), np.uint8)
        self._data[:, : len(first)] = first
        self._lengths[:] = len(first)
        if isinstance(traffic, Flows):
            return
        self._captured = np.zeros((traffic.count, traffic.longest_bytes), np.uint8)
        self._captured_lengths = np.zeros(traffic.count, np.uint32)
        for place, frame_bytes in enumerate(traffic.frames):
            self._captured[place, : len(frame_bytes)] = np.frombuffer(frame_bytes, np.uint8)
            self._captured_lengths[place] = len(frame_bytes)

    def _fill(self, start: int, count: int) -> None:
        """Write packets from the next one on into `count` slots from `start` on."""
        traffic = self._traffic
        if traffic.count == 1:
            return
        if isinstance(traffic, Flows):
            traffic.write(self._data[start : start + count], self._generated)
            return
        places = (self._generated + np.arange(count)) % traffic.count
        self._data[start : start + count, : traffic.longest_bytes] = self._captured[places]
        self._lengths[start : start + count] = self._captured_lengths[places]

    def burst(self, packets: int) -> None:
        """As Generator.burst. A packet that the driver refuses is counted and sent again."""
        left = packets
        while left:
            count = min(left, self._slots - self._position)
            self._fill(self._position, count)
            self._status[self._position : self._position + count] = _SEND_REQUEST
            self._send(self._status[self._position : self._position + count])
            self._position = (self._position + count) % self._slots
            self._generated += count
            left -= count

    def _send(self, status: npt.NDArray[np.uint32]) -> None:
        until = time.monotonic() + _PATIENCE_S
        descriptor = self._socket.fileno()
        # One call takes all, unless a signal or a refusal ends it before that.
        while True:
            result = self._libc.send(descriptor, None, 0, 0)
            # Slots are taken in their order: the last one tells of all.
            if result >= 0 and status[-1] != _SEND_REQUEST:
                return
            number = ctypes.get_errno() if result < 0 else errno.EAGAIN
            if number in _REFUSED:
                self._refused += 1
                # Whoever is to empty the driver's ring may wait for this CPU.
                time.sleep(_NAP_S)
            elif number != errno.EINTR:
                raise KernelError("sending from a transmit ring", number)
            if time.monotonic() > until:
                waiting = int(np.count_nonzero(status == _SEND_REQUEST))
                raise KernelError(
                    f"sending from a transmit ring: {waiting} frames were refused again and again",
                    number,
                )

    def sent(self) -> Sent:
        """What was given to the driver; refused frames were sent again until it took them."""
        return Sent(self._generated + self._refused, self._refused)

    def close(self) -> None:
        # Views of the ring hold its mapping.
        for name in ("_status", "_lengths", "_data"):
            self.__dict__.pop(name, None)
        self._exit.close()

    def __enter__(self) -> RingGenerator:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _close(ring: mmap.mmap) -> None:
    # A traceback may still hold a view of the ring; then the mapping goes with it.
    with contextlib.suppress(BufferError):
        ring.close()


def _open(outlet: Outlet) -> socket.socket:
    try:
        with outlet.inside():
            # Protocol 0: it receives nothing.
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError:
        raise NotPossibleError(
            "opening a packet socket was refused (EPERM): it takes CAP_NET_RAW. Run as root"
        ) from None
    try:
        opened.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
        opened.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        # A frame that is wrong is passed over, not the end of the whole call.
        opened.setsockopt(_SOL_PACKET, _PACKET_LOSS, 1)
    except OSError:
        os.close(opened.detach())
        raise
    return opened
