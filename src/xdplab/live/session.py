"""A program on an interface that the user named, and what it counts.

Programs are attached by bpf_links alone, which live as long as this process has their
descriptors: whatever ends it, the interface is as it was before.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from xdplab.errors import KernelError, NotPossibleError, UsageError
from xdplab.kernel import bpf
from xdplab.kernel.libbpf import LoadedObject
from xdplab.live.choices import Mode
from xdplab.live.readings import ACTIONS, Counts, EventKey, Reading
from xdplab.live.traces import Traces
from xdplab.net.ethtool import DriverCounters, name_of
from xdplab.net.interface import Interface, refuse_second_program, veth_peer, why_peer_drops
from xdplab.program.shipped import shipped_object

_FLAGS: Mapping[Mode, int] = {
    "native": bpf.XDP_FLAGS_DRV_MODE,
    "skb": bpf.XDP_FLAGS_SKB_MODE,
}

if TYPE_CHECKING:
    # It needs numpy, which takes half a second: not for commands that have no socket.
    from xdplab.live.consumer import Consumer

# As in live.bpf.h: words from one CPU's or queue's counters to the next, a line of cache.
_STRIDE = 8

# Queued packets have arrived when nothing was counted for so long, or at the latest then.
_LULL_S = 0.02
_SETTLE_S = 1.0

_IN_THE_WAY = frozenset({errno.EBUSY, errno.EEXIST})
# Errors that another program would end with, too; others depend on the driver and its MTU.
_FINAL = _IN_THE_WAY | {errno.EPERM, errno.ENODEV}


_XMIT = "xdp_devmap_xmit"
_REDIRECT = ACTIONS.index("XDP_REDIRECT")
_NATIVE_EVENTS = frozenset({_XMIT, "xdp_bulk_tx"})


class _Refused(Exception):
    """An interface did not take the program."""

    def __init__(self, interface: Interface, number: int) -> None:
        self.interface = interface
        self.number = number


def _fill_nothing(_loaded: LoadedObject, _behind: int | None) -> None:
    """Most programs have no map to fill."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a live command runs.

    `object` is a shipped object with two programs, `program` and its twin for frags,
    `constants` its .rodata. It is attached to `interfaces`, and what it sends leaves by
    `sends_by`. `behind` is a second program in the same object (in a devmap or cpumap).
    `fill` puts interfaces and CPUs into maps once the object is loaded; its second argument
    is the fd of `behind`. `copies` says out of how many interfaces each packet is to be sent by
    a broadcast, which skips without a word what cannot take it. `consumer` takes packets out in
    this process; it stays the caller's. `cpumap` names a map of CPUs. `map_sizes` gives maps their
    size on this machine: (bytes of a value, entries). `events` are names of traces.EVENTS.
    """

    command: str
    object: str
    constants: Mapping[str, int | bytes]
    interfaces: tuple[Interface, ...]
    events: tuple[str, ...]
    sends_by: tuple[Interface, ...] = ()
    behind: str | None = None
    map_sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    copies: int = 0
    fill: Callable[[LoadedObject, int | None], None] = _fill_nothing
    cpumap: str | None = None
    consumer: Consumer | None = None

    @property
    def touched(self) -> list[Interface]:
        """Every interface that takes part, once."""
        return list({one.ifindex: one for one in (*self.interfaces, *self.sends_by)}.values())

    @property
    def counts_queues(self) -> bool:
        """Whether packets are counted by receive queue."""
        return bool(self.constants.get("count_queues"))


def program_names(plan: Plan, frags: bool) -> list[str]:
    """The program to attach, and the one behind it where there is one."""
    names = ["xdplab_frags" if frags else "xdplab_live"]
    if plan.behind is not None:
        names.append(f"{plan.behind}_frags" if frags else plan.behind)
    return names


class Session:
    """A plan at work: attached when made, detached when closed. Use as a context manager.

    `frags` says whether the program is the one for packets of more than a page, which is taken
    where the driver takes no other (a large MTU). `missing` are events that cannot be counted
    here, with their reasons; `doubts` what the user should know before packets flow; `is_gone`
    turns true when an interface is removed. Raises UsageError where an interface has a program
    already, NotPossibleError and KernelError where attaching fails.
    """

    def __init__(self, plan: Plan, mode: Mode) -> None:
        self.plan = plan
        self.mode: Mode = mode
        self.frags = False
        self.is_gone = False
        for interface in plan.interfaces:
            refuse_second_program(interface)
        self.doubts = _doubts(plan, mode)
        self._drivers = {one.name: DriverCounters(one.name, one.ifindex) for one in plan.touched}
        self._before = {name: counters.read() for name, counters in self._drivers.items()}
        self._links: list[int] = []
        self._parts = self._attach()

    def _attach(self) -> contextlib.ExitStack:
        first: _Refused | None = None
        for frags in (False, True):
            with contextlib.ExitStack() as parts:
                try:
                    self._make(parts, frags)
                except _Refused as refused:
                    if frags or refused.number in _FINAL:
                        raise _refusal(first or refused, self.mode) from None
                    first = refused
                    continue
                self.frags = frags
                return parts.pop_all()
        raise AssertionError("the last try returns or raises")

    def _make(self, parts: contextlib.ExitStack, frags: bool) -> None:
        plan = self.plan
        main, *behind = program_names(plan, frags)
        loaded = parts.enter_context(
            LoadedObject(
                shipped_object(plan.object), (main, *behind), plan.constants, plan.map_sizes
            )
        )
        plan.fill(loaded, loaded.prog_fd(behind[0]) if behind else None)
        if plan.consumer is not None:
            plan.consumer.join(loaded)
        cpus = bpf.possible_cpus()
        self._received = _words(loaded, "received", _STRIDE * cpus)
        self._behind = _words(loaded, "behind", _STRIDE * cpus)
        queues = max(one.rx_queues for one in plan.interfaces) if plan.counts_queues else 0
        self._queues = _words(loaded, "queues", _STRIDE * queues)
        # Before the first packet, since what becomes of it is counted, too.
        map_id = bpf.map_id(loaded.maps[plan.cpumap]) if plan.cpumap else 0
        self._traces = Traces(
            _events(plan, self.mode), [one.ifindex for one in plan.interfaces], map_id
        )
        parts.callback(self._traces.close)
        parts.callback(self._close_links)
        self._start_ns = time.monotonic_ns()
        for interface in plan.interfaces:
            try:
                self._links.append(
                    bpf.link_create_xdp(loaded.prog_fd(main), interface.ifindex, _FLAGS[self.mode])
                )
            except OSError as error:
                raise _Refused(interface, error.errno or 0) from None

    @property
    def missing(self) -> Mapping[str, str]:
        """Events that cannot be counted here, with their reasons."""
        return self._traces.missing

    @property
    def counted(self) -> list[str]:
        """Events that are counted."""
        return [name for name in _events(self.plan, self.mode) if name not in self.missing]

    def read(self) -> Reading:
        """What was counted since the program was attached. Costs the packets nothing."""
        return self._reading(self._read_drivers())

    def detach(self) -> Reading:
        """Take the program off and return what it counted in all, to the last packet."""
        before = self._read_drivers()
        self._close_links()
        self._settle()
        after = self._read_drivers()
        # Some drivers begin anew when their rings are made again without XDP.
        kept = {
            name: after[name]
            if all(after[name].get(counter, 0) >= value for counter, value in counters.items())
            else counters
            for name, counters in before.items()
        }
        return self._reading(kept)

    def _settle(self) -> None:
        """Wait for packets that are on their way to another CPU or to us, while there are any."""
        if self.plan.cpumap is None and self.plan.consumer is None:
            return
        until = time.monotonic() + _SETTLE_S
        before = None
        while before != (now := self._on_their_way()) and time.monotonic() < until:
            before = now
            time.sleep(_LULL_S)

    def _on_their_way(self) -> tuple[object, ...]:
        taken = self._consumed().get("received")
        return self._traces.read(), self._behind[:], taken

    def _consumed(self) -> Mapping[str, int]:
        consumer = self.plan.consumer
        if consumer is None:
            return {}
        self.is_gone = self.is_gone or consumer.error is not None
        return consumer.read()

    def _reading(self, drivers: Mapping[str, Mapping[str, int]]) -> Reading:
        # Before the events: what was counted here has been sent or skipped when those are read.
        received = _counts(self._received)
        return Reading(
            seconds=(time.monotonic_ns() - self._start_ns) / 1e9,
            received=received,
            behind=_counts(self._behind),
            queues=tuple(self._queues[::_STRIDE]),
            events=self._events(received),
            drivers={
                name: {
                    counter: value - self._before[name].get(counter, 0)
                    for counter, value in counters.items()
                }
                for name, counters in drivers.items()
            },
            socket=self._consumed(),
        )

    def _events(self, received: Counts) -> Mapping[EventKey, tuple[int, ...]]:
        events = dict(self._traces.read())
        if self.plan.copies and _XMIT in self.counted:
            sent = [
                sum(of_cpu)
                for of_cpu in zip(
                    *(
                        by_cpu
                        for (name, what), by_cpu in events.items()
                        if name == _XMIT and what != "bulks"
                    ),
                    strict=True,
                )
            ] or [0] * len(received)
            wanted = (self.plan.copies * counts[_REDIRECT] for counts in received)
            skipped = tuple(max(0, all_ - one) for all_, one in zip(wanted, sent, strict=True))
            if any(skipped):
                events[_XMIT, "dropped, skipped by the broadcast"] = skipped
        return events

    @property
    def gone(self) -> bool:
        """Whether an interface that takes part was removed, or moved to another namespace."""
        self.is_gone = self.is_gone or not all(name_of(one.ifindex) for one in self.plan.touched)
        return self.is_gone

    def _read_drivers(self) -> dict[str, Mapping[str, int]]:
        found: dict[str, Mapping[str, int]] = {}
        for name, counters in self._drivers.items():
            try:
                found[name] = counters.read()
            except OSError as error:
                if error.errno != errno.ENODEV:
                    raise
                self.is_gone = True
                found[name] = self._before[name]
        return found

    def _close_links(self) -> None:
        for link in self._links:
            os.close(link)
        self._links.clear()

    def close(self) -> None:
        """Detach, and give up everything in the kernel."""
        self._parts.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _events(plan: Plan, mode: Mode) -> list[str]:
    # Generic mode sends without a devmap's bulks, so that their tracepoint would always say 0.
    return [name for name in plan.events if mode == "native" or name not in _NATIVE_EVENTS]


def _doubts(plan: Plan, mode: Mode) -> list[str]:
    found = list(plan.consumer.doubts) if plan.consumer is not None else []
    for interface in plan.touched:
        name = interface.name
        if not interface.is_up:
            found.append(f"{name} is down: no packet passes it. Run: ip link set {name} up")
        elif not interface.has_carrier:
            found.append(f"{name} has no carrier: its other end is down or not there")
    for interface in plan.sends_by:
        # Generic mode sends as the stack does, which needs nothing of the peer.
        if mode == "native" and (why := why_peer_drops(interface)):
            found.append(why)
        peer = veth_peer(interface)
        for narrow in (interface, *([peer] if peer is not None else [])):
            if any(one.mtu > narrow.mtu for one in plan.interfaces):
                found.append(
                    f"{narrow.name} has an MTU of {narrow.mtu}: larger packets are dropped there"
                )
    return found


def _refusal(refused: _Refused, mode: Mode) -> Exception:
    interface = refused.interface
    tried = f"attaching to {interface.name} in {mode} mode"
    if refused.number in _IN_THE_WAY:
        return UsageError(f"{tried} failed: another XDP program came first. End it")
    if refused.number == errno.EPERM:
        return NotPossibleError(f"{tried} was refused (EPERM): it takes CAP_NET_ADMIN. Run as root")
    if mode == "native" and refused.number == errno.EOPNOTSUPP:
        driver = f"its driver {interface.driver}" if interface.driver else "its driver"
        return NotPossibleError(
            f"{tried} failed: {driver} has no native XDP. Add -m skb for the generic mode, which "
            "every interface has"
        )
    remedy = f"Its MTU is {interface.mtu}; a smaller one, or -m skb, may do"
    return KernelError(tried, refused.number, remedy)


def _words(loaded: LoadedObject, name: str, count: int) -> ctypes.Array[ctypes.c_uint64]:
    """The first words of a global array, shared with the running programs."""
    return (ctypes.c_uint64 * count).from_buffer(loaded.memory_of(name))


def _counts(words: ctypes.Array[ctypes.c_uint64]) -> Counts:
    present = words[:]
    return tuple(
        tuple(present[start : start + len(ACTIONS)]) for start in range(0, len(present), _STRIDE)
    )
