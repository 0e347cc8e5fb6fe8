"""A timed call of the live engine: a finite run of a generator until its last packet arrived."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from xdplab.engines.live_route import Route
from xdplab.errors import KernelError

_PATIENCE_S = 20e-3
"""How long without a packet until the rest of a call's is taken for lost."""

_NAP_S = 20e-6


class LiveTimer:
    """See engines.base.Timer. A doubled one sends twice its operations a call."""

    interrupted = 0
    duration_ns: int | None = None

    def __init__(self, route: Route, operations: int, doubled: bool) -> None:
        self._route = route
        self._packets = 2 * operations if doubled else operations
        self.operations_per_call = operations
        self.counts: dict[str, int] = {}

    def __call__(self) -> int:
        route, packets = self._route, self._packets
        device, arrived = route.device(), route.arrived()
        target = arrived + packets
        with (
            route.outlet.inside(),
            _undisturbed() if route.is_exclusive else contextlib.nullcontext(),
        ):
            cpu_ns, start_ns = time.thread_time_ns(), time.perf_counter_ns()
            route.send(packets)
            end_ns = time.perf_counter_ns()
            cpu_ns = time.thread_time_ns() - cpu_ns
            # Asked in here: a thread that has the rest gets this CPU as soon as we leave.
            all_there = route.arrived() >= target
        if not all_there:
            end_ns = wait_for(route.arrived, target)
        elapsed_ns = end_ns - start_ns
        got = route.arrived() - arrived
        self._count("generated", packets)
        self._count("device", route.device() - device)
        self._count("sink", got)
        self._count("elapsed_ns", elapsed_ns)
        self._count("on_cpu_ns", min(cpu_ns, elapsed_ns))
        if got < packets:
            # Linux before 6.4 runs no softirq inline while ksoftirqd waits for the CPU: where it
            # has to help, it must be let.
            route.is_exclusive = False
            for cause, count in route.losses().items():
                self._count(f"lost: {cause}", count)
        if not got:
            raise KernelError("waiting for packets at the end of their way: none arrived", 0)
        # What was lost took time, too: a packet's time is that of those that arrived.
        return elapsed_ns * packets // got

    def _count(self, what: str, number: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + number


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """No other process on this CPU for the milliseconds of a call: the lowest real-time priority.

    Nice values are weighed within a session or control group only. Who may not do this measures
    all the same, and sees the time on its CPU beside the time that passed.
    """
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def wait_for(count: Callable[[], int], target: int) -> int:
    """When the last packet up to `target` was seen, ns of perf_counter.

    A kernel thread may have the rest (ksoftirqd, the map of CPUs), and gets this CPU while we
    sleep.
    """
    seen, last_ns = count(), time.perf_counter_ns()
    while seen < target:
        time.sleep(_NAP_S)
        now, now_ns = count(), time.perf_counter_ns()
        if now != seen:
            seen, last_ns = now, now_ns
        elif now_ns - last_ns > _PATIENCE_S * 1e9:
            break
    return last_ns
