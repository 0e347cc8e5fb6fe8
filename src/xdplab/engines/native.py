"""Native functions on the seam: C of xdplab/native, timed in loops in this process.

For what is no BPF program, or has to be seen beside one: the routines that a kernel clears memory
with, a call under mitigations. Needs no privilege. Placing loads a file of functions anew, at one
drawn place in a line for all functions of that trial (native/code.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import random
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from xdplab.engines.base import Method, Outcome, Subject, Timer
from xdplab.engines.pinning import pinned_cpu
from xdplab.errors import NotPossibleError, XdplabError
from xdplab.native.code import SHIFTS, NativeCode, lacking_features
from xdplab.program.native import NativeSpec
from xdplab.user.cache import ObjectCache
from xdplab.user.clock import core_clock_ghz
from xdplab.user.jit import LoadedCode

_SEED = 20
_NOT_DONE = (1 << 64) - 1
_PAGE_BYTES = 4096

_LoadKey = tuple[NativeSpec, int]
"""A file of functions in one variant, and the instance: what is loaded as one."""


class _Memory:
    """What a function works on: a frame's bytes from the start of a page."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        # A page behind it, for who clears by lines or by words.
        self._memory = mmap.mmap(-1, -(-len(data) // _PAGE_BYTES) * _PAGE_BYTES + _PAGE_BYTES)
        self._view = (ctypes.c_char * len(self._memory)).from_buffer(self._memory)
        self.address = ctypes.addressof(self._view)
        self.restore()

    def restore(self) -> None:
        ctypes.memmove(self.address, self._data, len(self._data))

    def read(self) -> bytes:
        return ctypes.string_at(self.address, len(self._data))


class _Loaded:
    """The functions of a load as they lie now; a load that is replaced is given up."""

    def __init__(self, code: NativeCode) -> None:
        self.code = code
        self._loaded: LoadedCode | None = None

    def place(self, shift: int) -> None:
        self._loaded = self.code.load(shift)

    def address(self, name: str) -> int:
        if self._loaded is None:
            self.place(SHIFTS[0])
        assert self._loaded is not None
        return self._loaded.addresses[name]

    def variable(self, name: str) -> ctypes.c_uint64:
        return ctypes.c_uint64.from_address(self.address(name))

    def prepare(self, subject: Subject) -> None:
        for name, value in subject.globals.items():
            self.variable(name).value = value


class _Timer:
    interrupted = 0
    counts: Mapping[str, int] = {}
    duration_ns: int | None = None

    def __init__(self, loaded: _Loaded, subject: Subject, memory: _Memory) -> None:
        self._loaded = loaded
        self._subject = subject
        self._memory = memory
        self.operations_per_call = subject.operations
        # A timer is for the present load.
        self._time = ctypes.CFUNCTYPE(
            ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int32
        )(loaded.address("native_time"))
        self._function = loaded.address(subject.program)

    def __call__(self) -> int:
        self._loaded.prepare(self._subject)
        elapsed_ns = int(
            self._time(
                self._function,
                self.operations_per_call,
                self._memory.address,
                time.CLOCK_MONOTONIC,
            )
        )
        if elapsed_ns == _NOT_DONE:
            raise XdplabError(
                f"timing {self._subject.program} of {self._subject.object.name}: it did its work "
                "before and did not now, which is a bug of xdplab"
            )
        return elapsed_ns


class NativeSession:
    """A session of the native engine; see engines.base.Session."""

    capacity: int | None = None

    def __init__(self, subjects: Sequence[Subject], cpu: int | None) -> None:
        self._subjects = {subject.key: subject for subject in subjects}
        self._exit = contextlib.ExitStack()
        self._loaded: dict[_LoadKey, _Loaded] = {}
        self._memory: dict[str, _Memory] = {}
        self._shifts = random.Random(_SEED)
        self.missing: dict[str, str] = {}
        try:
            if cpu is not None:
                self._exit.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
                os.sched_setaffinity(0, {cpu})
            cache = ObjectCache()
            for subject in self._subjects.values():
                if why := self._prepare(subject, cache):
                    self.missing[subject.key] = why
        except BaseException:
            self.close()
            raise

    def _prepare(self, subject: Subject, cache: ObjectCache) -> str:
        """Why the subject cannot be run; "" where it did its work."""
        key = _load_key(subject)
        if key not in self._loaded:
            try:
                self._loaded[key] = _Loaded(NativeCode(key[0], cache))
            except NotPossibleError as error:
                return str(error)
        code = self._loaded[key].code
        if subject.program not in code.functions:
            return f"there is no {subject.program} for this processor"
        if lacking := lacking_features(subject.requires):
            return f"this processor has no {' and no '.join(lacking)}"
        outcome = self.run(subject.key)
        if outcome.retval != subject.action:
            return f"it answered {outcome.retval} where {subject.action} means that it did its work"
        return ""

    def place(self, keys: Sequence[str]) -> None:
        shift = self._shifts.choice(SHIFTS)
        for load_key in dict.fromkeys(_load_key(self._subjects[key]) for key in keys):
            self._loaded[load_key].place(shift)

    def placement(self, key: str) -> int:
        subject = self._subjects[key]
        return self._loaded[_load_key(subject)].address(subject.program) % 64

    def timer(self, key: str, doubled: bool = False) -> Timer:
        if doubled:
            raise ValueError("a loop of operations has a fixed length: there is no doubled call")
        subject = self._subjects[key]
        return _Timer(self._loaded[_load_key(subject)], subject, self._memory_of(subject))

    def _memory_of(self, subject: Subject) -> _Memory:
        # Each its own: what one function leaves behind is not what another one finds.
        known = self._memory.get(subject.key)
        if known is None:
            known = self._memory[subject.key] = _Memory(subject.frame.data)
        return known

    def run(self, key: str) -> Outcome:
        subject = self._subjects[key]
        loaded, memory = self._loaded[_load_key(subject)], self._memory_of(subject)
        loaded.prepare(subject)
        memory.restore()
        function = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p)(
            loaded.address(subject.program)
        )
        retval = int(function(1, memory.address))
        return Outcome(retval, memory.read())

    def read_global(self, key: str, name: str) -> int | float | bytes:
        return int(self._loaded[_load_key(self._subjects[key])].variable(name).value)

    def clock_ghz(self) -> float | None:
        return core_clock_ghz()

    def close(self) -> None:
        self._loaded.clear()
        self._exit.close()

    def __enter__(self) -> NativeSession:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _load_key(subject: Subject) -> _LoadKey:
    if not isinstance(subject.object, NativeSpec):
        raise TypeError(f"{subject.key} is a BPF program: the native engine runs native functions")
    return subject.object, subject.instance


class NativeEngine:
    """C functions, compiled as a kernel's are, in this process: no privilege, no BPF.

    A subject's `object` is a NativeSpec, its `program` one of the functions, `operations` the turns
    that it is asked for, its frame's bytes the memory that it works on.
    """

    name = "native"
    # Of functions that ask for none in their NativeSpec.
    mitigations: Sequence[str] = ()
    datapath: Mapping[str, Sequence[str]] = {}
    chosen: Mapping[str, str] = {}

    @property
    def cpu(self) -> int | None:
        """The CPU that sessions pin the calling thread to, None where that cannot be done."""
        return pinned_cpu()

    def open(self, subjects: Sequence[Subject], method: Method) -> NativeSession:
        """Compile and load every subject's file, and check that each function does its work.

        ValueError for the packet method, which native functions have not.
        """
        if method is not Method.OPERATION:
            raise ValueError("native functions have operations and no packets")
        return NativeSession(subjects, self.cpu)
