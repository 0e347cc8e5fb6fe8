"""Ways made ready: a subject's program where its packets come by, and who counts them.

Every route has a topology and programs of its own, so that nothing has to be changed to go from
one to another; only the generators of XDP and skbs are shared, which send wherever their thread is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from xdplab.engines.base import Subject
from xdplab.engines.live_ways import DEVICE, OBJECT, OUT, Way
from xdplab.errors import KernelError
from xdplab.kernel import bpf
from xdplab.kernel.libbpf import LoadedObject
from xdplab.kernel.maps import fill
from xdplab.kernel.namespace import LOOPBACK_IFINDEX, NetworkNamespace
from xdplab.kernel.testrun import TestRun
from xdplab.net import ethtool
from xdplab.net.check import trace
from xdplab.net.generators.base import Generator, Outlet
from xdplab.net.generators.programs import BATCH
from xdplab.net.topology import Mode, Topology
from xdplab.net.xsk import Tally, Xsk, drop_loop
from xdplab.program.shipped import shipped_object

_Memory = ctypes.Array[ctypes.c_char]

_CPU_QUEUE = 16_384
"""Entries of the map of CPUs' queue, the kernel's limit: it holds a doubled call's packets."""

_SOCKET_RING = 4096
_SOCKET_TURN = _SOCKET_RING // 2
"""Packets that are sent before the socket's are taken, in turns on one CPU: the rings bear them,
and they fill half a ring, of which a receiver takes all at once."""

_SOCKET_PATIENCE_S = 20e-3

_VERDICTS = ("rx_xdp_drops", "rx_xdp_tx", "rx_xdp_redirect", "rx_drops")
"""veth's counters of packets that a program, or the driver behind it, did not hand on."""

_LOSSES = {
    "tx_dropped": "peer's ring full behind",
    "rx_drops": "dropped by the driver at",
}
"""veth's counters of lost packets, and what a document calls them. The first has in it what XDP
sent; counters of that alone say no more."""


class Route(Protocol):
    """A subject made ready: packets can be sent and are counted."""

    @property
    def outlet(self) -> Outlet:
        """Where its packets go out: whoever calls `send` is in this one's namespace."""

    is_exclusive: bool
    """Whether `send` does all the work, so that nobody else must have its CPU meanwhile."""

    def send(self, packets: int) -> None:
        """Send that many; they may be under way still when it returns."""

    def device(self) -> int:
        """Packets so far at the device under test."""

    def arrived(self) -> int:
        """Packets so far at the end of their way."""

    def losses(self) -> Mapping[str, int]:
        """Packets lost since the last look, by cause and interface."""

    def place(self) -> None:
        """Load the program anew and put it in its place."""

    @property
    def placement(self) -> int:
        """Address modulo 64 of the present load, -1 where it is not known."""


class _Placed:
    """The present load of a subject's program; closes what it replaces."""

    def __init__(self, loaded: LoadedObject, program: str) -> None:
        self._relocated = loaded.relocated(program)
        self.fd = self._relocated.load()

    def load(self) -> int:
        """Load once more; return the fd of before, for whoever has it attached to close."""
        old, self.fd = self.fd, self._relocated.load()
        return old

    @property
    def placement(self) -> int:
        address = bpf.prog_address(self.fd)
        return address % 64 if address else -1

    def close(self) -> None:
        os.close(self.fd)


class FramesRoute:
    """No way at all: a test run hands the program live frames, and it drops them.

    No driver and no ring, but a page pool, and the frames' structures that XDP hands around.
    Attached to `lo` of a namespace of its own, as a test run wants it.
    """

    def __init__(self, subject: Subject) -> None:
        self.is_exclusive = True
        self._frame = subject.frame.data
        self._made = 0
        self._exit = contextlib.ExitStack()
        try:
            loaded = LoadedObject(subject.bpf_object, (subject.program,))
            self._exit.callback(loaded.close)
            self._placed = _Placed(loaded, subject.program)
            self._exit.callback(self._placed.close)
            namespace = NetworkNamespace()
            self._exit.callback(namespace.close)
            self.outlet = Outlet("lo", LOOPBACK_IFINDEX, namespace.fd)
            with namespace:
                self._link = bpf.link_create_xdp(
                    self._placed.fd, LOOPBACK_IFINDEX, bpf.XDP_FLAGS_SKB_MODE
                )
            self._exit.callback(os.close, self._link)
            self._run = TestRun(self._placed.fd, self._frame, batch_size=BATCH)
        except BaseException:
            self.close()
            raise

    def send(self, packets: int) -> None:
        try:
            self._run(packets)
        except OSError as error:
            raise KernelError("running a program on live frames", error.errno or 0) from None
        self._made += packets

    def device(self) -> int:
        return self._made

    def arrived(self) -> int:
        return self._made

    def losses(self) -> Mapping[str, int]:
        return {}

    def place(self) -> None:
        old = self._placed.load()
        bpf.link_update(self._link, self._placed.fd)
        os.close(old)
        self._run = TestRun(self._placed.fd, self._frame, batch_size=BATCH)

    @property
    def placement(self) -> int:
        return self._placed.placement

    def close(self) -> None:
        self._exit.close()


class TopologyRoute:
    """A way through a topology of its own; a packet has been down it when it is made.

    `make_generator` is asked for the generator of frames for that outlet. NotPossibleError, with
    the hop and the reason, where the packet does not get through.
    """

    def __init__(
        self,
        subject: Subject,
        way: Way,
        make_generator: Callable[[Outlet, bytes], Generator],
        target_cpu: int,
        threaded: bool,
    ) -> None:
        self.is_exclusive = not threaded
        self._exit = contextlib.ExitStack()
        self._lost: dict[str, int] = {}
        try:
            self._topology = self._exit.enter_context(Topology(threaded=threaded))
            self._attach(subject, way, target_cpu)
            port = self._topology.ports[way.path.enters]
            namespace_fd = self._topology.namespace_fd(port.name)
            self.outlet = Outlet(port.name, port.ifindex, namespace_fd)
            mac = self._topology.ports[way.to].mac
            # An Ethernet header begins with the destination.
            frame = bytes.fromhex(mac.replace(":", "")) + subject.frame.data[6:]
            self._generator = make_generator(self.outlet, frame)
            trace(
                self._topology,
                way.path,
                lambda: self.send(1),
                self.arrived,
                len(frame),
            )
        except BaseException:
            self.close()
            raise

    def _attach(self, subject: Subject, way: Way, target_cpu: int) -> None:
        self._end_action = ""
        self._device: _Memory | None = None
        self._sink: _Memory | None = None
        self._xsk: Xsk | None = None
        self._tally = Tally()
        mode: Mode = "generic" if subject.datapath.get("mode") == "generic" else "native"
        is_ours = subject.object.name == OBJECT
        if is_ours or way.programs:
            loaded = self._hops(subject.program if is_ours else None, way, target_cpu)
            ends_elsewhere = way.programs or way.behind
            if ends_elsewhere:
                self._sink = loaded.memory_of("sink_packets")
            for interface, program in way.programs.items():
                self._topology.attach(interface, loaded.prog_fd(program))
        if is_ours:
            self._device = loaded.memory_of("device_packets")
            self._sink = self._sink or self._device
            if way.behind == "socket":
                self._open_socket(loaded)
        else:
            loaded = self._theirs(subject)
            self._end_action = way.path.hops[-1].action
            with self._topology.inside(DEVICE):
                self._driver = ethtool.DriverCounters(DEVICE)
        self._placed = _Placed(loaded, subject.program)
        self._exit.callback(self._placed.close)
        self._topology.attach(DEVICE, self._placed.fd, mode)
        if mode == "generic" and subject.datapath["generator"] == "frames":
            # Without a native program nobody polls, and nobody takes live frames.
            self._topology.set_gro(DEVICE, True)

    def _theirs(self, subject: Subject) -> LoadedObject:
        """A program that does not count, with what it is to find: constants, variables, maps."""
        spec = subject.bpf_object
        # A devmap takes the interfaces of the namespace that it is filled in.
        with self._topology.inside(DEVICE):
            loaded = LoadedObject(spec, (subject.program,), subject.constants, all_maps=False)
            self._exit.callback(loaded.close)
            for name, entries in subject.entries.items():
                fill(loaded.maps[name], spec.maps[name], entries)
        for name, value in subject.globals.items():
            loaded.memory_of(name).raw = spec.globals[name].encode(value)
        return loaded

    def _hops(self, program: str | None, way: Way, target_cpu: int) -> LoadedObject:
        """The programs of this way, out of one object, whose counters they share."""
        programs = {*([program] if program else []), *way.programs.values()}
        sizes = {}
        if way.behind == "cpu":
            programs.add(way.in_thread)
            sizes["cpus"] = (8, target_cpu + 1)
        target = self._topology.ports[OUT].ifindex
        loaded = LoadedObject(
            shipped_object(OBJECT),
            tuple(programs),
            {"out_ifindex": target, "target_cpu": target_cpu},
            sizes,
        )
        self._exit.callback(loaded.close)
        if program == "redirect_map":
            # The map takes an interface of the namespace that it is filled in.
            with self._topology.inside(OUT):
                bpf.map_update(loaded.maps["ports"], bytes(4), struct.pack("=I", target))
        if way.behind == "cpu":
            # struct bpf_cpumap_val: the queue's length, and the program in the CPU's thread.
            value = struct.pack("=II", _CPU_QUEUE, loaded.prog_fd(way.in_thread))
            bpf.map_update(loaded.maps["cpus"], struct.pack("=I", target_cpu), value)
            _favour_thread(f"cpumap/{target_cpu}/map:{bpf.map_id(loaded.maps['cpus'])}")
        return loaded

    def _open_socket(self, loaded: LoadedObject) -> None:
        """An AF_XDP socket at the first queue, where `redirect_socket` sends packets."""
        with self._topology.inside(DEVICE) as port:
            self._xsk = self._exit.enter_context(Xsk(port.name, rx_ring=_SOCKET_RING))
        descriptor = struct.pack("=I", self._xsk.fileno())
        bpf.map_update(loaded.maps["sockets"], bytes(4), descriptor)

    def send(self, packets: int) -> None:
        if self._xsk is None:
            self._generator.burst(packets)
            return
        while packets:
            turn = min(packets, _SOCKET_TURN)
            self._generator.burst(turn)
            drop_loop(self._xsk, self._tally, packets=turn, seconds=_SOCKET_PATIENCE_S)
            packets -= turn

    def device(self) -> int:
        if self._device is not None:
            return int.from_bytes(self._device, "little")
        return self._counted()["rx_xdp_packets"]

    def arrived(self) -> int:
        if self._xsk is not None:
            return self._tally.packets
        if self._sink is not None:
            return int.from_bytes(self._sink, "little")
        counters = self._counted()
        if self._end_action == "XDP_DROP":
            return counters["rx_xdp_drops"]
        # What goes on to the stack is in none of the driver's counters of verdicts.
        return counters["rx_xdp_packets"] - sum(map(counters.__getitem__, _VERDICTS))

    def _counted(self) -> Mapping[str, int]:
        """Somebody else's program does not count; the driver does."""
        with self._topology.inside(DEVICE):
            return ethtool.summed(self._driver.read())

    def losses(self) -> Mapping[str, int]:
        now = {
            f"{what} {name}": counters[counter]
            for name in self._topology.ports
            for counters in [self._topology.counters(name)]
            for counter, what in _LOSSES.items()
            if counters.get(counter)
        }
        if self._xsk is not None and self._xsk.statistics().lost:
            now[f"not taken from the socket at {DEVICE}"] = self._xsk.statistics().lost
        found = {cause: count - self._lost.get(cause, 0) for cause, count in now.items()}
        self._lost = now
        return {cause: count for cause, count in found.items() if count}

    def place(self) -> None:
        old = self._placed.load()
        self._topology.attach(DEVICE, self._placed.fd)
        os.close(old)

    @property
    def placement(self) -> int:
        return self._placed.placement

    def close(self) -> None:
        self._exit.close()


def _favour_thread(name: str) -> None:
    """The lowest real-time priority for a kernel thread of our own, as a timed call has it.

    It goes with its map. Without the right, or where the thread is named otherwise, it shares its
    CPU with whoever else wants it.
    """
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text().strip() == name:
                number = int(comm.parent.name)
                os.sched_setscheduler(number, os.SCHED_FIFO, os.sched_param(1))
