"""The one seam: run this program on this frame and time it.

An engine opens a session on subjects; a session places their programs (loads them anew) and
hands out timers. A timer is one timed call: who decides how often, in which order and when it
is enough is the conductor, experiment.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Protocol, runtime_checkable

from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec
from xdplab.program.native import NativeSpec

XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT = range(5)
ACTIONS = ("XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT")


class Method(Enum):
    """How a subject is timed; figures of different methods are never compared.

    OPERATION: the program repeats its operation in a loop, one test run a call, the kernel's
    own duration of that run. PACKET: the program handles one packet, attached to lo of a
    private namespace, many repeats a call, our clock around the system call. LIVE: a generator
    sends packets down a way of interfaces, many a call, our clock until the last has arrived.
    """

    OPERATION = "operation"
    PACKET = "packet"
    LIVE = "live"


LoadKey = tuple[str, str, int]
"""Object, program and instance: what tells one load from another."""


Entries = Sequence[tuple[bytes, bytes]]
"""Keys and values of a map; of a per-CPU map every CPU gets the value."""


@dataclass(frozen=True, slots=True)
class Network:
    """What a program finds around it: interface 1 (`lo`) and one route, nobody else's.

    bpf_fib_lookup finds that `destination`, an IPv4 prefix ("198.18.0.0/15"), is reached by way
    of `gateway`, an address whose MAC address (`gateway_mac`, 6 bytes) is known.
    """

    destination: str
    gateway: str
    gateway_mac: bytes


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing to time: a program with its globals on a frame.

    On the native engine it is a function of a NativeSpec, which works on the frame's bytes.
    `operations` is how often one run of the program performs what is measured. Subjects with
    the same object, program and `instance` share a load; a twin differs by `instance` alone.
    `action` is what the program must return: anything else and it did not do its work. None: any
    will do, of programs that nobody here wrote.
    `constants` are what its .rodata holds, by variable, set when it is loaded.
    `datapath` are variants of what lies around the program, for engines that have them.
    `requires` are features that a native function needs of the processor, by LLVM's names.
    `loop_in_function`: the loop of operations is in a function that the program calls, so that
    the program's own place decides nothing and is not worth a search.
    `entries` are what its maps hold at first, by their names; subjects that share a load share
    them. Prog arrays hold what the source puts there, a program itself as it is loaded at the
    moment. Ring buffers are emptied before each call.
    """

    key: str
    object: ObjectSpec | NativeSpec
    program: str
    frame: Frame
    action: int | None = XDP_PASS
    operations: int = 1
    globals: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, int | bytes] = field(default_factory=dict)
    instance: int = 0
    datapath: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    loop_in_function: bool = False
    entries: Mapping[str, Entries] = field(default_factory=dict)
    network: Network | None = None

    @property
    def bpf_object(self) -> ObjectSpec:
        """The object, for engines that run BPF programs. TypeError where it is none."""
        if not isinstance(self.object, ObjectSpec):
            raise TypeError(f"{self.key} is a native function: the native engine runs it")
        return self.object

    @property
    def load_key(self) -> LoadKey:
        """What tells apart the loads that subjects share."""
        return self.object.name, self.program, self.instance


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program did with a frame: raw retval (u32) and the frame's bytes behind it."""

    retval: int
    data: bytes


class Timer(Protocol):
    """One timed call of one subject where it is placed now."""

    @property
    def operations_per_call(self) -> int:
        """How many operations (or packets) the returned time is for."""

    @property
    def interrupted(self) -> int:
        """Calls so far that a signal cut short; they were made again."""

    @property
    def duration_ns(self) -> int | None:
        """The kernel's own whole nanoseconds per run in the last call, if the engine has them."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What was counted over all calls so far, by stable names; empty where nothing is."""

    def __call__(self) -> int:
        """Time one call: whole nanoseconds for all its operations."""


class Session(Protocol):
    """Subjects made ready on an engine. Use as a context manager: leaving gives all up."""

    @property
    def missing(self) -> Mapping[str, str]:
        """Subjects that this machine cannot run, by key, with the reason in a sentence."""

    @property
    def capacity(self) -> int | None:
        """How many programs (load keys) may be placed at once; None for any number."""

    def place(self, keys: Sequence[str]) -> None:
        """Load these subjects' programs anew, placed as alike as the engine can make it."""

    def placement(self, key: str) -> int:
        """Address modulo 64 of the subject's present load, or -1 where it is not known."""

    def timer(self, key: str, doubled: bool = False) -> Timer:
        """A timer for the subject's present load; `doubled` makes the work twice a call.

        ValueError where the method has no doubled call.
        """

    def run(self, key: str) -> Outcome:
        """Run the subject's program once on its frame."""

    def read_global(self, key: str, name: str) -> int | float | bytes:
        """A global variable of the subject's object as the last run left it."""

    def clock_ghz(self) -> float | None:
        """The core's clock at this moment, measured; None where the engine cannot tell."""

    def close(self) -> None:
        """Give up everything that the session holds."""

    def __enter__(self) -> Session: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class Repeating(Protocol):
    """A session whose timed calls run a program again and again on one buffer."""

    def repeated(self, key: str) -> Outcome:
        """What a program did last, after as many runs on one buffer as a timed call makes of the
        packet method: one that changes its packet finds what the run before left."""


@runtime_checkable
class Surrounded(Protocol):
    """An engine whose programs have interfaces of its own around them."""

    def surroundings(self) -> AbstractContextManager[Mapping[str, int]]:
        """The calling thread where programs will be measured, or where it looks just like there:
        the numbers of the interfaces, by name. NotPossibleError where there can be none."""


class Engine(Protocol):
    """Where programs run. `name` is that of the result document: kernel, user, ..."""

    @property
    def name(self) -> str:
        """As in the result document."""

    @property
    def datapath(self) -> Mapping[str, Sequence[str]]:
        """Variants of what lies around the program that it can run: name -> values."""

    @property
    def chosen(self) -> Mapping[str, str]:
        """Those of this run, for subjects that leave them open; every result tells of them."""

    @property
    def mitigations(self) -> Sequence[str]:
        """What is in force around the calls of its programs, in a few words each."""

    @property
    def cpu(self) -> int | None:
        """The CPU that sessions run on, or None where they are not pinned."""

    def open(self, subjects: Sequence[Subject], method: Method) -> Session:
        """Make subjects ready. NotPossibleError where this engine cannot work here at all."""


def action_name(retval: int) -> str:
    """The action's name, or the number where the kernel knows no such action."""
    if retval < len(ACTIONS):
        return ACTIONS[retval]
    # A program that returned -1 meant that number, whatever the kernel reads.
    signed = f" ({retval - (1 << 32)})" if retval >> 31 else ""
    return f"retval {retval}{signed}"
