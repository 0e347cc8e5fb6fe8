"""What commands on one's own programs share: OBJ[:PROG] and frames on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdplab.cli.arguments import whole_number
from xdplab.errors import FrameError, UsageError
from xdplab.packets.frame import MINIMUM_BYTES, PACKETS, Frame, udp_frame
from xdplab.packets.pcap import capture_frames
from xdplab.program import ObjectSpec, compile_object, read_object
from xdplab.records import Warning


def program_of(argument: str) -> tuple[ObjectSpec, str]:
    """The object and the program that OBJ[:PROG] names; OBJ is a .bpf.o, or a .bpf.c to compile.

    UsageError where there is no such file or program, or where several could be meant.
    """
    named, name = argument, ""
    if not os.path.exists(named) and ":" in argument:  # noqa: PTH110 - a name too long is none
        named, _, name = argument.rpartition(":")
        if not name:
            raise UsageError(
                f"{argument!r} names no program behind its colon. Give OBJ:PROG, or OBJ where it "
                "has a single program"
            )
    if not os.path.exists(named):  # noqa: PTH110 - as above
        raise UsageError(
            f"there is no file {named!r}. Give OBJ or OBJ:PROG, such as filter.bpf.o:drop"
        )
    path = Path(named)
    if path.suffix == ".c":
        spec = read_object(compile_object(path), path.name.removesuffix(".c").removesuffix(".bpf"))
    else:
        spec = read_object(path)
    if not name:
        if len(spec.programs) != 1:
            raise UsageError(
                f"{path} has {len(spec.programs)} programs: {', '.join(spec.programs)}. "
                f"Name one, such as {path}:{next(iter(spec.programs), 'PROG')}"
            )
        name = next(iter(spec.programs))
    if name not in spec.programs:
        raise UsageError(f"{path} has no program {name!r}. It has: {', '.join(spec.programs)}")
    return spec, name


@dataclass(slots=True)
class _Taken:
    """What was read of a capture so far."""

    path: Path
    packets: int = 0
    cut: int = 0
    short: int = 0


class Frames:
    """Frames by KIND:BYTES and from captures, in that order; ipv4:64 where nothing is named.

    To be iterated over once. FrameError for an unknown kind, sizes that do not fit, and captures
    that cannot be read. Frames of a capture that are too short for a program are left out.
    """

    def __init__(self, built: Sequence[str], captures: Sequence[Path]) -> None:
        self._built = built or (() if captures else ("ipv4:64",))
        self._captures = [_Taken(path) for path in captures]

    def __iter__(self) -> Iterator[Frame]:
        for text in self._built:
            kind, _, size = text.partition(":")
            frame_bytes = whole_number(size)
            if frame_bytes is None:
                raise FrameError(
                    f"{text!r} is no frame. Give KIND:BYTES, such as ipv4:64; kinds are "
                    f"{', '.join(PACKETS)}"
                )
            yield udp_frame(kind, frame_bytes)
        for taken in self._captures:
            for captured in capture_frames(taken.path):
                taken.packets += 1
                if len(captured.data) < MINIMUM_BYTES:
                    taken.short += 1
                    continue
                taken.cut += captured.is_cut
                yield Frame(captured.data)

    def warnings(self) -> Iterator[Warning]:
        """What makes the frames that were taken until now others than those that went by."""
        for taken in self._captures:
            of_packets = f"of {taken.packets} packets of {str(taken.path)!r}"
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
