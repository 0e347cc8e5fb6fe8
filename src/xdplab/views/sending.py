"""What `xdplab trafficgen` prints: a line an interval and a summary, as text or as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Any, Protocol

from xdplab import __version__
from xdplab.live.sending import SendPlan, SendSession, SentReading
from xdplab.live.watch import Why
from xdplab.packets.traffic import Captured, Flows
from xdplab.views.format import duration
from xdplab.views.live import ENDINGS, SCHEMA, write_json_line, write_lines


class SendingView(Protocol):
    """Where readings of a sending session go."""

    def begin(self, session: SendSession) -> None:
        """Before the first interval."""

    def interval(self, part: SentReading, total: SentReading) -> None:
        """An interval's counts, and those since the beginning."""

    def end(self, why: Why, total: SentReading) -> None:
        """What was sent in all."""


class SentLines:
    """Readable lines, each complete in itself."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def begin(self, session: SendSession) -> None:
        self._name = session.plan.interface.name

    def interval(self, part: SentReading, total: SentReading) -> None:
        refused = part.refused / part.seconds if part.seconds > 0 else 0.0
        write_lines(
            self._out,
            [
                f"{total.seconds:8.1f} s  {self._name}  {part.rate_pps:13,.0f} tx/s  "
                f"{refused:13,.0f} refused/s"
            ],
        )

    def end(self, why: Why, total: SentReading) -> None:
        packets = f"{total.sent:,} packet{'s' * (total.sent != 1)}"
        ended = "all were made" if why is Why.PACKETS else ENDINGS[why]
        lines = [
            f"{self._name}: {packets} in {duration(total.seconds)}, {total.rate_pps:,.0f}/s on "
            f"average; ended since {ended}"
        ]
        if total.refused:
            lines.append(
                f"  {total.generated:,} were made, {total.refused:,} of them {self._name} did not "
                "take"
            )
        lines += [
            f"  {self._name}'s driver: {name} {change:,}"
            for name, change in total.driver.items()
            if change
        ]
        write_lines(self._out, lines)


class SentJson:
    """A JSON object a line: `start`, `interval`s, `summary`."""

    def __init__(self, out: IO[str], environment: Mapping[str, Any]) -> None:
        self._out = out
        self._environment = environment

    def begin(self, session: SendSession) -> None:
        plan = session.plan
        write_json_line(
            self._out,
            {
                "type": "start",
                "schema": SCHEMA,
                "xdplab_version": __version__,
                "command": "trafficgen",
                "interface": plan.interface.name,
                "ifindex": plan.interface.ifindex,
                "driver": plan.interface.driver,
                "generator": plan.generator,
                "rate_pps": plan.rate_pps,
                "packets": plan.packets,
                "traffic": dict(_facts(plan)),
                "doubts": session.doubts,
                "environment": dict(self._environment),
            },
        )

    def interval(self, part: SentReading, total: SentReading) -> None:
        elapsed = {"type": "interval", "elapsed_s": round(total.seconds, 6)}
        write_json_line(self._out, {**elapsed, **_data(part)})

    def end(self, why: Why, total: SentReading) -> None:
        write_json_line(self._out, {"type": "summary", "ended_by": why.value, **_data(total)})


def in_one_line(total: SentReading) -> str:
    """Totals for where there is no room for more."""
    return f"Until then {total.generated:,} packets were made, {total.sent:,} of them taken"


def _data(reading: SentReading) -> dict[str, Any]:
    return {
        "seconds": round(reading.seconds, 6),
        "generated": reading.generated,
        "refused": reading.refused,
        "sent": reading.sent,
        "rate_pps": round(reading.rate_pps, 1),
        "driver": {name: change for name, change in reading.driver.items() if change},
    }


def _facts(plan: SendPlan) -> Iterator[tuple[str, int | str]]:
    traffic = plan.traffic
    if isinstance(traffic, Captured):
        yield "frames", traffic.count
        yield "longest_bytes", traffic.longest_bytes
        return
    yield "flows", traffic.count
    yield "frame_bytes", traffic.frame_bytes
    yield "protocol", traffic.protocol
    yield "ip", 6 if traffic.ipv6 else 4
    yield "source_mac", traffic.source_mac
    yield "destination_mac", traffic.destination_mac
    if traffic.vlans:
        yield "vlans", ",".join(map(str, traffic.vlans))


def explained(plan: SendPlan, peer: str) -> Iterator[str]:
    """What would be sent, and where it would arrive. `peer` is what is known of the other end."""
    interface = plan.interface
    state = "up" if interface.is_up else "down"
    kind = interface.kind or interface.driver
    yield f"{interface.name}: {kind}, ifindex {interface.ifindex}, MTU {interface.mtu}, {state}"
    yield f"  to arrive at {peer}" if peer else "  to arrive at whoever is at its other end"
    yield f"generator: {plan.generator}"
    yield from (f"  {line}" for line in _traffic_lines(plan.traffic))
    rate = "as fast as possible" if plan.rate_pps is None else f"{plan.rate_pps:,.0f} a second"
    end = "until it is ended" if plan.packets is None else f"{plan.packets:,} packets"
    yield f"  {rate}, {end}"


def _traffic_lines(traffic: Flows | Captured) -> Iterator[str]:
    if isinstance(traffic, Captured):
        yield f"{traffic.count:,} captured frames of up to {traffic.longest_bytes} bytes, in turn"
        return
    version = "IPv6" if traffic.ipv6 else "IPv4"
    tags = "".join(f", VLAN {tag}" for tag in traffic.vlans)
    yield f"{traffic.frame_bytes} bytes, {version}, {traffic.protocol.upper()}{tags}"
    yield f"{traffic.source_mac} -> {traffic.destination_mac}"
    yield f"{traffic.count:,} flow{'s' * (traffic.count != 1)}"
