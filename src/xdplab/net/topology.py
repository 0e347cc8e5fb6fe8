"""Two namespaces joined by veth pairs, of this process alone: made, explained, gone with it.

    outside: v1, v3          dut: v0, v2          pairs: v1-v0, v3-v2

A packet is sent into v1 and so arrives at v0, in the namespace of the device under test (dut).
What leaves v2 arrives at v3. Namespaces are held by file descriptors and programs by bpf_links:
whatever ends the process, SIGKILL included, gives all of it back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from xdplab.errors import KernelError, UsageError
from xdplab.kernel import bpf
from xdplab.kernel.namespace import NetworkNamespace, entered
from xdplab.net import ethtool
from xdplab.net.interface import Interface, find_interface
from xdplab.net.links import Links, VethEnd, disable_ipv6, thread_napi
from xdplab.net.path import DUT, OUTSIDE, PAIRS, mac_of

Mode = Literal["native", "generic"]
_FLAGS = {"native": bpf.XDP_FLAGS_DRV_MODE, "generic": bpf.XDP_FLAGS_SKB_MODE}


@dataclass(frozen=True, slots=True)
class Port:
    """An interface of the topology: where it is, and the name of the pair's other end."""

    name: str
    namespace: str
    ifindex: int
    mac: str
    peer: str


class Topology:
    """The namespaces and the pairs, all interfaces up, IPv6 off. A context manager.

    `mtu_bytes` is every interface's, `queues` the rx and tx queues of each. `threaded` has NAPI
    run in kernel threads; inline (in the softirq of who sends) is what is faster on one CPU.
    NotPossibleError where a right or veth is missing, KernelError where the kernel refuses.
    """

    def __init__(self, mtu_bytes: int = 1500, queues: int = 1, threaded: bool = False) -> None:
        self._exit = contextlib.ExitStack()
        self._links: dict[str, int] = {}
        self._netlinks: dict[str, Links] = {}
        self._namespaces: dict[str, NetworkNamespace] = {}
        self.mtu_bytes = mtu_bytes
        self.threaded = threaded
        self.ports: dict[str, Port] = {}
        try:
            for label in (OUTSIDE, DUT):
                self._add_namespace(label)
            for near, far in PAIRS:
                self._add_pair(near, far, queues)
            for port in self.ports.values():
                netlink = self._netlinks[port.namespace]
                netlink.set_mtu(port.ifindex, mtu_bytes)
                netlink.set_up(port.ifindex)
        except BaseException:
            self.close()
            raise

    def _add_namespace(self, label: str) -> None:
        namespace = NetworkNamespace()
        self._exit.callback(namespace.close)
        self._namespaces[label] = namespace
        with namespace:
            disable_ipv6()
            self._netlinks[label] = self._exit.enter_context(Links())

    def _add_pair(self, near: str, far: str, queues: int) -> None:
        self._netlinks[OUTSIDE].add_veth(
            VethEnd(near, mac_of(near)),
            VethEnd(far, mac_of(far), self._namespaces[DUT].fd),
            queues,
        )
        for name, peer, label in ((near, far, OUTSIDE), (far, near, DUT)):
            with self._namespaces[label]:
                ifindex = find_interface(name).ifindex
            self.ports[name] = Port(name, label, ifindex, mac_of(name), peer)

    def port(self, name: str) -> Port:
        """The interface of that name. UsageError where the topology has none."""
        try:
            return self.ports[name]
        except KeyError:
            raise UsageError(
                f"the topology has no interface {name!r}; it has {', '.join(self.ports)}"
            ) from None

    @contextlib.contextmanager
    def inside(self, name: str) -> Iterator[Port]:
        """The calling thread in that interface's namespace, and back."""
        port = self.port(name)
        with entered(self._namespaces[port.namespace].fd):
            yield port

    def namespace_fd(self, name: str) -> int:
        """The descriptor of that interface's namespace; it stays the topology's."""
        return self._namespaces[self.port(name).namespace].fd

    def attach(self, name: str, prog_fd: int, mode: Mode = "native") -> None:
        """Put a program on an interface by a bpf_link; one that is there already is replaced.

        The program's fd stays the caller's. KernelError where the kernel refuses.
        """
        try:
            if name in self._links:
                bpf.link_update(self._links[name], prog_fd)
                return
            with self.inside(name) as port:
                self._links[name] = bpf.link_create_xdp(prog_fd, port.ifindex, _FLAGS[mode])
                # Only a program in native mode gives a veth a NAPI to be moved.
                if self.threaded and mode == "native":
                    thread_napi(name, self.namespace_fd(name))
        except OSError as error:
            raise KernelError(
                f"attaching a program to {name} in {mode} mode", error.errno or 0
            ) from None

    def detach(self, name: str) -> None:
        """Take the program off an interface; nothing where there is none."""
        link = self._links.pop(name, None)
        if link is not None:
            os.close(link)

    def set_gro(self, name: str, on: bool) -> None:
        """Generic receive offload: with it on, veth runs NAPI without a native program, too."""
        with self.inside(name):
            try:
                ethtool.set_gro(name, on)
            except OSError as error:
                raise KernelError(f"setting GRO of {name}", error.errno or 0) from None

    def look_at(self, name: str) -> Interface:
        """The interface as the kernel has it now."""
        with self.inside(name):
            return find_interface(name)

    def has_gro(self, name: str) -> bool:
        """Whether GRO is on."""
        with self.inside(name):
            return ethtool.has_gro(name)

    def counters(self, name: str) -> dict[str, int]:
        """The driver's counters with queues added up, and the stack's own two of packets lost.

        Names as in `ethtool -S` without the queue (`rx_xdp_drops`), and `rx_dropped`, `tx_dropped`.
        """
        with self.inside(name):
            driver = ethtool.summed(ethtool.DriverCounters(name).read())
        port = self.ports[name]
        stack = self._netlinks[port.namespace].counters(port.ifindex)
        kept = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped")
        return driver | {field: stack[field] for field in kept}

    def close(self) -> None:
        """Give up links, interfaces and namespaces."""
        for name in list(self._links):
            self.detach(name)
        self._exit.close()

    def __enter__(self) -> Topology:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
