"""What every generator can do, and the thread that runs one: for a time, a number, at a rate."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from xdplab.kernel.namespace import entered
from xdplab.packets.traffic import Traffic

MADE_UP_S = 20e-3
"""What generators make up for at once that send as soon as they are called."""

_TICK_S = 1e-3
"""How often a rate is looked after: as many packets as are due by then go at once."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where packets go out: an interface by name and number, and the descriptor of its namespace
    (None: that of the process)."""

    name: str
    ifindex: int
    namespace_fd: int | None = None

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """The calling thread in the interface's namespace, and back."""
        if self.namespace_fd is None:
            yield
            return
        with entered(self.namespace_fd):
            yield


@dataclass(frozen=True, slots=True)
class Sent:
    """Packets so far: made by the generator, and those of them that the interface did not take."""

    generated: int
    refused: int

    @property
    def accepted(self) -> int:
        """What went out."""
        return self.generated - self.refused


class Generator(Protocol):
    """Makes packets of a Traffic on an Outlet; one thread at a time uses it.

    `name` is the generator's in commands and documents, `chunk` how many packets a burst has that
    is worth its call. `made_up_s` is how much time's packets are made up for at once, at a rate,
    when the thread could not run: as few as any queue bears. The rest follows, so that the rate
    over all is kept.
    """

    @property
    def name(self) -> str: ...

    @property
    def chunk(self) -> int: ...

    @property
    def made_up_s(self) -> float: ...

    def burst(self, packets: int) -> None:
        """Make exactly that many packets, as fast as possible, and return when all are made.

        The calling thread is in the outlet's namespace. KernelError where the kernel refuses the
        traffic itself; single packets that an interface drops are counted instead.
        """

    def sent(self) -> Sent:
        """What was made so far. May be asked by any thread."""

    def close(self) -> None:
        """Give up what it holds."""

    def __enter__(self) -> Generator: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


Factory = Callable[[Outlet, Traffic], Generator]


class Pace:
    """How many packets are due: at `rate_pps` from the first look at the clock on, whatever came in
    between; None for as many as can be made."""

    def __init__(self, rate_pps: float | None, chunk: int, made_up_s: float) -> None:
        self._rate_pps = rate_pps
        self._chunk = chunk
        self._made_up_s = made_up_s
        self._start_s: float | None = None

    def due(self, now_s: float, made: int) -> int:
        """Packets to be made now, when `made` are already."""
        if self._rate_pps is None:
            return self._chunk
        if self._start_s is None:
            self._start_s = now_s
        wanted = int((now_s - self._start_s) * self._rate_pps) + 1 - made
        return max(0, min(wanted, self._chunk, 1 + int(self._rate_pps * self._made_up_s)))

    def wait_s(self, now_s: float, made: int) -> float:
        """How long until the next look: a tick, or longer where packets come less often."""
        if self._rate_pps is None or self._start_s is None:
            return 0.0
        next_s = self._start_s + made / self._rate_pps
        return max(_TICK_S, next_s - now_s)


class Sender:
    """A generator in a thread of its own. A context manager: leaving it stops.

    `rate_pps` None: as fast as possible. `packets` None: until it is stopped. `cpu` pins the
    thread. What ends the thread early is raised by `stop` and `wait`.
    """

    def __init__(
        self,
        generator: Generator,
        outlet: Outlet,
        rate_pps: float | None = None,
        packets: int | None = None,
        cpu: int | None = None,
    ) -> None:
        self._generator = generator
        self._outlet = outlet
        self._pace = Pace(rate_pps, generator.chunk, generator.made_up_s)
        self._packets = packets
        self._cpu = cpu
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"xdplab-{generator.name}")

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether all packets are made, or the thread has failed."""
        return not self._thread.is_alive()

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is done; False after `timeout_s` seconds."""
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._raise()
            return True
        return False

    def stop(self) -> None:
        """End within a burst (some milliseconds)."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._raise()

    def _raise(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self) -> None:
        try:
            if self._cpu is not None:
                os.sched_setaffinity(0, {self._cpu})
            with self._outlet.inside():
                self._send()
        except BaseException as error:
            self._failure = error

    def _send(self) -> None:
        made = 0
        while not self._stopping.is_set():
            left = None if self._packets is None else self._packets - made
            if left == 0:
                return
            due = self._pace.due(time.monotonic(), made)
            count = due if left is None else min(due, left)
            if count:
                self._generator.burst(count)
                made += count
            wait_s = self._pace.wait_s(time.monotonic(), made)
            if wait_s:
                self._stopping.wait(wait_s)

    def __enter__(self) -> Sender:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
