"""What commands on one's own programs share: OBJ[:PROG] and frames on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from xdplab.errors import FrameError, UsageError
from xdplab.packets.frame import MINIMUM_BYTES, PACKETS, Frame, udp_frame
from xdplab.packets.pcap import capture_frames
from xdplab.program import ObjectSpec, compile_object, read_object


def program_of(argument: str) -> tuple[ObjectSpec, str]:
    """The object and the program that OBJ[:PROG] names; OBJ is a .bpf.o, or a .bpf.c to compile.

    UsageError where there is no such file or program, or where several could be meant.
    """
    if not argument.rpartition(":")[0] and not Path(argument).is_file():
        raise UsageError(f"{argument!r} names no file. Give OBJ or OBJ:PROG")
    path, name = Path(argument), ""
    if not path.exists() and ":" in argument:
        head, _, name = argument.rpartition(":")
        path = Path(head)
    if not path.exists():
        raise UsageError(
            f"there is no file {path}. Give OBJ or OBJ:PROG, such as filter.bpf.o:drop"
        )
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


def frames_of(built: Sequence[str], captures: Sequence[Path]) -> Iterator[Frame]:
    """Frames by KIND:BYTES and from captures, in that order; ipv4:64 where nothing is named.

    FrameError for an unknown kind, sizes that do not fit, and captures that cannot be read.
    Frames of a capture that are too short for a program are left out.
    """
    for text in built or (() if captures else ("ipv4:64",)):
        kind, _, size = text.partition(":")
        if not (size.isascii() and size.isdecimal() and len(size) < 10):
            raise FrameError(
                f"{text!r} is no frame. Give KIND:BYTES, such as ipv4:64; kinds are "
                f"{', '.join(PACKETS)}"
            )
        yield udp_frame(kind, int(size))
    for path in captures:
        short = 0
        for data in capture_frames(path):
            if len(data) >= MINIMUM_BYTES:
                yield Frame(data)
            else:
                short += 1
        if short:
            click.echo(
                f"xdplab: {short} packets of {str(path)!r} have no whole Ethernet header and "
                "were left out",
                err=True,
            )
