"""xdplab bench: one's own programs, one alone or several against the first."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from xdplab.cli import completion
from xdplab.cli.arguments import FilePath, Seconds
from xdplab.cli.frames import Given, frames_options
from xdplab.cli.given_programs import given_programs
from xdplab.cli.keeping import Keeping, keeping_options
from xdplab.cli.main import INTERRUPTED_STATUS
from xdplab.cli.objects import Compiling, compile_options
from xdplab.cli.running import Run
from xdplab.cli.sampling import sampled
from xdplab.engines.base import Engine, Surrounded
from xdplab.errors import NotPossibleError, UsageError
from xdplab.experiment import Stop
from xdplab.records import TWIN
from xdplab.suites.own import own_suite
from xdplab.user.options import Mode
from xdplab.views import json_document
from xdplab.views.report import FORMATS, Report

_TIME_S = 10.0
_MOST_PROGRAMS = 7
"""With the empty one, as many as stand side by side in the kernel's dispatcher."""

_CHECKED = (
    "Every memory access is checked here, as no verifier has seen the programs; that is part of "
    "the figures."
)


@click.command()
@click.argument(
    "programs", metavar="OBJ[:PROG] ...", nargs=-1, required=True, shell_complete=completion.files
)
@frames_options(
    "A row for each action that the first program returns, measured on one packet of it.",
    "a row for each. Without frames: ipv4:64.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A global variable's value, in every program that has one of that name: a whole number, "
    "or hex:00ff... for its bytes.",
)
@click.option(
    "--maps",
    "maps",
    type=FilePath(),
    metavar="FILE",
    help="What maps hold at first: TOML, or JSON, of map name -> key -> value; see docs/bench.md.",
)
@click.option(
    "--mode",
    default="packet",
    show_default=True,
    metavar="packet|op:N",
    help="op:N where a run performs N operations in a loop: figures are then of one.",
)
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(("kernel", "user", "live")),
    help="Where programs run: by test runs in the kernel, in user space, or live, on a veth pair "
    "of this process's own. By default in the kernel, in user space where that may not be.",
)
@compile_options
@click.option(
    "--time",
    "time_s",
    type=Seconds(0.1, 86_400.0),
    default=_TIME_S,
    show_default=True,
    help="Time to measure, spent where intervals are widest.",
)
@click.option(
    "--json",
    "json_target",
    metavar="FILE|-",
    help="Write the result document, raw samples included; - is stdout, in place of the tables.",
)
@click.option(
    "--format",
    "text_format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="How the table is written.",
)
@keeping_options
def command(
    programs: tuple[str, ...],
    given: Given,
    settings: Sequence[str],
    maps: Path | None,
    mode: str,
    engine_name: str | None,
    compiling: Compiling,
    time_s: float,
    json_target: str | None,
    text_format: str,
    keeping: Keeping,
) -> int:
    """Measure your own programs: what one costs, or how several differ from the first.

    PROG of the object OBJ (a .bpf.o, or a .bpf.c that is compiled) is measured over the empty
    program; with several, also against the first, interleaved, with a verdict. Ctrl-C ends
    measuring and keeps what was measured.
    """
    if len(programs) > _MOST_PROGRAMS:
        raise UsageError(f"{len(programs)} programs were given; {_MOST_PROGRAMS} can be compared")
    operations = _operations(mode)
    if engine_name == "live":
        _refuse_on_live(operations, given)
    if json_target is not None:
        json_document.check_target(json_target)
    chosen = [compiling.program(word) for word in programs]
    engine = _engine(engine_name)
    own = given_programs(programs, chosen, settings, maps, _interfaces(engine))
    keeping.check()
    frames = given.frames(takes_frags=all(one.program.takes_frags for one in chosen))
    with Stop().on_signals() as stop:
        found = sampled(own, frames, engine, bool(given.captures), stop)
        if stop.asked:
            click.echo("xdplab: ended by Ctrl-C before it measured anything", err=True)
            return INTERRUPTED_STATUS
        notes = [_CHECKED] if engine.name == "user" else []
        suite = own_suite(own, found.classes, operations, notes)
        run = Run([suite], {}, [engine], time_s, stop, (*frames.warnings(), *found.warnings))
        report = None if json_target == "-" else Report(text_format)
        with keeping.keep(run.document) as keeper:
            try:
                run.measure(report, keeper)
            finally:
                if json_target is not None and run.outcomes:
                    json_document.write(keeping.named(run.document()), json_target)
    document = run.document()
    if not any(result.estimate for result in document.results):
        reasons = [finding.text for finding in document.findings if "left out" in finding.text]
        reasons += [
            f"{r.variant}: {r.note}." for r in document.results if r.note and r.variant != TWIN
        ]
        reasons = list(dict.fromkeys(reasons)) or ["no time was left"]
        raise NotPossibleError(f"nothing could be measured: {' '.join(reasons)}")
    if stop.asked:
        click.echo("xdplab: stopped early; what was measured was kept", err=True)
        return INTERRUPTED_STATUS
    return 0


def _operations(mode: str) -> int | None:
    if mode == "packet":
        return None
    kind, _, count = mode.partition(":")
    if kind != "op" or not count.isascii() or not count.isdigit() or not 1 <= int(count) <= 10**6:
        raise UsageError(
            f"--mode {mode!r} was given; it is packet, or op:N with N from 1 to 1000000"
        )
    return int(count)


def _refuse_on_live(operations: int | None, given: Given) -> None:
    if operations is not None:
        raise UsageError(
            "--mode op:N is for test runs, of which one is timed: on live paths packets are. Leave "
            "it out, or take --engine kernel"
        )
    if given.around:
        raise UsageError(
            "--ctx says where a test run's packet came in; on live paths it comes in at v0's only "
            "queue. Leave it out, or take --engine kernel"
        )


def _interfaces(engine: Engine) -> Callable[[str], int]:
    """What numbers interfaces have where programs will run."""
    if not isinstance(engine, Surrounded):
        return _number_here
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        if not numbers:
            with engine.surroundings() as found:
                numbers.update(found)
        if name not in numbers:
            raise UsageError(
                f"if:{name}: programs on live paths find the interfaces {', '.join(numbers)}"
            )
        return numbers[name]

    return number


def _number_here(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        raise UsageError(
            f"if:{name}: there is no interface of that name here. ip link lists them"
        ) from None


def _engine(name: str | None) -> Engine:
    if name != "user":
        from xdplab.kernel.features import require_kernel_engine

        try:
            require_kernel_engine()
        except NotPossibleError as error:
            if name is not None:
                raise
            click.echo(f"xdplab: measuring on the user-space engine, for {error}", err=True)
        else:
            from xdplab.engines.kernel import KernelEngine
            from xdplab.engines.live import LiveEngine

            return LiveEngine() if name == "live" else KernelEngine()
    from xdplab.engines.user import UserEngine

    # No verifier has seen it: every access is checked, which costs some of what is measured.
    return UserEngine(mode=Mode.CHECKED)
