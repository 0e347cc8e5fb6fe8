"""Counts of the kernel's XDP tracepoints: what becomes of packets behind a program's verdict.

Kernels differ in the tracepoints that they have, and a user may lack the right to look at them
(CAP_PERFMON). Whatever cannot be counted is said, and everything else goes on without it.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdplab.errors import XdplabError
from xdplab.kernel import bpf
from xdplab.kernel.libbpf import LoadedObject
from xdplab.live.readings import ACTIONS, EventKey
from xdplab.net.events import namespace_cookie
from xdplab.program.shipped import shipped_object

# As in live_trace.bpf.c.
_BY = 8
_SLOTS = _BY + 134
_WANTED = 32

INTERFACES_AT_MOST = _WANTED
"""How many interfaces' events can be told from others'."""


@dataclass(frozen=True, slots=True)
class _Event:
    """A kind of event: its place in the map, (program, tracepoint) pairs that report it, of which
    one is enough, and what its slots are called."""

    place: int
    sources: Sequence[tuple[str, str]]
    fixed: Mapping[int, str]
    by: Callable[[int], str] | None = None


def _action(number: int) -> str:
    return ACTIONS[number] if number < len(ACTIONS) else "unknown action"


def _error(number: int) -> str:
    # Python has the other name of the same number, which nobody looks for here.
    if number == errno.EOPNOTSUPP:
        return "EOPNOTSUPP"
    return errno.errorcode.get(number, f"errno {number}")


def _dropped(number: int) -> str:
    # Without an error the driver took less than it was given: its ring was full, say.
    return f"dropped, {_error(number)}" if number else "dropped, not taken by the driver"


_BULK = {0: "sent", 1: "bulks"}
EVENTS: Mapping[str, _Event] = {
    "xdp_exception": _Event(0, [("on_exception", "xdp_exception")], {}, _action),
    "xdp_redirect": _Event(
        1,
        [("on_redirect", "xdp_redirect"), ("on_redirect_map", "xdp_redirect_map")],
        {0: "redirected"},
    ),
    "xdp_redirect_err": _Event(
        2,
        [("on_redirect_err", "xdp_redirect_err"), ("on_redirect_map_err", "xdp_redirect_map_err")],
        {},
        _error,
    ),
    "xdp_devmap_xmit": _Event(3, [("on_devmap_xmit", "xdp_devmap_xmit")], _BULK, _dropped),
    "xdp_bulk_tx": _Event(4, [("on_bulk_tx", "xdp_bulk_tx")], _BULK, _dropped),
    "xdp_cpumap_enqueue": _Event(
        5,
        [("on_cpumap_enqueue", "xdp_cpumap_enqueue")],
        # The kernel counts here what it then drops, too.
        {0: "offered", 1: "bulks", 2: "dropped, queue full"},
    ),
    "xdp_cpumap_kthread": _Event(
        6,
        [("on_cpumap_kthread", "xdp_cpumap_kthread")],
        {
            0: "processed",
            1: "bulks",
            2: "dropped, no memory",
            3: "scheduled away",
            4: "passed",
            5: "XDP_DROP",
            6: "redirected",
        },
    ),
}
"""Tracepoint (without those that newer kernels folded into it) -> what is counted of it."""


class Traces:
    """Counts of chosen events of some interfaces (by ifindex) of the calling thread's namespace.

    `map_id` is the cpumap's whose events count. `missing` says for each event that cannot be
    counted here why not. Making one never fails for want of a tracepoint or a right.
    """

    def __init__(self, events: Sequence[str], ifindexes: Sequence[int], map_id: int = 0) -> None:
        self.missing: dict[str, str] = {}
        self._links: list[int] = []
        self._counted: list[str] = []
        self._loaded: LoadedObject | None = None
        programs = [program for name in events for program, _ in EVENTS[name].sources]
        padded = [*ifindexes, *(0 for _ in range(_WANTED - len(ifindexes)))]
        constants: dict[str, int | bytes] = {
            "wanted_ifindex": struct.pack(f"<{_WANTED}I", *padded),
            "wanted_count": len(ifindexes),
            "wanted_namespace": namespace_cookie(),
            "wanted_cpumap": map_id,
        }
        try:
            self._loaded = LoadedObject(shipped_object("live_trace"), programs, constants)
        except XdplabError as error:
            why = f"looking at tracepoints failed, which takes BTF and CAP_PERFMON: {error}"
            self.missing = dict.fromkeys(events, why)
            return
        for name in events:
            self._attach(name, self._loaded)

    def _attach(self, name: str, loaded: LoadedObject) -> None:
        reasons = []
        for program, tracepoint in EVENTS[name].sources:
            try:
                self._links.append(bpf.raw_tracepoint_open(tracepoint, loaded.prog_fd(program)))
            except OSError as error:
                absent = error.errno == errno.ENOENT
                why = "this kernel has none" if absent else error.strerror
                reasons.append(f"tracepoint {tracepoint}: {why}")
        if len(reasons) == len(EVENTS[name].sources):
            self.missing[name] = "; ".join(reasons)
        else:
            self._counted.append(name)

    def read(self) -> dict[EventKey, tuple[int, ...]]:
        """Counts by CPU since the beginning, of what has occurred."""
        found: dict[EventKey, tuple[int, ...]] = {}
        if self._loaded is None:
            return found
        for name in self._counted:
            event = EVENTS[name]
            values = bpf.map_lookup_by_cpu(
                self._loaded.maps["events"], struct.pack("<I", event.place), 8 * _SLOTS
            )
            by_cpu = [struct.unpack(f"<{_SLOTS}Q", value) for value in values]
            for slot, counts in enumerate(zip(*by_cpu, strict=True)):
                if any(counts):
                    found[name, _label(event, slot)] = counts
        return found

    def close(self) -> None:
        """Stop counting."""
        for link in self._links:
            os.close(link)
        self._links.clear()
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None


def _label(event: _Event, slot: int) -> str:
    if slot >= _BY and event.by is not None:
        return event.by(slot - _BY)
    return event.fixed[slot]
