"""What the kernel says of packets that do not go on, by its tracepoints (bpf/path_events.bpf.c)."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from xdplab.kernel import bpf
from xdplab.kernel.libbpf import LoadedObject
from xdplab.kernel.namespace import entered
from xdplab.program.shipped import shipped_object

ABORTED, REDIRECT_FAILED, NOT_SENT, TX_FAILED, QUEUE_FULL, SKB_FREED = range(1, 7)
"""enum kind of path_events.bpf.c."""

_EVENT = struct.Struct("<QqIIQ")
_SO_NETNS_COOKIE = 71
"""asm-generic/socket.h."""


@dataclass(frozen=True, slots=True)
class Event:
    """Packets that something happened to at one interface.

    `kind` is one of the constants above. `detail` is the action for ABORTED, the number of enum
    skb_drop_reason for SKB_FREED, the map's id for QUEUE_FULL, else an errno (positive; 0 unknown).
    `cookie` tells the interface's namespace; with QUEUE_FULL it and `ifindex` are 0.
    """

    kind: int
    cookie: int
    ifindex: int
    detail: int
    packets: int


def namespace_cookie(namespace_fd: int | None = None) -> int:
    """The number by which the kernel tells network namespaces apart, for as long as it runs.

    `namespace_fd` None: the calling thread's.
    """
    where = contextlib.nullcontext() if namespace_fd is None else entered(namespace_fd)
    with where, socket.socket() as asked:
        return int.from_bytes(asked.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), "little")


class PathEvents:
    """Watches the interfaces of one or two namespaces while it is open. A context manager.

    `cookies` are those of the namespaces. Not for measuring: every skb that is freed anywhere
    is looked at. A tracepoint that this kernel lacks is left out.
    """

    def __init__(self, cookies: Sequence[int]) -> None:
        self._exit = contextlib.ExitStack()
        words = [*cookies, *cookies][:2]
        constants = {"namespace_cookies": struct.pack("<2Q", *words)}
        try:
            self._object = LoadedObject(shipped_object("path_events"), constants=constants)
            self._exit.callback(self._object.close)
            for name in self._object.spec.programs:
                # Programs are named after their tracepoints.
                with contextlib.suppress(FileNotFoundError):
                    link = bpf.raw_tracepoint_open(name, self._object.prog_fd(name))
                    self._exit.callback(os.close, link)
        except BaseException:
            self.close()
            raise

    def seen(self) -> list[Event]:
        """What was seen so far, in its order; no more than the first 256."""
        count = int(self._object.read("event_count"))
        raw = self._object.memory_of("events").raw
        found: list[Event] = []
        for cookie, detail, kind, ifindex, packets in _EVENT.iter_unpack(raw):
            if len(found) < count and kind:
                number = -detail if detail < 0 else detail
                found.append(Event(kind, cookie, ifindex, number, packets))
        return found

    def close(self) -> None:
        """Take the programs off."""
        self._exit.close()

    def __enter__(self) -> PathEvents:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
