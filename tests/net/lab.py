"""A topology with the hop programs of paths.bpf.c on it, and traffic for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from xdplab.kernel.libbpf import LoadedObject
from xdplab.net.generators.base import Outlet
from xdplab.net.path import Hop, Path
from xdplab.net.topology import Mode, Topology
from xdplab.packets.traffic import Flows, Span
from xdplab.program.shipped import shipped_object

SOURCE, DESTINATION = 0xC0000201, 0xC6120001  # 192.0.2.1, 198.18.0.1

DROP = Path("drop", "v1", (Hop("v0", "XDP_DROP"),))
TX_DROP = Path("tx-drop", "v1", (Hop("v0", "XDP_TX", "v0"), Hop("v1", "XDP_DROP")))
TX_PASS = Path("tx-pass", "v1", (Hop("v0", "XDP_TX", "v0"), Hop("v1", "XDP_PASS")))
REDIRECT_DROP = Path(
    "redirect-drop", "v1", (Hop("v0", "XDP_REDIRECT", "v2"), Hop("v3", "XDP_DROP"))
)


@dataclass
class Lab:
    """A topology and the object whose programs are attached."""

    topology: Topology
    programs: LoadedObject

    @property
    def outlet(self) -> Outlet:
        """Where generators send: v1."""
        return Outlet("v1", self.topology.ports["v1"].ifindex, self.topology.namespace_fd("v1"))

    def attach(self, interface: str, program: str, mode: Mode = "native") -> None:
        """A program of paths.bpf.c by its name."""
        self.topology.attach(interface, self.programs.prog_fd(program), mode)

    def traffic(self, to: str, **settings: Any) -> Flows:
        """A flow of UDP packets to that interface's MAC address."""
        flow = Flows(Span(SOURCE), Span(DESTINATION), destination_mac=self.topology.ports[to].mac)
        return replace(flow, **settings)

    @property
    def device(self) -> int:
        """Packets that the device under test has seen."""
        return int(self.programs.read("device_packets"))

    @property
    def sink(self) -> int:
        """Packets that arrived at the end of their way."""
        return int(self.programs.read("sink_packets"))


@contextmanager
def lab(attached: Mapping[str, str] | None = None, **settings: Any) -> Iterator[Lab]:
    """A lab with these programs attached (interface -> program); settings are the topology's."""
    with Topology(**settings) as topology:
        constants = {"out_ifindex": topology.ports["v2"].ifindex}
        with LoadedObject(shipped_object("paths"), constants=constants) as programs:
            made = Lab(topology, programs)
            for interface, program in (attached or {}).items():
                made.attach(interface, program)
            yield made
