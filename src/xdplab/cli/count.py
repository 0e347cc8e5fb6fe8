"""xdplab count: exact instructions of a program, per packet and per source line."""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xdplab import __version__
from xdplab.cli.arguments import FilePath
from xdplab.cli.main import INTERRUPTED_STATUS
from xdplab.cli.objects import Frames, program_of
from xdplab.counting import Tally, count, results_of, tables_of
from xdplab.packets.frame import Frame
from xdplab.records import Document, RunInfo
from xdplab.views import json_document
from xdplab.views.report import FORMATS, Report

if TYPE_CHECKING:
    from xdplab.experiment import Stop


@click.command()
@click.argument("program", metavar="OBJ[:PROG]")
@click.option(
    "--pcap",
    "captures",
    type=FilePath(),
    multiple=True,
    help="Frames from a pcap or pcapng file; may be given several times.",
)
@click.option(
    "--frame",
    "built",
    multiple=True,
    metavar="KIND:BYTES",
    help="A UDP frame of kind ipv4, ipv6, vlan or qinq; may be given several times. "
    "Without frames of either sort: ipv4:64.",
)
@click.option("--json", "json_target", metavar="FILE|-", help="Write the result document.")
@click.option(
    "--format",
    "text_format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="How the tables are written.",
)
def command(
    program: str,
    captures: Sequence[Path],
    built: Sequence[str],
    json_target: str | None,
    text_format: str,
) -> int:
    """Count the eBPF instructions that a program executes, exactly.

    PROG of the object OBJ (a .bpf.o, or a .bpf.c that is compiled) runs in the user-space engine,
    which needs no privilege, once for each frame: with every memory access checked, then with
    every instruction counted. The figures are the same on every machine and in every run.
    Ctrl-C ends counting and keeps the counts of the packets until then.
    """
    # Imported here, since it brings what estimates need, which --help should not wait for.
    from xdplab.experiment import Stop

    if json_target is not None:
        json_document.check_target(json_target)
    started, start = datetime.now(UTC), time.monotonic()
    spec, name = program_of(program)
    frames, stop = Frames(built, captures), Stop()
    with contextlib.ExitStack() as signals:
        try:
            tally: Tally = count(spec, name, _until_asked(frames, stop, signals))
        finally:
            # Also where it failed: an access beyond a packet's end may be one beyond a cut.
            warnings = tuple(frames.warnings())
            for warning in warnings:
                remedy = f" -> {warning.remedy}" if warning.remedy else ""
                click.echo(f"xdplab: {warning.message}{remedy}", err=True)
        document = Document(
            run=RunInfo(
                id=f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}",
                started_at=started.isoformat(timespec="seconds"),
                duration_s=round(time.monotonic() - start, 3),
                command=("xdplab", *sys.argv[1:]),
                xdplab_version=__version__,
                complete=not stop.asked,
            ),
            environment={},
            results=tuple(results_of(tally)),
            warnings=warnings,
        )
        notes = [warning.message for warning in warnings]
        if stop.asked:
            packets = len(tally.instructions)
            notes.insert(0, f"interrupted after {packets} packet{'s' * (packets != 1)}")
        try:
            if json_target != "-":
                Report(text_format).show_bare(tables_of(tally, notes))
        finally:
            # Whatever becomes of the tables.
            if json_target is not None:
                json_document.write(document, json_target)
    if stop.asked:
        click.echo(f"xdplab: {notes[0]}; their counts were kept", err=True)
        return INTERRUPTED_STATUS
    return 0


def _until_asked(frames: Frames, stop: Stop, signals: contextlib.ExitStack) -> Iterator[Frame]:
    """The frames until Ctrl-C, one at least. From the first on there is something to keep, so
    that signals ask only; before it (reading, compiling) they end the command as ever.
    """
    signals.enter_context(stop.on_signals())
    for frame in frames:
        yield frame
        if stop.asked:
            return
