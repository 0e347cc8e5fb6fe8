"""What a live command has counted at one moment, and the difference of two moments. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

ACTIONS = ("XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT")
"""enum xdp_action of linux/bpf.h, in the order of the programs' counters."""

Counts = tuple[tuple[int, ...], ...]
"""Packets by CPU, then by action."""

EventKey = tuple[str, str]
"""A tracepoint and what of it is counted, such as ("xdp_redirect_err", "ENETDOWN")."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Packets counted in `seconds`: since a program was attached, or between two readings.

    `received` are the packets that came in, by what the program on the interface returned;
    `behind` those that reached a program behind it (devmap, cpumap). `queues` are packets by
    receive queue, empty where they are not counted. `events` are counts of the kernel's
    tracepoints by CPU; `drivers` a driver's own counters as they changed: interface -> name;
    `socket` those of an AF_XDP socket and of the loop that empties it.
    """

    seconds: float
    received: Counts
    behind: Counts
    queues: tuple[int, ...]
    events: Mapping[EventKey, tuple[int, ...]]
    drivers: Mapping[str, Mapping[str, int]]
    socket: Mapping[str, int] = field(default_factory=dict)

    def since(self, earlier: Reading) -> Reading:
        """What came after `earlier`, a reading of the same session."""
        return Reading(
            seconds=self.seconds - earlier.seconds,
            received=_less(self.received, earlier.received),
            behind=_less(self.behind, earlier.behind),
            queues=tuple(a - b for a, b in zip(self.queues, earlier.queues, strict=True)),
            events={
                key: tuple(
                    a - b
                    for a, b in zip(by_cpu, earlier.events.get(key, _none(by_cpu)), strict=True)
                )
                for key, by_cpu in self.events.items()
            },
            drivers={
                interface: {
                    name: value - earlier.drivers[interface].get(name, 0)
                    for name, value in counters.items()
                }
                for interface, counters in self.drivers.items()
            },
            socket={
                name: count - earlier.socket.get(name, 0) for name, count in self.socket.items()
            },
        )

    @property
    def packets(self) -> int:
        """Packets that came in."""
        return sum(map(sum, self.received))

    @property
    def rate_pps(self) -> float:
        """Packets that came in, per second."""
        return self.packets / self.seconds if self.seconds > 0 else 0.0

    def actions(self) -> dict[str, int]:
        """Packets that came in, by the action returned; all five of them."""
        return by_action(self.received)

    def event(self, name: str, what: str) -> int:
        """One count of a tracepoint, over all CPUs; 0 where nothing was counted."""
        return sum(self.events.get((name, what), ()))

    def losses(self) -> dict[str, int]:
        """Packets that did not get where they were sent, by cause; only causes that occurred."""
        found: dict[str, int] = {}
        aborted = ACTIONS[0]
        for where, counts in (("", self.received), (" behind the redirect", self.behind)):
            found[f"{aborted}{where}"] = by_action(counts)[aborted]
        for (name, what), by_cpu in self.events.items():
            if _is_loss(name, what):
                found[f"{name} {what}"] = sum(by_cpu)
        found |= {
            f"socket: {what}": count
            for what, count in self.socket.items()
            if what.startswith("dropped")
        }
        return {cause: packets for cause, packets in found.items() if packets > 0}


def fates(reading: Reading) -> dict[str, int]:
    """What became of packets, by stable names; only what occurred. `lost: ...` are losses."""
    found = {action: packets for action, packets in reading.actions().items() if packets}
    return found | {f"lost: {cause}": packets for cause, packets in reading.losses().items()}


def by_action(counts: Counts) -> dict[str, int]:
    """Packets by action over all CPUs."""
    return {name: sum(cpu[number] for cpu in counts) for number, name in enumerate(ACTIONS)}


def busy_cpus(reading: Reading) -> Iterator[int]:
    """The CPUs on which anything was counted."""
    for cpu in range(len(reading.received)):
        here = [*reading.received[cpu], *reading.behind[cpu]]
        here += [by_cpu[cpu] for by_cpu in reading.events.values()]
        if any(here):
            yield cpu


def _is_loss(name: str, what: str) -> bool:
    if name == "xdp_exception":
        # An XDP_ABORTED is the program's own verdict, which is counted; some drivers report a
        # redirect that fails here, too, behind its own tracepoint.
        return what not in {"XDP_ABORTED", "XDP_REDIRECT"}
    return name == "xdp_redirect_err" or what.startswith("dropped")


def _less(counts: Counts, earlier: Counts) -> Counts:
    return tuple(
        tuple(a - b for a, b in zip(cpu, before, strict=True))
        for cpu, before in zip(counts, earlier, strict=True)
    )


def _none(by_cpu: Sequence[int]) -> tuple[int, ...]:
    return (0,) * len(by_cpu)
