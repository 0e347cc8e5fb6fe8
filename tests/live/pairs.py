"""Interfaces of our own to test on: veth pairs between namespaces that have no name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute

from xdplab.kernel.namespace import NetworkNamespace
from xdplab.net.interface import find_interface

MAC = "02:00:00:00:{pair:02x}:{end:02x}"


class Place:
    """A namespace with a netlink socket in it. `with place.namespace:` goes there."""

    def __init__(self) -> None:
        self.namespace = NetworkNamespace()
        with self.namespace:
            self.netlink: Any = IPRoute()
            # A host that speaks IPv6 sends packets of its own as soon as a link is up.
            for scope in ("all", "default"):
                switch = Path("/proc/sys/net/ipv6/conf", scope, "disable_ipv6")
                if switch.exists():
                    switch.write_text("1")

    def ifindex(self, name: str) -> int:
        """The ifindex of an interface that is there."""
        (ifindex,) = self.netlink.link_lookup(ifname=name)
        return int(ifindex)

    def programs(self, name: str) -> dict[str, int]:
        """XDP programs on an interface: mode -> id."""
        with self.namespace:
            return find_interface(name).programs

    def set(self, name: str, **settings: Any) -> None:
        """Such as state="up", mtu=9000, master=3."""
        self.netlink.link("set", index=self.ifindex(name), **settings)

    def close(self) -> None:
        """Give it up; the interfaces in it go, too."""
        self.netlink.close()
        self.namespace.close()


def join(
    here: Place,
    name: str,
    there: Place,
    peer: str,
    *,
    pair: int = 0,
    queues: int = 1,
    mtu: int = 1500,
) -> Place:
    """A veth pair, both ends up: `name` in one place and `peer` in the other, which is returned."""
    alike = {"num_rx_queues": queues, "num_tx_queues": queues, "mtu": mtu}
    here.netlink.link(
        "add",
        ifname=name,
        kind="veth",
        address=MAC.format(pair=pair, end=0),
        peer={
            "ifname": peer,
            "address": MAC.format(pair=pair, end=1),
            "net_ns_fd": there.namespace.fd,
            **alike,
        },
        **alike,
    )
    there.set(peer, state="up")
    here.set(name, state="up")
    return there


@contextmanager
def places(count: int) -> Iterator[list[Place]]:
    """So many empty namespaces, which go when the block is left."""
    made: list[Place] = []
    try:
        for _ in range(count):
            made.append(Place())  # noqa: PERF401
        yield made
    finally:
        for place in made:
            place.close()
