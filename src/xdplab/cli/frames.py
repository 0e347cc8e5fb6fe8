"""Frames on the command line: built ones and those of captures, chosen, and where they came in."""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from xdplab.cli.arguments import FilePath, whole_number
from xdplab.errors import CaptureEndError, FrameError, UsageError
from xdplab.packets.frame import MINIMUM_BYTES, PACKETS, Frame, udp_frame
from xdplab.packets.pcap import capture_frames, capture_name
from xdplab.packets.selection import Filter, Numbers
from xdplab.records import Warning
from xdplab.user.buffer import MAXIMUM_LINEAR_BYTES

_U32 = 1 << 32

_LOOPBACK_IFINDEX = 1
"""Every network namespace's first interface; a queue is one of an interface."""


@dataclass(frozen=True, slots=True)
class Given:
    """What was said of frames. `around` are fields of Frame that hold for all of them."""

    built: Sequence[str] = ()
    captures: Sequence[Path] = ()
    numbers: Numbers | None = None
    expression: Filter | None = None
    around: Mapping[str, Any] = field(default_factory=dict)

    def frames(self, *, takes_frags: bool = True) -> Frames:
        """The frames, to be iterated over once."""
        return Frames(self, takes_frags=takes_frags)


@dataclass(slots=True)
class _Taken:
    """What was read of a capture so far."""

    path: Path
    packets: int = 0
    meant: int = 0
    cut: int = 0
    short: int = 0
    large: int = 0
    breaks_off: bool = False


class Frames:
    """Frames by KIND:BYTES and from captures, in that order; ipv4:64 where nothing is named.

    To be iterated over once. FrameError for an unknown kind, sizes that do not fit, and captures
    that cannot be read. Frames of a capture that are too short for a program are left out, and so
    are those that need frags where the program does not take them. A capture that ends in
    mid-packet ends there, with a warning.
    """

    def __init__(self, given: Given, *, takes_frags: bool = True) -> None:
        self.built: Sequence[str] = given.built or (() if given.captures else ("ipv4:64",))
        self._given = given
        self._captures = [_Taken(path) for path in given.captures]
        self._takes_frags = takes_frags
        self.place = ""
        """Which frame was taken last, in words."""
        self.number = 0
        """Its number in its capture, from 1 on."""

    def __iter__(self) -> Iterator[Frame]:
        around = self._given.around
        for number, text in enumerate(self.built, 1):
            self.place = f"packet {number} ({text})"
            self.number = number
            kind, _, size = text.partition(":")
            frame_bytes = whole_number(size)
            if frame_bytes is None:
                raise FrameError(
                    f"{text!r} is no frame. Give KIND:BYTES, such as ipv4:64; kinds are "
                    f"{', '.join(PACKETS)}"
                )
            frame = udp_frame(kind, frame_bytes)
            if self._is_too_large(frame.data):
                raise FrameError(
                    f"a frame of {text} does not fit into one buffer of {MAXIMUM_LINEAR_BYTES} "
                    f'bytes. Compile the program with SEC("xdp.frags"), or ask for less'
                )
            yield replace(frame, **around) if around else frame
        for taken in self._captures:
            try:
                for data in self._captured(taken):
                    yield Frame(data, **around)
            except CaptureEndError:
                taken.breaks_off = True
        if not self.place:
            raise FrameError(f"there is no frame to run a program on: {self._why_none()}")

    def _captured(self, taken: _Taken) -> Iterator[bytes]:
        numbers, expression = self._given.numbers, self._given.expression
        for captured in capture_frames(taken.path):
            taken.packets += 1
            if numbers is not None and not numbers.takes(taken.packets):
                if numbers.last is not None and taken.packets > numbers.last:
                    return
                continue
            if expression is not None and not expression.takes(captured):
                continue
            taken.meant += 1
            if len(captured.data) < MINIMUM_BYTES:
                taken.short += 1
            elif self._is_too_large(captured.data):
                taken.large += 1
            else:
                taken.cut += captured.cut_bytes > 0
                self.number = taken.packets
                self.place = f"packet {taken.packets} of {capture_name(taken.path)}"
                yield captured.data

    def _is_too_large(self, data: bytes) -> bool:
        return not self._takes_frags and len(data) > MAXIMUM_LINEAR_BYTES

    def _why_none(self) -> str:
        if not any(taken.meant for taken in self._captures):
            return "no packet of the captures is one that --packets or --filter means"
        return "none of the packets is one that a program could be given"

    def warnings(self) -> Iterator[Warning]:
        """What makes the frames that were taken until now others than those that went by."""
        for taken in self._captures:
            name = capture_name(taken.path)
            of_packets = f"of {taken.meant} packets of {name}"
            if taken.cut:
                yield Warning(
                    "cut-packets",
                    f"{taken.cut} {of_packets} were cut short by their capture, and are taken "
                    "as captured",
                    "capture whole packets (tcpdump -s 0)",
                )
            if taken.short:
                yield Warning(
                    "short-packets",
                    f"{taken.short} {of_packets} have no whole Ethernet header and were left out",
                )
            if taken.large:
                yield Warning(
                    "large-packets",
                    f"{taken.large} {of_packets} do not fit into one buffer of "
                    f"{MAXIMUM_LINEAR_BYTES} bytes and were left out: the program takes no frags",
                    'compile it with SEC("xdp.frags"), where it is to see them',
                )
            if taken.breaks_off:
                yield Warning(
                    "broken-capture",
                    f"{name} breaks off behind packet {taken.packets}, in the middle of what "
                    "follows",
                    "end a capture with Ctrl-C or SIGTERM, which lets it be written whole",
                )


def frames_options(pcap_help: str, frame_help: str) -> Callable[..., Any]:
    """--pcap, --frame, --packets, --filter and --ctx, passed on as `given`.

    The helps are what the command does with frames of a capture, and with built ones.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "--pcap",
            "captures",
            type=FilePath(),
            multiple=True,
            help="Frames from a pcap or pcapng file, - for standard input; may be given several "
            f"times. {pcap_help}",
        )
        @click.option(
            "--packets",
            "numbers",
            metavar="RANGES",
            help="Only packets of these numbers in their capture, from 1 on: 3,10-20,500-.",
        )
        @click.option(
            "--filter",
            "expression",
            metavar="EXPR",
            help="Only packets of captures of which this is true, as for tcpdump: 'udp port 53' "
            "(pcap-filter(7); takes libpcap).",
        )
        @click.option(
            "--frame",
            "built",
            multiple=True,
            metavar="KIND:BYTES",
            help=f"A UDP frame of kind ipv4, ipv6, vlan or qinq; {frame_help}",
        )
        @click.option(
            "--ctx",
            "fields",
            multiple=True,
            metavar="NAME=VALUE",
            help="What programs find in their context: ingress_ifindex=N or an interface's name, "
            "rx_queue_index=N, metadata=hex:... in front of packets; may be given several times.",
        )
        @functools.wraps(function)
        def with_frames(
            *arguments: Any,
            captures: Sequence[Path],
            numbers: str | None,
            expression: str | None,
            built: Sequence[str],
            fields: Sequence[str],
            **options: Any,
        ) -> Any:
            if not captures and (numbers is not None or expression is not None):
                raise UsageError("--packets and --filter choose packets of a capture: give --pcap")
            given = Given(
                built,
                captures,
                Numbers(numbers) if numbers is not None else None,
                Filter(expression) if expression is not None else None,
                _around(fields),
            )
            return function(*arguments, given=given, **options)

        return with_frames

    return decorate


_SET_BY_THE_KERNEL = ("data", "data_end", "data_meta", "egress_ifindex")


def _around(fields: Sequence[str]) -> dict[str, Any]:
    """The fields of Frame that --ctx sets. UsageError for what no program can be given."""
    around: dict[str, Any] = {}
    for text in fields:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise UsageError(f"--ctx {text!r} was given; it must be NAME=VALUE")
        if name in _SET_BY_THE_KERNEL:
            raise UsageError(
                f"--ctx {name} cannot be set: "
                + (
                    "it is for programs in a devmap, behind a redirect"
                    if name == "egress_ifindex"
                    else "it follows from the packet (--frame, --pcap) and from metadata=hex:..."
                )
            )
        if name == "metadata":
            around[name] = _metadata(value)
        elif name == "rx_queue_index":
            around[name] = _u32(name, value)
            around.setdefault("ingress_ifindex", _LOOPBACK_IFINDEX)
        elif name == "ingress_ifindex":
            around[name] = _ifindex(value)
        else:
            raise UsageError(
                f"--ctx {name} is no field that can be set. There are: ingress_ifindex, "
                "rx_queue_index, metadata"
            )
    return around


def _metadata(value: str) -> bytes:
    digits = value.removeprefix("hex:")
    try:
        if digits == value:
            raise ValueError
        return bytes.fromhex(digits)
    except ValueError:
        raise UsageError(f"--ctx metadata={value}: give its bytes as hex:00ff...") from None


def _u32(name: str, value: str) -> int:
    number = whole_number(value)
    if number is None or number >= _U32:
        raise UsageError(f"--ctx {name}={value}: give a whole number from 0 to {_U32 - 1}")
    return number


def _ifindex(value: str) -> int:
    if whole_number(value) is None:
        try:
            return socket.if_nametoindex(value)
        except OSError:
            raise UsageError(
                f"--ctx ingress_ifindex={value}: there is no interface of that name here. ip link "
                "lists them"
            ) from None
    number = _u32("ingress_ifindex", value)
    if not number:
        raise UsageError("--ctx ingress_ifindex=0 is no interface; they are numbered from 1 on")
    return number
