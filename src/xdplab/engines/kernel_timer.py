"""Timed calls of the kernel engine: test runs, each on what it should find."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from xdplab.errors import KernelError
from xdplab.kernel.maps import RingBuffer
from xdplab.kernel.testrun import TestRun


class Preparation:
    """What a call of a subject finds: its globals, and its ring buffers empty."""

    __slots__ = ("_pokes", "_rings")

    def __init__(
        self,
        pokes: Sequence[tuple[ctypes.Array[ctypes.c_char], bytes]],
        rings: Sequence[RingBuffer],
    ) -> None:
        self._pokes = pokes
        self._rings = rings

    def __call__(self) -> None:
        for target, value in self._pokes:
            target.raw = value
        for ring in self._rings:
            ring.skip()


class KernelTimer:
    """Timed test runs of one load; see engines.base.Timer.

    `repeat` is that of the system call. With `use_duration` the kernel's own duration of the run
    counts (operations, with a repeat of one), else our clock around the system call.
    """

    __slots__ = ("_prepare", "_repeat", "_run", "_use_duration", "operations_per_call")
    counts: Mapping[str, int] = {}

    def __init__(
        self,
        run: TestRun,
        repeat: int,
        use_duration: bool,
        operations_per_call: int,
        prepare: Preparation,
    ) -> None:
        self._run = run
        self._repeat = repeat
        self._use_duration = use_duration
        self._prepare = prepare
        self.operations_per_call = operations_per_call

    def __call__(self) -> int:
        try:
            if self._use_duration:
                # Whatever was done since the last call made the program's first turns slow, of
                # which a run has few.
                self._prepare()
                self._run(self._repeat)
            self._prepare()
            elapsed_ns = self._run(self._repeat)
        except OSError as error:
            raise KernelError("running a loaded program", error.errno or 0) from None
        return self._run.duration_ns if self._use_duration else elapsed_ns

    @property
    def interrupted(self) -> int:
        return self._run.interrupted

    @property
    def duration_ns(self) -> int | None:
        return self._run.duration_ns
