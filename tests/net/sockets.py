"""AF_XDP sockets to test, at the ends of veth pairs of our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from pyroute2 import IPRoute

from xdplab.net import Xsk
from xdplab.net.topology import Topology


class Line:
    """A topology, and sockets on its interfaces: v1 outside is joined to v0, v3 to v2.

    What is opened here is closed here.
    """

    def __init__(self, topology: Topology, exit_stack: ExitStack) -> None:
        self._topology = topology
        self._exit = exit_stack

    def inside(self, name: str) -> AbstractContextManager[object]:
        """The calling thread in that interface's namespace, and back."""
        return self._topology.inside(name)

    def ifindex(self, name: str) -> int:
        return self._topology.ports[name].ifindex

    def change(self, command: str, name: str, **settings: Any) -> None:
        """Such as "set" with state="down", or "del"."""
        with self.inside(name), IPRoute() as netlink:
            netlink.link(command, index=self.ifindex(name), **settings)

    def open(self, name: str, **options: Any) -> Xsk:
        """A socket on that interface, which receives nothing yet."""
        with self.inside(name):
            return self._exit.enter_context(Xsk(name, **options))

    def attach(self, name: str, **options: Any) -> Xsk:
        """A socket with the package's program before it."""
        with self.inside(name):
            return self._exit.enter_context(Xsk.attach(name, **options))

    def sender(self, name: str = "v1", **options: Any) -> Xsk:
        """A socket that only sends."""
        return self.open(name, **{"rx_ring": 0, "tx_ring": 512, **options})


@contextmanager
def line(mtu: int = 1500, queues: int = 1) -> Iterator[Line]:
    """Two pairs between two namespaces, and sockets that close before they go."""
    with Topology(mtu, queues) as topology, ExitStack() as exit_stack:
        yield Line(topology, exit_stack)


def packet(number: int, length_bytes: int = 64) -> bytes:
    """A frame of no protocol anybody answers, with a number in it and a pattern behind."""
    head = bytes.fromhex("020000000001 020000000000 88b5") + number.to_bytes(4, "big")
    return head + bytes((number + at) % 251 for at in range(length_bytes - len(head)))


def all_of(xsk: Xsk, count: int, timeout_s: float = 10.0) -> list[bytes]:
    """The next `count` packets, copied; fewer where they do not come."""
    got: list[bytes] = []
    while len(got) < count:
        with xsk.receive(timeout_s=timeout_s) as batch:
            if not len(batch):
                break
            got += [bytes(one) for one in batch]
    return got
