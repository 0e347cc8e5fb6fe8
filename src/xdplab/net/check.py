"""One packet traced through a topology before anything is measured: where it was lost, and why.

A veth drops without a word what its other end cannot take, and calls that send succeed all the
same; a measurement would give zero, or the cost of dropping. Evidence are the drivers' counters of
every hop, the kernel's tracepoints, and the state of the interfaces.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdplab.errors import NotPossibleError
from xdplab.kernel import kernel_btf
from xdplab.kernel.namespace import LOOPBACK_IFINDEX
from xdplab.net import events
from xdplab.net.events import Event, PathEvents, namespace_cookie
from xdplab.net.path import Hop, Path
from xdplab.net.topology import Topology

_PATIENCE_S = 0.3
"""How long a packet may take. Inline NAPI takes microseconds, a kernel thread a time slice."""

_LOOK_S = 2e-3
_ETHERNET_BYTES = 14

_VERDICTS = {
    "XDP_DROP": "rx_xdp_drops",
    "XDP_TX": "rx_xdp_tx",
    "XDP_REDIRECT": "rx_xdp_redirect",
}
"""Action -> veth's counter of it, queues added up. What is passed is in none of them."""

_PREFIX = "SKB_DROP_REASON_"


@dataclass(frozen=True, slots=True)
class Trace:
    """What became of the packet: a line for each hop, and where a passed packet ended in the stack:
    the kernel's reason (SKB_DROP_REASON_*, without the prefix), "" where it gave none."""

    steps: tuple[str, ...]
    stack_reason: str


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What changed while the packet went its way: counters by interface, and events."""

    changed: Mapping[str, Mapping[str, int]]
    seen: Sequence[Event]
    cookies: Mapping[str, int]
    first_sender: str
    before: Mapping[str, int]

    def count(self, interface: str, counter: str) -> int:
        return self.changed[interface].get(counter, 0)

    def arrived(self, interface: str) -> bool:
        # A driver that polls counts what its ring had, before any program; any other, packets.
        return bool(self.count(interface, "rx_xdp_packets") or self.count(interface, "rx_packets"))


def trace(
    topology: Topology,
    path: Path,
    send_one: Callable[[], None],
    at_end: Callable[[], int],
    frame_bytes: int,
) -> Trace:
    """Send one packet of `frame_bytes` into the path, and where it gets lost another to follow.

    `send_one` makes it go out of `path.enters`, called in that interface's namespace; `at_end`
    counts what arrived where the path ends. NotPossibleError, a sentence that names the hop and
    the reason, where the packet does not reach the end.
    """
    if frame_bytes > topology.mtu_bytes + _ETHERNET_BYTES:
        raise _lost(
            path,
            f"a frame of {frame_bytes} bytes does not pass interfaces with an MTU of "
            f"{topology.mtu_bytes} and an Ethernet header of {_ETHERNET_BYTES} bytes",
        )
    ends_in_stack = path.hops[-1].action == "XDP_PASS"
    # Watching takes longer than sending; where there is nothing to find out it is left out.
    last = path.hops[-1]
    before = topology.counters(last.interface)
    if not ends_in_stack and _reaches_end(topology, path, send_one, at_end):
        wrong = _another_verdict(topology, last, before)
        if wrong:
            raise _lost(path, f"it arrived at {last.interface}, but {wrong}")
        return Trace(tuple(map(_step, path.hops)), "")
    evidence, reached = _watch(topology, path, send_one, at_end)
    sender = path.enters
    for hop in path.hops:
        if not evidence.arrived(hop.interface):
            why = _why_not_arrived(topology, evidence, sender, hop.interface, frame_bytes)
            raise _lost(path, f"what left {sender} did not arrive at {hop.interface}: {why}")
        wrong = _why_not_handled(topology, evidence, hop)
        if wrong:
            raise _lost(path, f"it arrived at {hop.interface}, but {wrong}")
        sender = hop.leaves
    wrong = _another_verdict(topology, last, evidence.before)
    if wrong:
        raise _lost(path, f"it arrived at {last.interface}, but {wrong}")
    if not reached:
        what = _by_events(topology, evidence, last.interface) or "nothing says why"
        raise _lost(path, f"it left {last.interface} and did not come to the end: {what}")
    reason = ""
    if ends_in_stack:
        reason = _stack_reason(topology, evidence, last.interface)
        if reason == "OTHERHOST":
            raise _lost(
                path,
                f"{last.interface} passed it, and the stack dropped it unread: its destination "
                f"MAC address is another host's, not {topology.ports[last.interface].mac}",
            )
    return Trace(tuple(map(_step, path.hops)), reason)


def _step(hop: Hop) -> str:
    return f"{hop.interface}: {hop.action}" + (f" out of {hop.leaves}" if hop.leaves else "")


def _reaches_end(
    topology: Topology, path: Path, send_one: Callable[[], None], at_end: Callable[[], int]
) -> bool:
    target = at_end() + 1
    with topology.inside(path.enters):
        send_one()
    until = time.monotonic() + _PATIENCE_S
    while at_end() < target and time.monotonic() < until:
        time.sleep(_LOOK_S)
    return at_end() >= target


def _watch(
    topology: Topology, path: Path, send_one: Callable[[], None], at_end: Callable[[], int]
) -> tuple[_Evidence, bool]:
    names = list(topology.ports)
    cookies = {
        port.namespace: namespace_cookie(topology.namespace_fd(name))
        for name, port in topology.ports.items()
    }
    before = {name: topology.counters(name) for name in names}
    with PathEvents(tuple(cookies.values())) as watched:
        reached = _reaches_end(topology, path, send_one, at_end)
        seen = watched.seen()
    changed = {
        name: {key: value - before[name].get(key, 0) for key, value in after.items()}
        for name, after in ((name, topology.counters(name)) for name in names)
    }
    last = path.hops[-1].interface
    return _Evidence(changed, seen, cookies, path.enters, before[last]), reached


def _lost(path: Path, what: str) -> NotPossibleError:
    return NotPossibleError(
        f"the path {path.name} loses its packets, so nothing was measured: {what}"
    )


def _why_not_arrived(
    topology: Topology, evidence: _Evidence, sender: str, receiver: str, frame_bytes: int
) -> str:
    for name in (sender, receiver):
        if not topology.look_at(name).is_up:
            return f"{name} is down"
    refused = _events_of(topology, evidence, sender, events.NOT_SENT, events.TX_FAILED)
    if evidence.first_sender == sender:
        # Live frames that a test run redirects come from lo, as far as the kernel knows.
        refused += _events_of(topology, evidence, sender, events.REDIRECT_FAILED, from_lo=True)
    if refused:
        return _why_refused(topology, refused[0].detail, receiver, frame_bytes)
    told = _by_events(topology, evidence, sender) or _by_events(topology, evidence, receiver)
    if told:
        return told
    if evidence.count(sender, "tx_dropped") or evidence.count(sender, "tx_xdp_xmit_errors"):
        return f"{sender} counts it as dropped: the ring of {receiver} is full"
    return "no counter and no tracepoint says why"


def _why_refused(
    topology: Topology, number: int, receiver: str, frame_bytes: int | None = None
) -> str:
    """Why frames of XDP do not get to `receiver`, when sending them gave that errno."""
    mtu = topology.look_at(receiver).mtu
    if not number and frame_bytes is not None and frame_bytes > mtu + _ETHERNET_BYTES:
        return f"{receiver} has an MTU of {mtu}, too small for {frame_bytes} bytes"
    takes_frames = "native" in topology.look_at(receiver).programs or topology.has_gro(receiver)
    if number in {errno.ENXIO, errno.EOPNOTSUPP} and not takes_frames:
        return (
            f"{receiver} has neither a native XDP program nor GRO, without which a veth takes no "
            "frames from XDP. Attach one there (XDP_PASS is enough), or turn GRO on"
        )
    return _errno_text(number) or "the driver did not say why"


def _why_not_handled(topology: Topology, evidence: _Evidence, hop: Hop) -> str:
    name = hop.interface
    programs = topology.look_at(name).programs
    if not programs and hop.action != "XDP_PASS":
        return "there is no XDP program there"
    failed = _events_of(
        topology, evidence, name, events.REDIRECT_FAILED, events.TX_FAILED, events.NOT_SENT
    )
    if failed and hop.leaves:
        receiver = topology.ports[hop.leaves].peer
        why = _why_refused(topology, failed[0].detail, receiver)
        return f"could not be sent out of {hop.leaves}: {why}"
    if _events_of(topology, evidence, name, events.ABORTED):
        return (
            "its program ended in XDP_ABORTED (as a redirect to an empty entry of a map does), or "
            "what it returned could not be carried out"
        )
    counter = _VERDICTS.get(hop.action, "")
    if "native" not in programs or evidence.count(name, counter) or not hop.leaves:
        # In generic mode nobody counts what a program answers; the next hop will tell. What ends
        # here was counted by whoever is there.
        return ""
    found = [action for action, other in _VERDICTS.items() if evidence.count(name, other)]
    return f"its program returned {found[0] if found else 'XDP_PASS'}, not {hop.action}"


def _another_verdict(topology: Topology, last: Hop, before: Mapping[str, int]) -> str:
    """What the last hop's program answered in place of what it should; "" where it did, or where
    nobody counts it (in generic mode)."""
    if "native" not in topology.look_at(last.interface).programs:
        return ""
    wanted = _VERDICTS.get(last.action)
    until = time.monotonic() + _PATIENCE_S
    while True:
        # A driver adds up when its poll ends, a moment after the program ran.
        after = topology.counters(last.interface)
        found = [a for a, name in _VERDICTS.items() if after.get(name, 0) > before.get(name, 0)]
        if found or wanted is None or time.monotonic() > until:
            break
        time.sleep(_LOOK_S)
    if last.action in found or (wanted is None and not found):
        return ""
    return f"its program returned {found[0] if found else 'XDP_PASS'}, not {last.action}"


def _events_of(
    topology: Topology, evidence: _Evidence, name: str, *kinds: int, from_lo: bool = False
) -> list[Event]:
    port = topology.ports[name]
    ifindex = LOOPBACK_IFINDEX if from_lo else port.ifindex
    return [
        event
        for event in evidence.seen
        if event.kind in kinds
        and event.ifindex == ifindex
        and event.cookie == evidence.cookies[port.namespace]
    ]


def _by_events(topology: Topology, evidence: _Evidence, name: str) -> str:
    freed = _events_of(topology, evidence, name, events.SKB_FREED)
    if freed:
        return f"the stack dropped it at {name}: {_reason(freed[0].detail)}"
    for event in evidence.seen:
        if event.kind == events.QUEUE_FULL:
            return "the queue of the map of CPUs is full"
    return ""


def _stack_reason(topology: Topology, evidence: _Evidence, name: str) -> str:
    freed = _events_of(topology, evidence, name, events.SKB_FREED)
    return _reason(freed[-1].detail) if freed else ""


def _reason(number: int) -> str:
    try:
        name = kernel_btf.enum_names("skb_drop_reason").get(number, "")
    except OSError:
        name = ""
    return name.removeprefix(_PREFIX) or f"reason {number}"


def _errno_text(number: int) -> str:
    if not number:
        return ""
    hints = {
        errno.EMSGSIZE: "the frame is longer than the MTU of where it should go",
        errno.ENETDOWN: "the interface that it should leave by is down",
        errno.EINVAL: "there is no such interface, or no such entry in the map",
        errno.ENOENT: "there is no such interface, or no such entry in the map",
        errno.EOPNOTSUPP: "the driver cannot send frames of XDP, or none with frags",
    }
    return f"{hints.get(number, os.strerror(number))} ({errno.errorcode.get(number, number)})"
