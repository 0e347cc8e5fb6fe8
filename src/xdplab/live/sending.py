"""Traffic out of an interface that the user named: made by a generator, counted, watched."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType

from xdplab.errors import NotPossibleError, XdplabError
from xdplab.live.watch import Ending, Signals, Why
from xdplab.net.ethtool import DriverCounters, name_of
from xdplab.net.generators.base import Factory, Generator, Outlet, Sender, Sent
from xdplab.net.generators.pktgen import PktgenGenerator
from xdplab.net.generators.programs import FramesGenerator, SkbGenerator
from xdplab.net.generators.ring import RingGenerator
from xdplab.net.interface import Interface, veth_peer, why_peer_drops
from xdplab.packets.traffic import Traffic

GENERATORS: Mapping[str, Factory] = {
    "frames": FramesGenerator,
    "skb": SkbGenerator,
    "ring": RingGenerator,
    "pktgen": PktgenGenerator,
}

_LOOK_S = 0.1
"""How long a signal may have to wait. Whoever looks around takes time from the generator."""


_REMOVAL_S = 0.5
"""How long the kernel may take from having an interface down to having it removed."""


@dataclass(frozen=True, slots=True)
class SentReading:
    """Packets in `seconds`: since the start, or between two readings.

    `generated` were made, `refused` of them the interface did not take. `driver` are the
    driver's own counters as they changed, whoever sent.
    """

    seconds: float
    generated: int
    refused: int
    driver: Mapping[str, int]

    @property
    def sent(self) -> int:
        """Packets that the interface took."""
        return self.generated - self.refused

    @property
    def rate_pps(self) -> float:
        """Packets that it took, per second."""
        return self.sent / self.seconds if self.seconds > 0 else 0.0

    def since(self, earlier: SentReading) -> SentReading:
        """What came after `earlier`, a reading of the same session."""
        return SentReading(
            self.seconds - earlier.seconds,
            self.generated - earlier.generated,
            self.refused - earlier.refused,
            {name: value - earlier.driver.get(name, 0) for name, value in self.driver.items()},
        )


@dataclass(frozen=True, slots=True)
class SendPlan:
    """What is sent: by which generator, out of which interface, how fast (None: as fast as it can),
    on which CPU (None: any)."""

    interface: Interface
    generator: str
    traffic: Traffic
    rate_pps: float | None = None
    packets: int | None = None
    cpu: int | None = None
    batch_size: int | None = None


class SendSession:
    """A plan made ready, not sending yet. Use as a context manager; leaving it stops.

    NotPossibleError where the interface takes no packet of this generator, with the reason: one
    is sent to find out, and counts as the first.
    """

    def __init__(self, plan: SendPlan) -> None:
        self.plan = plan
        interface = plan.interface
        self._exit = contextlib.ExitStack()
        self._outlet = Outlet(interface.name, interface.ifindex)
        self.doubts = doubts(plan)
        self._counters = DriverCounters(interface.name, interface.ifindex)
        self._driver_before = self._counters.read()
        try:
            self._generator = self._exit.enter_context(self._make())
            self._try_one()
        except BaseException:
            self.close()
            raise
        left = None if plan.packets is None else plan.packets - 1
        self._sender = Sender(self._generator, self._outlet, plan.rate_pps, left, plan.cpu)
        self._start_ns = time.monotonic_ns()

    def _make(self) -> Generator:
        plan = self.plan
        if plan.generator == "frames" and plan.batch_size is not None:
            return FramesGenerator(self._outlet, plan.traffic, plan.batch_size)
        return GENERATORS[plan.generator](self._outlet, plan.traffic)

    def _try_one(self) -> None:
        blocking = self.doubts[0] if self.doubts else ""
        if self.plan.generator == "ring" and blocking:
            # It sends again until the driver takes it, and the kernel skips what is too long.
            raise NotPossibleError(f"nothing was sent by the generator ring: {blocking}")
        self._generator.burst(1)
        if not self._generator.sent().refused:
            return
        plan = self.plan
        why = self.doubts[0] if self.doubts else ""
        if not why and isinstance(self._generator, FramesGenerator):
            said = os.strerror(self._generator.last_error)
            why = why_peer_drops(plan.interface) or (
                f"its driver does not take what XDP redirects ({said}). "
                "Take --generator skb or ring"
            )
        raise NotPossibleError(
            f"{plan.interface.name} took no packet of the generator {plan.generator}"
            + (f": {why}" if why else ", and nothing says why")
        )

    def start(self) -> None:
        """Begin to send."""
        self._start_ns = time.monotonic_ns()
        self._sender.start()

    def read(self) -> SentReading:
        """What was sent since the start."""
        sent: Sent = self._generator.sent()
        try:
            counters = self._counters.read()
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise
            counters = self._driver_before
        driver = {
            name: value - self._driver_before.get(name, 0) for name, value in counters.items()
        }
        return SentReading(self.seconds, sent.generated, sent.refused, driver)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return (time.monotonic_ns() - self._start_ns) / 1e9

    @property
    def gone(self) -> bool:
        """Whether the interface was removed, or moved to another namespace."""
        return not name_of(self.plan.interface.ifindex)

    def goes(self) -> bool:
        """Whether it is gone, or is while this waits: what is removed is down first, and who sends
        hears of that."""
        until = time.monotonic() + _REMOVAL_S
        while not self.gone and time.monotonic() < until:
            time.sleep(_LOOK_S / 10)
        return self.gone

    def wait(self, seconds: float) -> bool:
        """Wait until all is sent; False after `seconds`, or sooner, since signals are looked for.

        Raises what ended sending early.
        """
        return self._sender.wait(min(seconds, _LOOK_S))

    def stop(self) -> SentReading:
        """Stop sending; what was sent in all, to the last packet."""
        self._sender.stop()
        return self.read()

    def close(self) -> None:
        """Give everything up."""
        self._exit.close()

    def __enter__(self) -> SendSession:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._sender.stop()
        finally:
            self.close()


def doubts(plan: SendPlan) -> list[str]:
    """What the user should know before packets are sent."""
    interface = plan.interface
    found = []
    if not interface.is_up:
        found.append(f"{interface.name} is down, and sends nothing")
    elif not interface.has_carrier:
        found.append(f"{interface.name} has no carrier: nobody gets what it sends")
    peer = veth_peer(interface)
    if peer is not None and set(peer.programs) == {"skb"} and plan.generator == "skb":
        found.append(
            f"{interface.name}'s peer {peer.name} has a program in generic mode, which does not "
            "see packets that BPF redirected, as the generator skb does: take --generator ring"
        )
    for end in (interface, *([peer] if peer is not None else [])):
        # As the kernel has it: room for one VLAN tag beside the Ethernet header.
        room_bytes = end.mtu + 14 + 4 * is_tagged(plan.traffic.frame(0))
        if plan.traffic.longest_bytes > room_bytes:
            what = interface.name if end is interface else f"{interface.name}'s peer {end.name}"
            found.append(
                f"frames of {plan.traffic.longest_bytes} bytes are too long for {what}: its "
                f"MTU of {end.mtu} leaves {room_bytes}"
            )
    return found


def watch_sending(
    session: SendSession,
    ending: Ending,
    interval_s: float,
    signals: Signals,
    on_interval: Callable[[SentReading, SentReading], None],
) -> tuple[Why, SentReading]:
    """Send until the end; call `on_interval` with the interval's and the total reading.

    Returns why it ended and the last total. What is left at the end is reported, too.
    """
    session.start()
    before = SentReading(0.0, 0, 0, {})
    due_s = interval_s
    end_s = math.inf if ending.duration_s is None else ending.duration_s
    why: Why | None = None
    while why is None:
        if signals.asked:
            why = Why.ASKED
        elif session.gone:
            why = Why.GONE
        elif session.seconds >= end_s:
            why = Why.DURATION
        elif session.seconds >= due_s:
            now = session.read()
            on_interval(now.since(before), now)
            before = now
            due_s += interval_s * (1 + (now.seconds - due_s) // interval_s)
        else:
            why = _waited(session, max(0.0, min(due_s, end_s) - session.seconds))
    try:
        total = session.stop()
    except XdplabError:
        if not session.goes():
            raise
        why, total = Why.GONE, session.read()
    last = total.since(before)
    if last.generated or last.seconds > interval_s / 2:
        on_interval(last, total)
    return why, total


def _waited(session: SendSession, seconds: float) -> Why | None:
    try:
        return Why.PACKETS if session.wait(seconds) else None
    except XdplabError:
        # What sending then fails with says no more than that.
        if not session.goes():
            raise
        return Why.GONE


def is_tagged(frame: bytes) -> bool:
    """Whether a frame has a VLAN tag (802.1Q, 802.1ad)."""
    return frame[12:14] in {b"\x81\x00", b"\x88\xa8"}
