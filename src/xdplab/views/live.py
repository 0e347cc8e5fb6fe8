"""What live commands print: a line an interval and a summary, as text or as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Protocol

from xdplab import __version__
from xdplab.errors import OutputError
from xdplab.live.readings import ACTIONS, Counts, EventKey, Reading, busy_cpus, by_action
from xdplab.live.session import Session
from xdplab.live.watch import Why
from xdplab.views.format import duration, one_line

SCHEMA = 1
"""Of the JSON lines; raised when a reader of an older one would misread them."""

_COLUMNS: Sequence[tuple[EventKey, str]] = (
    (("xdp_redirect", "redirected"), "redir/s"),
    (("xdp_cpumap_kthread", "processed"), "kthread/s"),
    (("xdp_devmap_xmit", "sent"), "xmit/s"),
)
"""Rates of a line that not every command has."""
ENDINGS = {
    Why.DURATION: "its time was over",
    Why.PACKETS: "its packets had come",
    Why.ASKED: "a signal asked for it",
    Why.GONE: "an interface was removed",
}
"""Why a command ended, behind "ended since"."""


class View(Protocol):
    """Where a live command's readings go."""

    def begin(self, session: Session) -> None:
        """Once the program is attached."""

    def interval(self, part: Reading, total: Reading) -> None:
        """An interval's counts, and those since the beginning."""

    def end(self, why: Why, total: Reading) -> None:
        """What was counted in all."""


class Lines:
    """Readable lines, each complete in itself, so that they can be read through any pipe."""

    def __init__(self, out: IO[str], extended: bool) -> None:
        self._out = out
        self.extended = extended

    def begin(self, session: Session) -> None:
        self._session = session
        self._names = ",".join(one.name for one in session.plan.interfaces)

    def interval(self, part: Reading, total: Reading) -> None:
        lines = [f"{total.seconds:8.1f} s  {self._names}  {'  '.join(self._rates(part))}"]
        if self.extended:
            lines += [f"            {line}" for line in _details(part, per_second=True)]
        self._write(lines)

    def end(self, why: Why, total: Reading) -> None:
        packets = f"{total.packets:,} packet{'s' * (total.packets != 1)}"
        losses = sum(total.losses().values())
        lost = f", {losses:,} lost" if losses else ""
        lines = [
            f"{self._names}: {packets} in {duration(total.seconds)}, {total.rate_pps:,.0f}/s on "
            f"average{lost}; ended since {ENDINGS[why]}",
            *(f"  {line}" for line in _details(total, per_second=False)),
        ]
        self._write(lines)

    def _rates(self, part: Reading) -> Iterator[str]:
        def rate(packets: int) -> str:
            return f"{packets / part.seconds if part.seconds > 0 else 0:13,.0f}"

        yield f"{rate(part.packets)} rx/s"
        session = self._session
        for (event, what), unit in _COLUMNS:
            if event in session.counted:
                yield f"{rate(part.event(event, what))} {unit}"
        if "received" in part.socket:
            yield f"{rate(part.socket['received'])} user/s"
        losses = part.losses()
        causes = f" ({'; '.join(losses)})" if losses else ""
        yield f"{rate(sum(losses.values()))} err,drop/s{causes}"

    def _write(self, lines: list[str]) -> None:
        write_lines(self._out, lines)


def write_lines(out: IO[str], lines: Sequence[str]) -> None:
    """Lines without what could steer a terminal, at once."""
    _write(out, "".join(f"{one_line(line)}\n" for line in lines))


def write_json_line(out: IO[str], data: Mapping[str, Any]) -> None:
    """A JSON object and the end of its line, at once."""
    _write(out, json.dumps(data) + "\n")


def in_one_line(total: Reading) -> str:
    """Totals for where there is no room for more."""
    counts = {name: packets for name, packets in total.actions().items() if packets}
    parts = ", ".join(f"{name} {packets:,}" for name, packets in (counts | total.losses()).items())
    return f"Until then {total.packets:,} packets came in{': ' if parts else ''}{parts}"


def _write(out: IO[str], text: str) -> None:
    """At once, whatever `out` is: who reads a pipe wants each interval when it is over."""
    try:
        out.write(text)
        out.flush()
    except BrokenPipeError:
        # Without the errno, by which click would end with a status of its own.
        raise BrokenPipeError from None
    except OSError as error:
        raise OutputError(f"writing the output failed: {error.strerror or error}") from None


def _details(reading: Reading, *, per_second: bool) -> Iterator[str]:
    """Everything that was counted, a line each."""

    def text(packets: int) -> str:
        if per_second:
            return f"{packets / reading.seconds if reading.seconds > 0 else 0:,.0f}/s"
        return f"{packets:,}"

    def by_cpu(counts: Counts) -> Iterator[str]:
        for number, cpu in enumerate(counts):
            if sum(cpu):
                yield f"cpu {number} {text(sum(cpu))}"

    for where, counts in (("", reading.received), ("behind the redirect: ", reading.behind)):
        for action, packets in by_action(counts).items():
            if packets:
                yield f"{where}{action} {text(packets)}"
        if sum(sum(cpu) > 0 for cpu in counts) > (0 if per_second else 1):
            yield f"{where}{', '.join(by_cpu(counts))}"
    queues = [f"queue {n} {text(packets)}" for n, packets in enumerate(reading.queues) if packets]
    if queues:
        yield ", ".join(queues)
    for (event, what), packets_by_cpu in reading.events.items():
        if any(packets_by_cpu):
            yield f"{event}: {what} {text(sum(packets_by_cpu))}"
    for name, change in reading.socket.items():
        if change:
            yield f"socket: {name} {text(change)}"
    for interface, counters in reading.drivers.items():
        for name, change in counters.items():
            if change:
                yield f"{interface}'s driver: {name} {text(change)}"


class JsonLines:
    """A JSON object a line: `start` with the machine's environment, `interval`s, `summary`."""

    def __init__(self, out: IO[str], environment: Mapping[str, Any]) -> None:
        self._out = out
        self._environment = environment

    def begin(self, session: Session) -> None:
        plan = session.plan
        self._write(
            {
                "type": "start",
                "schema": SCHEMA,
                "xdplab_version": __version__,
                "command": plan.command,
                "interfaces": [
                    {
                        "name": one.name,
                        "ifindex": one.ifindex,
                        "driver": one.driver,
                        "mtu": one.mtu,
                    }
                    for one in plan.interfaces
                ],
                "sends_by": [one.name for one in plan.sends_by],
                "mode": session.mode,
                "frags": session.frags,
                "socket": plan.consumer.kind if plan.consumer is not None else None,
                "constants": {
                    name: value for name, value in plan.constants.items() if isinstance(value, int)
                },
                "not_counted": dict(session.missing),
                "doubts": session.doubts,
                "environment": self._environment,
            }
        )

    def interval(self, part: Reading, total: Reading) -> None:
        self._write({"type": "interval", "elapsed_s": round(total.seconds, 6), **_data(part)})

    def end(self, why: Why, total: Reading) -> None:
        self._write({"type": "summary", "ended_by": why.value, **_data(total)})

    def _write(self, data: Mapping[str, Any]) -> None:
        write_json_line(self._out, data)


def _data(reading: Reading) -> dict[str, Any]:
    return {
        "seconds": round(reading.seconds, 6),
        "packets": reading.packets,
        "rate_pps": round(reading.rate_pps, 1),
        "actions": reading.actions(),
        "behind": by_action(reading.behind),
        "losses": reading.losses(),
        "events": _events({key: sum(counts) for key, counts in reading.events.items()}),
        "cpus": [
            {
                "cpu": cpu,
                "actions": dict(zip(ACTIONS, reading.received[cpu], strict=True)),
                "behind": dict(zip(ACTIONS, reading.behind[cpu], strict=True)),
                "events": _events({key: by_cpu[cpu] for key, by_cpu in reading.events.items()}),
            }
            for cpu in busy_cpus(reading)
        ],
        "queues": {
            str(number): packets for number, packets in enumerate(reading.queues) if packets
        },
        "drivers": {
            interface: {name: change for name, change in counters.items() if change}
            for interface, counters in reading.drivers.items()
        },
        "socket": dict(reading.socket),
    }


def _events(counts: Mapping[EventKey, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (event, what), packets in counts.items():
        if packets:
            found.setdefault(event, {})[what] = packets
    return found
