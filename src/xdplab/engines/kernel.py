"""The kernel's test run as an engine: loads, placement, attachment, timers.

Three facts shape this file (docs/method.md has the figures). Test runs of more than one repeat
rewrite the XDP dispatcher unless the program is attached already, which costs milliseconds:
whole packets are measured attached to lo of a private namespace. Where the JIT places a
program changes its cost more than small operations do: every trial loads anew, compared
programs share the address modulo 64 where they can, and the address changes from trial to
trial. And a loaded program can be slow for as long as it lives: only many loads tell.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import resource
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import TracebackType

from xdplab.engines.base import LoadKey, Method, Outcome, Subject, Timer, action_name
from xdplab.engines.kernel_timer import KernelTimer, Preparation
from xdplab.engines.pinning import pinned_cpu
from xdplab.engines.placement import Loads
from xdplab.errors import KernelError, MissingFeatureError, NotPossibleError
from xdplab.kernel import bpf
from xdplab.kernel.host import mitigations_of_calls
from xdplab.kernel.libbpf import LoadedObject, RelocatedProgram
from xdplab.kernel.maps import PROG_ARRAY, RINGBUF, RingBuffer, fill
from xdplab.kernel.namespace import LOOPBACK_IFINDEX, NetworkNamespace
from xdplab.kernel.testrun import TestRun, xdp_md
from xdplab.net.route import add_route
from xdplab.packets.frame import Frame
from xdplab.program.shipped import shipped_object

REPEAT = 8000
"""Packets a call of the packet method: about 50 us of the shortest program, so that entering
the kernel (1 to 2 us) stays a small part, and short enough to be seldom interrupted."""

ATTACHED = 8
"""Programs attached at any time in the packet method, filled up where fewer are measured. The
XDP dispatcher is a binary search over the attached programs, and its depth is part of what a
packet pays: a power of two gives all of them the same depth, always eight the same context."""

_CHAIN_CYCLES = 100 * 100 * 3
"""Cycles of calibrate.bpf.c's chain: 100 turns of 100 multiplications of three cycles."""


_PLACEMENTS_A_MAP = 12
"""Placements after which maps are made anew: what memory they got is luck."""


class KernelSession:
    """A session on the running kernel; see engines.base.Session.

    Pins the calling thread to one CPU while it is open and puts the old mask back.
    """

    def __init__(self, subjects: Sequence[Subject], method: Method, cpu: int | None) -> None:
        self._subjects = {subject.key: subject for subject in subjects}
        # The kernel places functions each on its own, and tells only afterwards where.
        self._anywhere = frozenset(s.load_key for s in subjects if s.loop_in_function)
        self._method = method
        self._exit = contextlib.ExitStack()
        self._objects: dict[str, LoadedObject] = {}
        self._rings: dict[str, list[RingBuffer]] = {}
        self._programs: dict[LoadKey, RelocatedProgram] = {}
        self._loads = Loads()
        self._links: list[int] = []
        self._placements = 0
        self._clock: TestRun | None = None
        self.missing: dict[str, str] = {}
        self.capacity = ATTACHED if method is Method.PACKET else None
        try:
            if cpu is not None:
                self._exit.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
                os.sched_setaffinity(0, {cpu})
            _allow_descriptors()
            self._enter_network()
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _enter_network(self) -> None:
        # Test runs and devmaps take the interfaces of the calling thread's namespace.
        wanting = {key: one.network for key, one in self._subjects.items() if one.network}
        if not wanting:
            return
        namespace = NetworkNamespace()
        self._exit.callback(namespace.close)
        self._exit.enter_context(namespace)
        for network in dict.fromkeys(wanting.values()):
            try:
                add_route(network.destination, network.gateway, network.gateway_mac)
            except NotPossibleError as error:
                self.missing |= {key: str(error) for key in wanting if wanting[key] == network}

    def _prepare(self) -> None:
        self._exit.callback(self._close_objects)
        self._exit.callback(self._loads.close)
        for subject in self._subjects.values():
            if subject.load_key not in self._programs and not self._is_missing(subject):
                self._relocate(subject)
        for subject in list(self._subjects.values()):
            if subject.key not in self.missing:
                self._check(subject)

    def _is_missing(self, subject: Subject) -> bool:
        for key, reason in self.missing.items():
            if self._subjects[key].load_key == subject.load_key:
                self.missing[subject.key] = reason
                return True
        return False

    def _relocate(self, subject: Subject) -> None:
        try:
            loaded = self._object(subject)
            self._programs[subject.load_key] = loaded.relocated(subject.program)
        except MissingFeatureError as error:
            self.missing[subject.key] = f"this kernel lacks {error.feature} for XDP programs"

    def _object(self, subject: Subject) -> LoadedObject:
        # One object a program: a kfunc that the kernel lacks must not take its siblings along.
        name = _object_name(subject.load_key)
        loaded = self._objects.get(name)
        if loaded is None:
            loaded = LoadedObject(
                subject.bpf_object, (subject.program,), subject.constants, all_maps=False
            )
            self._objects[name] = loaded
            self._rings[name] = []
            self._prepare_maps(loaded, subject)
        return loaded

    def _close_objects(self) -> None:
        for name in list(self._objects):
            self._close_object(name)

    def _close_object(self, name: str) -> None:
        for ring in self._rings.pop(name, []):
            ring.close()
        self._objects.pop(name).close()

    def _renew_maps(self) -> None:
        """Open the objects again that have maps; their programs are others then."""
        of_name = defaultdict(list)
        for subject in self._subjects.values():
            name = _object_name(subject.load_key)
            if subject.key not in self.missing and _keeps_data(self._objects[name]):
                of_name[name].append(subject)
        for name, subjects in of_name.items():
            self._loads.forget({subject.load_key for subject in subjects})
            self._close_object(name)
            for subject in subjects:
                self._relocate(subject)

    def _prepare_maps(self, loaded: LoadedObject, subject: Subject) -> None:
        specs = loaded.spec.maps
        rings = self._rings[_object_name(subject.load_key)]
        try:
            for name, entries in subject.entries.items():
                fill(loaded.maps[name], specs[name], entries)
            rings += (
                RingBuffer(fd)
                for name, fd in loaded.maps.items()
                if name in specs and specs[name].type == RINGBUF
            )
        except OSError as error:
            tried = f"preparing the maps of {subject.program}"
            raise KernelError(tried, error.errno or 0) from None

    def _check(self, subject: Subject) -> None:
        try:
            outcome = self.run(subject.key)
        except OSError as error:
            if subject.frame.ingress_ifindex:
                raise _not_so_received(subject.frame, error) from None
            if subject.frame.linear_bytes is not None and error.errno == errno.EINVAL:
                self.missing[subject.key] = "this kernel's test run cannot set the linear part"
                return
            raise KernelError(
                f"running {subject.program} once on a frame of {len(subject.frame.data)} bytes",
                error.errno or 0,
            ) from None
        if subject.action is not None and outcome.retval != subject.action:
            self.missing[subject.key] = (
                f"{subject.program} returned {action_name(outcome.retval)} where "
                f"{action_name(subject.action)} means that it did its work"
            )

    def place(self, keys: Sequence[str]) -> None:
        wanted = list(dict.fromkeys(self._subjects[key].load_key for key in keys))
        self._placements += 1
        if not self._placements % _PLACEMENTS_A_MAP:
            self._renew_maps()
        try:
            self._loads.place(self._programs, wanted, self._anywhere)
            for key in wanted:
                self._follow(key)
            if self._method is Method.PACKET:
                self._attach(wanted)
        except OSError as error:
            raise KernelError(
                f"loading and attaching {len(wanted)} programs", error.errno or 0
            ) from None

    def _follow(self, key: LoadKey) -> None:
        """Put a program's present load where its prog arrays have the program itself."""
        program = key[1]
        loaded = self._objects[_object_name(key)]
        for name, spec in loaded.spec.maps.items():
            if spec.type != PROG_ARRAY or name not in loaded.maps:
                continue
            slots = [slot for slot, held in (spec.values or {}).items() if held == program]
            fd = self._loads.current[key][0].to_bytes(4, "little")
            fill(loaded.maps[name], spec, [(slot.to_bytes(4, "little"), fd) for slot in slots])

    def _attach(self, wanted: Sequence[LoadKey]) -> None:
        for index in range(ATTACHED):
            key = wanted[index % len(wanted)]
            if index < len(wanted):
                fd, _ = self._loads.current[key]
            elif index < len(self._links):
                return
            else:
                fd = self._programs[key].load()
                self._exit.callback(os.close, fd)
            if index < len(self._links):
                bpf.link_update(self._links[index], fd)
                continue
            namespace = NetworkNamespace()
            self._exit.callback(namespace.close)
            with namespace:
                link = bpf.link_create_xdp(fd, LOOPBACK_IFINDEX, bpf.XDP_FLAGS_SKB_MODE)
            self._exit.callback(os.close, link)
            self._links.append(link)

    def placement(self, key: str) -> int:
        return self._loads.current[self._subjects[key].load_key][1]

    def timer(self, key: str, doubled: bool = False) -> Timer:
        subject = self._subjects[key]
        fd, _ = self._loads.current[subject.load_key]
        run = _test_run(fd, subject)
        prepare = self._preparation(subject)
        if self._method is Method.PACKET:
            # A long call would be shared with whoever else wants the CPU.
            repeat = max(1, REPEAT // subject.operations)
            operations = repeat * subject.operations
            return KernelTimer(run, 2 * repeat if doubled else repeat, False, operations, prepare)
        if doubled:
            raise ValueError("a loop of operations has a fixed length: there is no doubled call")
        return KernelTimer(run, 1, True, subject.operations, prepare)

    def _preparation(self, subject: Subject) -> Preparation:
        loaded = self._object(subject)
        pokes = [
            (loaded.memory_of(name), subject.bpf_object.globals[name].encode(value))
            for name, value in subject.globals.items()
        ]
        return Preparation(pokes, self._rings[_object_name(subject.load_key)])

    def run(self, key: str) -> Outcome:
        return self._run(key, 1)

    def repeated(self, key: str) -> Outcome:
        return self._run(key, max(1, REPEAT // self._subjects[key].operations))

    def _run(self, key: str, repeat: int) -> Outcome:
        subject = self._subjects[key]
        self._preparation(subject)()
        fd = self._object(subject).prog_fd(subject.program)
        outcome = _test_run(fd, subject).outcome(repeat)
        return Outcome(outcome.retval, outcome.data)

    def read_global(self, key: str, name: str) -> int | float | bytes:
        """A global variable of the subject's object as its program left it."""
        return self._object(self._subjects[key]).read(name)

    def clock_ghz(self) -> float | None:
        if platform.machine() != "x86_64":
            return None
        if self._clock is None:
            loaded = LoadedObject(shipped_object("calibrate"), ("multiply_chain",))
            self._exit.callback(loaded.close)
            self._clock = TestRun(loaded.prog_fd("multiply_chain"), bytes(64))
        try:
            best_ns = min(self._clock.duration_ns for _ in range(5) if self._clock(1))
        except OSError as error:
            raise KernelError("measuring the clock", error.errno or 0) from None
        return _CHAIN_CYCLES / best_ns

    def close(self) -> None:
        self._exit.close()

    def __enter__(self) -> KernelSession:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _object_name(key: LoadKey) -> str:
    return f"{key[0]}:{key[1]}"


def _keeps_data(loaded: LoadedObject) -> bool:
    specs = loaded.spec.maps
    return any(name in specs and specs[name].type != PROG_ARRAY for name in loaded.maps)


def _allow_descriptors() -> None:
    """Raise the soft limit to the hard one: each load is a descriptor, kept ones are hundreds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _test_run(fd: int, subject: Subject) -> TestRun:
    frame = subject.frame
    is_told = frame.metadata or frame.linear_bytes is not None or frame.ingress_ifindex
    return TestRun(fd, frame.metadata + frame.data, xdp_md(frame) if is_told else None)


def _not_so_received(frame: Frame, error: OSError) -> KernelError:
    """Why the kernel gives a program no packet that came in so."""
    number, queue = frame.ingress_ifindex, frame.rx_queue_index
    if error.errno == errno.ENODEV:
        remedy = f"This network namespace has no interface {number}: ip link lists them"
    else:
        remedy = (
            f"The interface must have a receive queue {queue} that is registered for XDP (ls "
            "/sys/class/net/*/queues): give a lower queue, or another interface"
        )
    tried = f"running a program on a packet from queue {queue} of interface {number}"
    return KernelError(tried, error.errno or 0, remedy)


class KernelEngine:
    """The running kernel by BPF_PROG_TEST_RUN."""

    name = "kernel"
    # A running kernel is as it is.
    datapath: Mapping[str, Sequence[str]] = {}
    chosen: Mapping[str, str] = {}

    @property
    def mitigations(self) -> Sequence[str]:
        """What the kernel makes calls, returns and indirect branches of."""
        return mitigations_of_calls()

    @property
    def cpu(self) -> int | None:
        """The CPU that sessions pin the calling thread to."""
        return pinned_cpu()

    def open(self, subjects: Sequence[Subject], method: Method) -> KernelSession:
        """Load every subject's program once and check that it does its work.

        A subject whose helper or kfunc this kernel lacks goes to `missing`; anything else that
        fails is an error: VerifierError, NotPossibleError, KernelError.
        """
        return KernelSession(subjects, method, self.cpu)
