"""xdplab count: exact instructions of a program, per packet and per source line."""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from xdplab import __version__
from xdplab.cli import completion
from xdplab.cli.frames import Frames, Given, frames_options
from xdplab.cli.keeping import Keeping, keeping_options
from xdplab.cli.main import INTERRUPTED_STATUS
from xdplab.cli.objects import Compiling, compile_options
from xdplab.counting import Tally, count, results_of, tables_of
from xdplab.errors import OutputError
from xdplab.packets.frame import Frame
from xdplab.program.chosen import Chosen
from xdplab.records import Document, RunInfo, Warning
from xdplab.views import json_document
from xdplab.views.report import FORMATS, Report

if TYPE_CHECKING:
    from xdplab.experiment import Stop


_PROGRESS_S = 5.0
"""How often a line says how far counting is; most are done before the first one."""


@click.command()
@click.argument("program", metavar="OBJ[:PROG]", shell_complete=completion.files)
@frames_options("Each is counted.", "may be given several times. Without frames: ipv4:64.")
@compile_options
@click.option("--json", "json_target", metavar="FILE|-", help="Write the result document.")
@click.option(
    "--format",
    "text_format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="How the tables are written.",
)
@keeping_options
def command(
    program: str,
    given: Given,
    compiling: Compiling,
    json_target: str | None,
    text_format: str,
    keeping: Keeping,
) -> int:
    """Count the eBPF instructions that a program executes, exactly.

    PROG of the object OBJ (a .bpf.o, or a .bpf.c that is compiled) runs in the user-space engine,
    which needs no privilege, once for each frame: with every memory access checked, then with
    every instruction counted. The figures of a .bpf.o are the same on every machine and in every
    run; those of a .bpf.c are the compiler's as well, which is named beside them. They are kept
    in the store (xdplab list, show, compare). What ends counting early, Ctrl-C or a fault, keeps
    the counts of the packets until then.
    """
    # Imported here, since it brings what estimates need, which --help should not wait for.
    from xdplab.experiment import Stop

    if json_target is not None:
        json_document.check_target(json_target)
    elif sys.stdout is None:
        raise OutputError(
            "the counts cannot be shown: standard output is closed. Open it, or give --json FILE"
        )
    keeping.check()
    started, start = datetime.now(UTC), time.monotonic()
    chosen = compiling.program(program)
    stop = Stop()
    frames = given.frames(takes_frags=chosen.program.takes_frags)
    with contextlib.ExitStack() as signals:
        try:
            tally: Tally = count(
                chosen.spec,
                chosen.program.name,
                _until_asked(frames, stop, signals),
                lambda: frames.place,
            )
        finally:
            # Also where it failed: an access beyond a packet's end may be one beyond a cut.
            warnings = tuple(frames.warnings())
            for warning in warnings:
                remedy = f" -> {warning.remedy}" if warning.remedy else ""
                click.echo(f"xdplab: {warning.message}{remedy}", err=True)
        packets = len(tally.instructions)
        kept = f"{packets} packet{'s' * (packets != 1)}"
        if tally.failure is not None:
            warnings = (Warning("ended-early", f"ended after {kept}: {tally.failure}"), *warnings)
        document = Document(
            run=RunInfo(
                id=f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}",
                started_at=started.isoformat(timespec="seconds"),
                duration_s=round(time.monotonic() - start, 3),
                command=("xdplab", *sys.argv[1:]),
                xdplab_version=__version__,
                complete=not stop.asked and tally.failure is None,
            ),
            environment=_made_by(chosen),
            results=tuple(results_of(tally)),
            warnings=warnings,
        )
        document = keeping.named(document)
        notes = [warning.message for warning in warnings]
        if stop.asked:
            notes.insert(0, f"interrupted after {kept}")
        if chosen.compiler:
            notes.append(
                f"Compiled here by {chosen.compiler} with {chosen.flags}: another compiler may "
                "make other instructions of the source. An object's counts are the same everywhere."
            )
        try:
            if json_target != "-":
                Report(text_format).show_bare(tables_of(document.results, notes))
        finally:
            # Whatever becomes of the tables.
            try:
                if json_target is not None:
                    json_document.write(document, json_target)
            finally:
                keeping.put(document)
    if tally.failure is not None:
        click.echo(f"xdplab: the counts of {kept} before it were kept", err=True)
        raise tally.failure
    if stop.asked:
        click.echo(f"xdplab: {notes[0]}; their counts were kept", err=True)
        return INTERRUPTED_STATUS
    return 0


def _made_by(chosen: Chosen) -> dict[str, str]:
    """What the counts depend on besides object and frames: nothing, or who compiled it here."""
    if not chosen.compiler:
        return {}
    return {"compiler": chosen.compiler, "compiler_flags": chosen.flags}


def _until_asked(frames: Frames, stop: Stop, signals: contextlib.ExitStack) -> Iterator[Frame]:
    """The frames until Ctrl-C, one at least. From the first on there is something to keep, so
    that signals ask only; before it (reading, compiling) they end the command as ever.
    """
    signals.enter_context(stop.on_signals())
    told = time.monotonic()
    for number, frame in enumerate(frames, 1):
        yield frame
        if time.monotonic() - told > _PROGRESS_S:
            told = time.monotonic()
            click.echo(f"counted {number} packets ...", err=True)
        if stop.asked:
            return
