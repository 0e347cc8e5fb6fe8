"""What commands on one's own programs share: OBJ[:PROG] and frames on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdplab.cli.arguments import whole_number
from xdplab.errors import CaptureEndError, FrameError, UsageError
from xdplab.packets.frame import MINIMUM_BYTES, PACKETS, Frame, udp_frame
from xdplab.packets.pcap import capture_frames, capture_name
from xdplab.program.chosen import Chosen, program_of
from xdplab.records import Warning
from xdplab.user.buffer import MAXIMUM_LINEAR_BYTES

__all__ = ["Chosen", "Frames", "defines_of", "program_of"]


def defines_of(macros: Sequence[str]) -> dict[str, str]:
    """NAME or NAME=TEXT as macro -> text. UsageError for what names none."""
    defines = {}
    for macro in macros:
        name, equals, text = macro.partition("=")
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"-D {macro!r} names no macro. Give NAME or NAME=TEXT")
        defines[name] = text if equals else "1"
    return defines


@dataclass(slots=True)
class _Taken:
    """What was read of a capture so far."""

    path: Path
    packets: int = 0
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

    def __init__(
        self, built: Sequence[str], captures: Sequence[Path], *, takes_frags: bool = True
    ) -> None:
        self.built: Sequence[str] = built or (() if captures else ("ipv4:64",))
        self._captures = [_Taken(path) for path in captures]
        self._takes_frags = takes_frags
        self.place = ""
        """Which frame was taken last, in words."""

    def __iter__(self) -> Iterator[Frame]:
        for number, text in enumerate(self.built, 1):
            self.place = f"packet {number} ({text})"
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
            yield frame
        for taken in self._captures:
            try:
                yield from self._captured(taken)
            except CaptureEndError:
                taken.breaks_off = True

    def _captured(self, taken: _Taken) -> Iterator[Frame]:
        for captured in capture_frames(taken.path):
            taken.packets += 1
            self.place = f"packet {taken.packets} of {capture_name(taken.path)}"
            if len(captured.data) < MINIMUM_BYTES:
                taken.short += 1
            elif self._is_too_large(captured.data):
                taken.large += 1
            else:
                taken.cut += captured.is_cut
                yield Frame(captured.data)

    def _is_too_large(self, data: bytes) -> bool:
        return not self._takes_frags and len(data) > MAXIMUM_LINEAR_BYTES

    def warnings(self) -> Iterator[Warning]:
        """What makes the frames that were taken until now others than those that went by."""
        for taken in self._captures:
            name = capture_name(taken.path)
            of_packets = f"of {taken.packets} packets of {name}"
            if taken.cut:
                yield Warning(
                    "cut-packets",
                    f"{taken.cut} {of_packets} were cut short by their capture, and are counted "
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
