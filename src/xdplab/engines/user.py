"""The user-space engine on the seam: the same objects, translated to native code, anywhere.

A packet goes round in the runtime's native loop, over a ring of buffers as a driver has one: with a
single buffer the store of one packet is forwarded to the load of the next, which no NIC
does. Placing a program loads its code once more, at another address. Timers, what is loaded and the
session know each other's memory, and so share this file, which is long for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import random
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType

from xdplab.engines.base import LoadKey, Method, Network, Outcome, Subject, Timer, action_name
from xdplab.engines.pinning import pinned_cpu
from xdplab.errors import MissingFeatureError, XdplabError
from xdplab.packets.frame import MINIMUM_BYTES, Frame
from xdplab.program.uses import uses
from xdplab.user import runtime
from xdplab.user.abi import SkbReuse, UserBuffer, UserJob, UserRoute
from xdplab.user.buffer import FrameBuffer
from xdplab.user.cache import ObjectCache
from xdplab.user.clock import core_clock_ghz
from xdplab.user.datapath import DATAPATH, VETH_MODEL, check_choice, datapath_value
from xdplab.user.jit import LoadedCode, runtime_copy
from xdplab.user.machine import LOOPBACK_IFINDEX, UserObject, UserProgram
from xdplab.user.maps import RINGBUF
from xdplab.user.options import Mode, Options
from xdplab.user.veth_model import VethJob, VethModel

PACKETS = 8000
"""Packets a call of the packet method, as many as the kernel engine's repeats."""

_PLACEMENTS_A_COPY = 12
"""Placements after which helpers are loaded anew and maps are made anew: where a process has them
is luck, which would be the same for every load of a program."""

_STACK_SHIFTS = range(0, 4096, 16)
"""How far a program's stack lies from where it would: within a page, aligned as a stack is. Where a
process has its stack is luck, and decides which of a program's stores meet in a cache line."""

_SEED = 20

_BUDGET = 1 << 62
"""Instructions that checked programs may take in a call: no limit."""

BUFFERS = 64
"""Buffers that packets rotate through: a NAPI budget's worth."""


class _Timer:
    interrupted = 0
    counts: Mapping[str, int] = {}
    duration_ns: int | None = None

    def __init__(self, loaded: _Loaded, subject: Subject, packets: int, operations: int) -> None:
        self._loaded = loaded
        self._subject = subject
        self.operations_per_call = operations
        self._job = loaded.job(subject, packets)

    def __call__(self) -> int:
        if self._job.packets == 1:
            # Whatever was done since the last call made the program's first turns slow, of which
            # one run has few.
            self._once()
        return self._once()

    def _once(self) -> int:
        self._loaded.prepare(self._subject)
        # The program may have been placed anew since: what is where is looked up each time.
        self._job.program = self._loaded.program.address
        self._job.frame = ctypes.addressof(self._loaded.object.frame)
        elapsed_ns = int(self._loaded.run(ctypes.addressof(self._job)))
        if self._job.done < self._job.packets:
            # What a checked program's fault ended is no time of anything.
            raise self._loaded.fault()
        return elapsed_ns


class _ModelTimer:
    """Packets through the veth model: nanoseconds of its polls."""

    interrupted = 0
    counts: Mapping[str, int] = {}
    duration_ns: int | None = None

    def __init__(self, loaded: _Loaded, subject: Subject, packets: int, operations: int) -> None:
        self._loaded = loaded
        self._subject = subject
        self.operations_per_call = operations
        # Its frame and state are the job's for as long as that runs.
        self._object = loaded.object
        self._job = loaded.veth_job(subject, packets)

    def __call__(self) -> int:
        self._loaded.prepare(self._subject)
        return self._job(self._loaded.program.address)


class _Loaded:
    """One program of one object with what it runs on: shared by the subjects of a load key."""

    def __init__(self, subject: Subject, cache: ObjectCache, copy: LoadedCode, mode: Mode) -> None:
        # Maps of other programs would take memory and have nothing to do here.
        _, used = uses(subject.bpf_object, (subject.program,))
        maps = {name: one for name, one in subject.bpf_object.maps.items() if name in used}
        self._spec = replace(subject.bpf_object, maps=maps)
        self._subject = subject
        self._cache = cache
        self._mode = mode
        self.run = runtime.library().function("user_run", ctypes.c_uint64, ctypes.c_void_p)
        self._rings: dict[int, tuple[Frame, object, ctypes.Array[UserBuffer]]] = {}
        self._model: VethModel | None = None
        self._shifts = random.Random(_SEED)
        self._stack_shift = 0
        self._copy = copy
        self._open()

    def _open(self) -> None:
        subject = self._subject
        self.object = UserObject(
            self._spec,
            Options(self._mode),
            constants=subject.constants,
            cache=self._cache,
            copy=self._copy,
        )
        self.program: UserProgram = self.object.program(subject.program)
        for name, entries in subject.entries.items():
            for key, value in entries:
                self.object.maps[name].update(key, value)
        self._ring_maps = [one for one in self.object.maps.values() if one.spec.type == RINGBUF]
        if subject.network is not None:
            self.object.host.set_routes([_route(subject.network)])

    def place(self, copy: LoadedCode) -> None:
        """Load the program anew, its stack elsewhere; the model's memory is another one, too, and
        with another copy of the runtime the maps'."""
        self._stack_shift = self._shifts.choice(_STACK_SHIFTS)
        self._model = None
        if copy is self._copy:
            self.program.place_anew()
        else:
            self._copy = copy
            self.object.close()
            self._open()

    def prepare(self, subject: Subject) -> None:
        """Set the subject's globals and data path, and empty its ring buffers."""
        for name, value in subject.globals.items():
            self.object.write(name, value)
        self.object.receives_on(subject.frame)
        for ring in self._ring_maps:
            ring.skip()
        state = self.object.state
        # A call has thousands of packets; each of them ended by itself when it was looked at.
        state.budget, state.fault = _BUDGET, 0
        state.clear_head = datapath_value("clear_head", subject.datapath.get("clear_head", "none"))
        state.trait_move = datapath_value(
            "trait_move", subject.datapath.get("trait_move", "memmove")
        )

    def job(self, subject: Subject, packets: int) -> UserJob:
        """A job of so many packets on the subject's frame; its memory stays this object's."""
        return UserJob(
            program=self.program.address,
            frame=ctypes.addressof(self.object.frame),
            buffers=ctypes.addressof(self._ring(subject.frame)),
            buffer_count=BUFFERS,
            clock=time.CLOCK_MONOTONIC,
            packets=packets,
            stack_shift=self._stack_shift,
        )

    def veth_job(self, subject: Subject, packets: int) -> VethJob:
        """A job of the veth model; subjects of this load share its memory."""
        self._model = self._model or VethModel()
        reuse = datapath_value("skb_reuse", subject.datapath.get("skb_reuse", "off"))
        return self._model.job(
            self.program.address,
            self.object.frame,
            subject.frame,
            skb_reuse=SkbReuse(reuse),
            packets=packets,
        )

    def _ring(self, frame: Frame) -> ctypes.Array[UserBuffer]:
        # Kept with its frame, since an id is a frame's only for as long as that lives.
        known = self._rings.get(id(frame))
        if known is None:
            buffers = [FrameBuffer(frame, restores=False) for _ in range(BUFFERS)]
            ring = (UserBuffer * BUFFERS)(*(one.buffer for one in buffers))
            known = self._rings[id(frame)] = (frame, buffers, ring)
        return known[2]

    def read(self, name: str) -> int | float | bytes:
        """A global variable as the last run left it."""
        return self.object.read(name)

    def outcome(self, subject: Subject) -> Outcome:
        """Run once, and bring back what came of it."""
        self.prepare(subject)
        outcome = self.program.run(subject.frame)
        if outcome.fault is not None:
            raise XdplabError(
                f"running {subject.program} ended at {len(subject.frame.data)} bytes: "
                f"{outcome.fault.message}"
            )
        return Outcome(outcome.retval, outcome.data)

    def fault(self) -> XdplabError:
        """What ended the last call before all its packets were through."""
        message = self.program.fault_record(self.object.state).message
        return XdplabError(f"measuring {self._subject.program} ended in its midst: {message}")

    def close(self) -> None:
        """Give up the object."""
        self.object.close()


def _route(network: Network) -> UserRoute:
    destination = ipaddress.IPv4Network(network.destination)
    gateway = ipaddress.IPv4Address(network.gateway)
    return UserRoute(
        family=socket.AF_INET,
        prefix_bits=destination.prefixlen,
        ifindex=LOOPBACK_IFINDEX + 1,
        address=(ctypes.c_uint8 * 16)(*destination.network_address.packed),
        gateway=(ctypes.c_uint8 * 16)(*gateway.packed),
        dmac=(ctypes.c_uint8 * 6)(*network.gateway_mac),
        smac=(ctypes.c_uint8 * 6)(2),
    )


def _is_modelled(subject: Subject) -> bool:
    receive = subject.datapath.get("receive", "ring")
    return datapath_value("receive", receive) == DATAPATH["receive"][VETH_MODEL]


def _lost_in_model(loaded: _Loaded, subject: Subject) -> str:
    """Why the subject's packets do not all come to their end in the model; "" where they do."""
    job = loaded.veth_job(subject, BUFFERS)
    loaded.prepare(subject)
    job()
    ended = job.counts.dropped + job.counts.passed
    if ended == BUFFERS:
        return ""
    return f"of {BUFFERS} packets in the veth model {ended} came to their end"


class UserSession:
    """A session of the user-space engine; see engines.base.Session."""

    capacity: int | None = None

    def __init__(
        self,
        subjects: Sequence[Subject],
        method: Method,
        cpu: int | None,
        mode: Mode = Mode.TIMED,
    ) -> None:
        self._subjects = {subject.key: subject for subject in subjects}
        self._method = method
        self._mode = mode
        self._exit = contextlib.ExitStack()
        self._loaded: dict[LoadKey, _Loaded] = {}
        self._placements = 0
        # Never the process's own runtime, whose calls of the C library are others.
        self._copies = [runtime_copy()]
        self.missing: dict[str, str] = {}
        try:
            if cpu is not None:
                self._exit.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
                os.sched_setaffinity(0, {cpu})
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        cache = ObjectCache()
        lacking: dict[LoadKey, str] = {}
        for subject in self._subjects.values():
            key = subject.load_key
            if key not in self._loaded and key not in lacking:
                try:
                    loaded = _Loaded(subject, cache, self._copies[-1], self._mode)
                except MissingFeatureError as error:
                    lacking[key] = f"the user-space engine lacks {error.feature}"
                else:
                    self._loaded[key] = loaded
                    self._exit.callback(loaded.close)
            if key in lacking:
                self.missing[subject.key] = lacking[key]
                continue
            retval = self.run(subject.key).retval
            if subject.action is not None and retval != subject.action:
                self.missing[subject.key] = (
                    f"{subject.program} returned {action_name(retval)} where "
                    f"{action_name(subject.action)} means that it did its work"
                )
            elif _is_modelled(subject) and (why := _lost_in_model(self._loaded[key], subject)):
                self.missing[subject.key] = why

    def place(self, keys: Sequence[str]) -> None:
        self._placements += 1
        if not self._placements % _PLACEMENTS_A_COPY:
            # Those before are kept, or the next one would have their place.
            self._copies.append(runtime_copy())
        for load_key in dict.fromkeys(self._subjects[key].load_key for key in keys):
            self._loaded[load_key].place(self._copies[-1])

    def placement(self, key: str) -> int:
        return self._loaded[self._subjects[key].load_key].program.address % 64

    def timer(self, key: str, doubled: bool = False) -> Timer:
        subject = self._subjects[key]
        loaded = self._loaded[subject.load_key]
        if self._method is Method.PACKET:
            timer = _ModelTimer if _is_modelled(subject) else _Timer
            packets = max(1, PACKETS // subject.operations)
            operations = packets * subject.operations
            return timer(loaded, subject, 2 * packets if doubled else packets, operations)
        if doubled:
            raise ValueError("a loop of operations has a fixed length: there is no doubled call")
        return _Timer(loaded, subject, 1, subject.operations)

    def run(self, key: str) -> Outcome:
        subject = self._subjects[key]
        return self._loaded[subject.load_key].outcome(subject)

    def repeated(self, key: str) -> Outcome:
        subject = self._subjects[key]
        loaded = self._loaded[subject.load_key]
        outcome = loaded.outcome(subject)
        for _ in range(PACKETS // BUFFERS - 1):
            # A frame of which nothing is left is one that no program could be given.
            if len(outcome.data) < MINIMUM_BYTES:
                break
            changed = replace(subject, frame=replace(subject.frame, data=outcome.data))
            outcome = loaded.outcome(changed)
        return outcome

    def read_global(self, key: str, name: str) -> int | float | bytes:
        return self._loaded[self._subjects[key].load_key].read(name)

    def clock_ghz(self) -> float | None:
        return core_clock_ghz()

    def close(self) -> None:
        self._exit.close()

    def __enter__(self) -> UserSession:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class UserEngine:
    """Native code in this process: needs no privilege and no BPF in the kernel."""

    name = "user"
    # Plain calls, returns and indirect branches, whatever the kernel below has.
    mitigations: Sequence[str] = ()
    datapath: Mapping[str, Sequence[str]] = {
        name: tuple(values) for name, values in DATAPATH.items()
    }

    def __init__(self, chosen: Mapping[str, str] | None = None, mode: Mode = Mode.TIMED) -> None:
        """`chosen` are variants of the data path for subjects that leave them open. `mode` is
        CHECKED for programs that no verifier has seen: their accesses are then checked."""
        self._mode = mode
        self.chosen: Mapping[str, str] = dict(chosen or {})
        check_choice(self.chosen)

    @property
    def cpu(self) -> int | None:
        """The CPU that sessions pin the calling thread to, None where that cannot be done."""
        return pinned_cpu()

    def open(self, subjects: Sequence[Subject], method: Method) -> UserSession:
        """Translate and load every subject's program, and check that it does its work.

        A subject that needs what the engine lacks goes to `missing`. NotPossibleError where there
        is no runtime for this machine.
        """
        full = [replace(one, datapath={**self.chosen, **one.datapath}) for one in subjects]
        return UserSession(full, method, self.cpu, self._mode)
