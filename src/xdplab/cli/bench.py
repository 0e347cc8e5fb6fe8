"""xdplab bench: one's own programs, one alone or several against the first."""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from xdplab.cli.arguments import FilePath, Seconds
from xdplab.cli.entries import entries_of, read_entries
from xdplab.cli.frames import Frames, Given, frames_options
from xdplab.cli.keeping import Keeping, keeping_options
from xdplab.cli.main import INTERRUPTED_STATUS
from xdplab.cli.objects import Compiling, compile_options
from xdplab.cli.running import Run
from xdplab.engines.base import Engine, action_name
from xdplab.errors import NotPossibleError, UsageError
from xdplab.experiment import Stop
from xdplab.packets.frame import Frame
from xdplab.program.chosen import Chosen
from xdplab.program.uses import uses
from xdplab.records import Warning
from xdplab.suites.own import FrameClass, Own, classify, own_suite
from xdplab.user.options import Mode
from xdplab.views import json_document
from xdplab.views.report import FORMATS, Report

_SAMPLE = 2048
"""Frames of a capture that are looked at: the standard error of a share is then 1.1 % at most."""

_SEED = 20
_TIME_S = 10.0
_MOST_PROGRAMS = 7
"""With the empty one, as many as stand side by side in the kernel's dispatcher."""


@click.command()
@click.argument("programs", metavar="OBJ[:PROG] ...", nargs=-1, required=True)
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
    type=click.Choice(("kernel", "user")),
    help="Where programs run. By default in the kernel, in user space where that may not be.",
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
    if json_target is not None:
        json_document.check_target(json_target)
    chosen = [compiling.program(word) for word in programs]
    own = _own(programs, chosen, settings, maps)
    keeping.check()
    engine = _engine(engine_name)
    frames = given.frames(takes_frags=all(one.program.takes_frags for one in chosen))
    with Stop().on_signals() as stop:
        sampled = _classes(own, frames, engine, bool(given.captures), stop)
        if stop.asked:
            click.echo("xdplab: ended by Ctrl-C before it measured anything", err=True)
            return INTERRUPTED_STATUS
        suite = own_suite(own, sampled.classes, operations)
        run = Run([suite], {}, [engine], time_s, stop, (*frames.warnings(), *sampled.warnings))
        report = None if json_target == "-" else Report(text_format)
        with keeping.keep(run.document) as keeper:
            try:
                run.measure(report, keeper)
            finally:
                if json_target is not None and run.outcomes:
                    json_document.write(keeping.named(run.document()), json_target)
    if not any(result.estimate for result in run.document().results):
        notes = [finding.text for finding in run.document().findings]
        raise NotPossibleError(
            f"nothing could be measured: {' '.join(notes) or 'no time was left'}"
        )
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


def _own(
    words: Sequence[str], chosen: Sequence[Chosen], settings: Sequence[str], maps: Path | None
) -> list[Own]:
    values = dict(_setting(text) for text in settings)
    tables = read_entries(maps) if maps is not None else {}
    known: set[str] = set()
    own = []
    for name, one in zip(_names(words, chosen), chosen, strict=True):
        constants: dict[str, int | bytes] = {}
        variables: dict[str, int] = {}
        for variable, value in values.items():
            spec = one.spec.globals.get(variable)
            if spec is None:
                continue
            known.add(variable)
            spec.encode(value)
            if spec.section.startswith(".rodata"):
                constants[variable] = value
            elif isinstance(value, int):
                variables[variable] = value
            else:
                raise UsageError(
                    f"--set {variable}=hex:... is for constants (const volatile); {variable} is in "
                    f"{spec.section}, whose numbers alone can be set"
                )
        of_maps = entries_of(tables, one.spec, maps)
        known |= {f"map {m}" for m in of_maps}
        # A program is loaded with its own maps alone.
        _, used = uses(one.spec, (one.program.name,))
        of_maps = {m: entries for m, entries in of_maps.items() if m in used}
        own.append(Own(name, one.spec, one.program.name, constants, variables, of_maps))
    for variable in values:
        if variable not in known:
            has = sorted({name for one in chosen for name in one.spec.globals})
            raise UsageError(
                f"--set {variable}: no program here has that global variable. "
                + (f"There are: {', '.join(has)}" if has else "They have none")
            )
    for table in tables:
        if f"map {table}" not in known:
            has = sorted({name for one in chosen for name in one.spec.maps})
            raise UsageError(
                f"{maps} has entries for the map {table!r}, which no program here has. "
                + (f"There are: {', '.join(has)}" if has else "They have none")
            )
    return own


def _setting(text: str) -> tuple[str, int | bytes]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"--set {text!r} was given; it must be NAME=VALUE")
    try:
        if value.startswith("hex:"):
            return name, bytes.fromhex(value.removeprefix("hex:"))
        return name, int(value, 0)
    except ValueError:
        raise UsageError(
            f"--set {name}={value}: give a whole number (10, -1, 0x10) or hex:00ff..."
        ) from None


def _names(words: Sequence[str], chosen: Sequence[Chosen]) -> list[str]:
    """Short names that tell the programs apart: those of the programs, else with their objects,
    else with their places on the command line."""
    short = [one.program.name for one in chosen]
    longer = [f"{one.spec.name}:{one.program.name}" for one in chosen]
    numbered = [f"{name} ({place})" for place, name in enumerate(longer, 1)]
    reserved = {"empty", "aa-twin", "all"}
    for names in (short, longer, numbered):
        if len(set(names)) == len(words) and not reserved & set(names):
            return names
    raise AssertionError("numbered names differ")


def _engine(name: str | None) -> Engine:
    if name != "user":
        from xdplab.kernel.features import require_kernel_engine

        try:
            require_kernel_engine()
        except NotPossibleError as error:
            if name == "kernel":
                raise
            click.echo(f"xdplab: measuring on the user-space engine, for {error}", err=True)
        else:
            from xdplab.engines.kernel import KernelEngine

            return KernelEngine()
    from xdplab.engines.user import UserEngine

    # No verifier has seen it: every access is checked, which costs some of what is measured.
    return UserEngine(mode=Mode.CHECKED)


@dataclass(frozen=True, slots=True)
class _Sampled:
    classes: Sequence[FrameClass]
    warnings: Sequence[Warning] = ()


def _classes(
    own: Sequence[Own], frames: Frames, engine: Engine, captured: bool, stop: Stop
) -> _Sampled:
    if not captured:
        given = list(frames)
        labels = [f"{frame_name}" for frame_name in _labels(given, frames)]
        return _Sampled(
            [
                FrameClass(label, frame, 1 / len(given))
                for label, frame in zip(labels, given, strict=True)
            ]
        )
    sample, total = _reservoir(frames, stop)
    packets = [frame for _, frame in sample]
    actions = classify(own[0], packets, engine)
    others = [sum(map(operator.ne, classify(other, packets, engine), actions)) for other in own[1:]]
    warnings = [
        Warning(
            "other-actions",
            f"{other.name} returned something else than {own[0].name} for {count} of "
            f"{len(sample)} packets",
            "make sure that both are meant to do the same",
        )
        for other, count in zip(own[1:], others, strict=True)
        if count
    ]
    if total > len(sample):
        warnings.append(
            Warning(
                "sampled-capture",
                f"shares are those of {len(sample)} packets drawn at random from {total}",
            )
        )
    by_action: dict[int, list[tuple[int, Frame]]] = {}
    for action, (number, frame) in zip(actions, sample, strict=True):
        by_action.setdefault(action, []).append((number, frame))
    classes = []
    for action, members in sorted(by_action.items(), key=lambda item: -len(item[1])):
        # The packet of middle length stands for its path.
        ranked = sorted(members, key=lambda member: (len(member[1].data), member[0]))
        number, frame = ranked[len(ranked) // 2]
        label = f"{action_name(action)}, packet {number}"
        classes.append(FrameClass(label, frame, len(members) / len(sample)))
    return _Sampled(classes, warnings)


def _labels(given: Sequence[Frame], frames: Frames) -> Iterator[str]:
    for number, (text, _) in enumerate(zip(frames.built, given, strict=True), 1):
        yield text if frames.built.count(text) == 1 else f"{text} ({number})"


def _reservoir(frames: Frames, stop: Stop) -> tuple[list[tuple[int, Frame]], int]:
    """Packets drawn at random, each as likely, and how many there were: a capture of any size is
    read once and never held (Vitter's algorithm R, ACM TOMS 11, 1985)."""
    chance = random.Random(_SEED)
    kept: list[tuple[int, Frame]] = []
    total = 0
    for frame in frames:
        total += 1
        if len(kept) < _SAMPLE:
            kept.append((frames.number, frame))
        elif (place := chance.randrange(total)) < _SAMPLE:
            kept[place] = (frames.number, frame)
        if stop.asked:
            break
    return sorted(kept, key=lambda one: one[0]), total
