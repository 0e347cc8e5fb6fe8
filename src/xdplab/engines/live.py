"""The live engine: a program on a veth of the running kernel, with real packets before it.

A subject names its way through a topology and what makes its packets (`datapath`); the session
builds a topology for each, checks that a packet gets through, and keeps all of them: going
from one to another costs nothing, so that the conductor's quads alternate between whole paths. A
timed call is a finite run of a generator, from the call to the last packet's arrival at the end
of its way; generator, NAPI and program share one CPU, unless a way says otherwise.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType

from xdplab.engines.base import Method, Outcome, Session, Subject
from xdplab.engines.kernel import KernelSession
from xdplab.engines.live_route import FramesRoute, Route, TopologyRoute
from xdplab.engines.live_timer import LiveTimer, wait_for
from xdplab.engines.live_ways import DATAPATH, DEVICE, LIVE_FRAMES, PACKETS, WAYS
from xdplab.engines.pinning import pinned_cpu
from xdplab.errors import KernelError, MissingFeatureError, NotPossibleError
from xdplab.kernel.host import mitigations_of_calls
from xdplab.net.generators.base import Generator, Outlet
from xdplab.net.generators.programs import FramesGenerator, SkbGenerator
from xdplab.net.generators.ring import RingGenerator
from xdplab.net.topology import Topology
from xdplab.packets.traffic import Captured
from xdplab.user.clock import core_clock_ghz


class LiveSession:
    """A session on live paths; see engines.base.Session.

    Pins the calling thread to one CPU while it is open, and has each timed call at real-time
    priority, where it may.
    """

    capacity = None

    def __init__(self, subjects: Sequence[Subject], chosen: Mapping[str, str], cpu: int) -> None:
        self._subjects = {subject.key: subject for subject in subjects}
        self._chosen = chosen
        self._cpu = cpu
        self._exit = contextlib.ExitStack()
        self._routes: dict[str, Route] = {}
        self._generators: dict[tuple[str, int, bytes, bool], Generator] = {}
        self.missing: dict[str, str] = {}
        try:
            self._exit.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cpu})
            for subject in subjects:
                self._prepare(subject)
        except BaseException:
            self.close()
            raise

    def _prepare(self, subject: Subject) -> None:
        way = subject.datapath["way"]
        route: FramesRoute | TopologyRoute
        try:
            if way == LIVE_FRAMES:
                route = FramesRoute(subject)
            else:
                kind = subject.datapath["generator"]
                route = TopologyRoute(
                    subject,
                    WAYS[way],
                    # Programs of which nothing is known may change any byte of a packet.
                    lambda outlet, frame: self._generator(
                        kind, outlet, frame, restores=subject.action is None
                    ),
                    self._cpu,
                    self._chosen.get("napi") == "threaded",
                )
        except MissingFeatureError as error:
            self.missing[subject.key] = f"this kernel lacks {error.feature} for XDP programs"
        except NotPossibleError as error:
            self.missing[subject.key] = str(error)
        except OSError as error:
            raise KernelError(f"preparing {subject.key}", error.errno or 0) from None
        else:
            self._exit.callback(route.close)
            self._routes[subject.key] = route
            # The first call of each may show that it cannot have its CPU to itself.
            self.timer(subject.key)()

    def _generator(self, kind: str, outlet: Outlet, frame: bytes, restores: bool) -> Generator:
        """Generators of XDP and skbs send wherever their thread is: topologies, whose interfaces
        are numbered alike, share them. A ring belongs to its interface."""
        # A packet comes back as the last receiver left it: of two equal ones each is written anew,
        # of a single one no more than a header.
        traffic = Captured((frame, frame) if restores else (frame,))
        if kind == "ring":
            return self._exit.enter_context(RingGenerator(outlet, traffic))
        key = kind, outlet.ifindex, frame, restores
        made = self._generators.get(key)
        if made is None:
            if kind == "skb":
                made = self._exit.enter_context(SkbGenerator(outlet, traffic))
            else:
                frames = FramesGenerator(outlet, traffic, count_refused=False)
                made = self._exit.enter_context(frames)
            self._generators[key] = made
        return made

    def place(self, keys: Sequence[str]) -> None:
        try:
            for key in keys:
                self._routes[key].place()
        except OSError as error:
            raise KernelError(
                f"loading and attaching {len(keys)} programs", error.errno or 0
            ) from None

    def placement(self, key: str) -> int:
        return self._routes[key].placement

    def timer(self, key: str, doubled: bool = False) -> LiveTimer:
        packets = PACKETS[self._subjects[key].datapath.get("generator", "frames")]
        return LiveTimer(self._routes[key], packets, doubled)

    def run(self, key: str) -> Outcome:
        """One packet sent down the way. The frame is as it was, for nobody brings it back."""
        route, subject = self._routes[key], self._subjects[key]
        target = route.arrived() + 1
        with route.outlet.inside():
            route.send(1)
        wait_for(route.arrived, target)
        if route.arrived() < target:
            raise KernelError(f"sending a packet to {subject.program}: it did not arrive", 0)
        return Outcome(subject.action or 0, subject.frame.data)

    def read_global(self, key: str, name: str) -> int | float | bytes:
        """KeyError: what programs keep is counted, not read."""
        raise KeyError(name)

    def clock_ghz(self) -> float | None:
        return core_clock_ghz()

    def close(self) -> None:
        self._exit.close()

    def __enter__(self) -> LiveSession:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class LiveEngine:
    """Packets on interfaces of this process's own namespaces.

    `chosen` are variants of the data path for this run: `napi`, inline or threaded.
    """

    name = "live"
    datapath = DATAPATH

    def __init__(self, chosen: Mapping[str, str] | None = None) -> None:
        self.chosen: Mapping[str, str] = dict(chosen or {})

    @property
    def mitigations(self) -> Sequence[str]:
        """What the kernel makes calls, returns and indirect branches of."""
        return mitigations_of_calls()

    @property
    def cpu(self) -> int | None:
        """The CPU that generators, NAPI and programs share."""
        return pinned_cpu()

    @contextlib.contextmanager
    def surroundings(self) -> Iterator[Mapping[str, int]]:
        """See engines.base.Surrounded: at the device under test. All topologies' interfaces are
        numbered alike."""
        with Topology() as topology, topology.inside(DEVICE) as device:
            yield {
                name: port.ifindex
                for name, port in topology.ports.items()
                if port.namespace == device.namespace
            }

    def open(self, subjects: Sequence[Subject], method: Method) -> Session:
        """Build every subject's way and send a packet down it; what does not get through is
        missing, with the hop and the reason.

        Of the packet method it makes what the kernel engine does: the same programs without a
        path, to stand beside those with one.
        """
        cpu = self.cpu
        if cpu is None:
            raise NotPossibleError("live paths need Linux, where a thread can be pinned to a CPU")
        if method is Method.LIVE:
            return LiveSession(subjects, self.chosen, cpu)
        return KernelSession(subjects, method, cpu)
