"""xdplab run: the laboratory's own suites, a table each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

from xdplab.cli import completion
from xdplab.cli.arguments import Seconds, WholeNumbers
from xdplab.cli.keeping import Keeping, keeping_options
from xdplab.cli.main import INTERRUPTED_STATUS
from xdplab.cli.running import Run
from xdplab.engines import live_ways
from xdplab.engines.base import Engine
from xdplab.errors import NotPossibleError, UsageError
from xdplab.experiment import Stop
from xdplab.suites.base import Suite, choose_suites, find_suites
from xdplab.user.datapath import DATAPATH, check_choice
from xdplab.views import json_document
from xdplab.views.report import FORMATS, Report

_TIME_S = 10.0
_TIME_LEAST_S = 0.001
_TIME_LIMIT_S = 86_400.0

ENGINES = ("kernel", "live", "user", "native")


def _with_suite_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for suite in find_suites().values():
        for option in suite.options:
            default = ",".join(str(number) for number in option.default)
            function = click.option(
                f"--{option.name}",
                type=WholeNumbers(),
                default=default,
                show_default=True,
                help=f"{suite.name}: {option.help}.",
            )(function)
    return function


def _open_datapath() -> dict[str, list[str]]:
    """What a run may choose of the data path, with the suites that leave it open."""
    found: dict[str, list[str]] = {}
    for suite in find_suites().values():
        for name in suite.datapath:
            found.setdefault(name, []).append(suite.name)
    return found


def _datapath_list() -> str:
    values: dict[str, Iterable[str]] = {**DATAPATH, **live_ways.CHOOSABLE}
    return "; ".join(
        f"{name} ({', '.join(of)}) is {', '.join(values[name])}"
        for name, of in _open_datapath().items()
    )


def _suite_list() -> str:
    # A line that is only a backspace keeps click from folding the lines behind it.
    names = [f"  {suite.name}: {suite.title}{_times(suite)}" for suite in find_suites().values()]
    return "\n".join(["\b", "Suites:", *names])


def _times(suite: Suite) -> str:
    return f" ({suite.weight:g} times the --time)" if suite.weight != 1 else ""


@click.command(epilog=_suite_list())
@click.argument("suite", nargs=-1, shell_complete=completion.suites)
@click.option(
    "--time",
    "time_s",
    type=Seconds(_TIME_LEAST_S, _TIME_LIMIT_S),
    default=_TIME_S,
    show_default=True,
    help="Time for each suite, spent where intervals are widest.",
)
@click.option(
    "--json",
    "json_target",
    metavar="FILE|-",
    help="Write the result document, raw samples included; - is stdout, in place of the tables.",
)
@click.option(
    "--plot",
    "plot_target",
    metavar="FILE|FOLDER",
    help="Draw the figures as well: FILE.svg or FILE.png for one suite, for several a FOLDER, in "
    "which each has SUITE.svg; its engines below each other.",
)
@click.option(
    "--format",
    "text_format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="How the tables are written.",
)
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(ENGINES),
    help="Where programs run: in the kernel, in user space, or natively, as compiled C. By default "
    "wherever a suite can, each with tables of its own; not in the kernel where that may not be "
    "measured.",
)
@click.option(
    "--datapath",
    "datapath",
    multiple=True,
    metavar="NAME=VALUE",
    help="A variant of what lies around programs on the user-space engine or on live paths, where "
    f"a suite leaves it open: {_datapath_list()}; the first is what runs without a choice. May be "
    "given once for each; results and titles tell of it.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Draw the interfaces and the ways of packets through them, and measure nothing.",
)
@keeping_options
@_with_suite_options
def command(
    suite: tuple[str, ...],
    explain: bool,
    engine_name: str | None,
    datapath: tuple[str, ...],
    time_s: float,
    json_target: str | None,
    plot_target: str | None,
    text_format: str,
    keeping: Keeping,
    **options: tuple[int, ...],
) -> int:
    """Measure built-in SUITEs (default: all of them), a table each.

    Tables go to stdout, progress and warnings to stderr. Every run is kept in the store as it is
    measured, with its samples (xdplab list, show, compare). Ctrl-C ends measuring and keeps what
    was measured.
    """
    suites = _able(choose_suites(suite), engine_name, named=bool(suite))
    _refuse_idle_options(suites)
    if explain:
        if json_target is not None or plot_target is not None:
            raise UsageError(
                "--explain measures nothing that --json or --plot could have. Leave one of them out"
            )
        click.echo(_explained(suites))
        return 0
    chosen = _chosen_datapath(datapath, engine_name, suites)
    values = {name.replace("_", "-"): value for name, value in options.items()}
    if json_target is not None:
        json_document.check_target(json_target)
    plots = None
    if plot_target is not None:
        from xdplab.views.plot_file import PlotFiles

        plots = PlotFiles(plot_target, [one.name for one in suites])
    engines = [_with_datapath(engine, chosen) for engine in _engines(_needed(suites, engine_name))]
    report = None if json_target == "-" else Report(text_format)
    with Stop().on_signals() as stop:
        run = Run(suites, values, engines, time_s, stop)
        with keeping.keep(run.document) as keeper:
            try:
                run.measure(report, keeper)
            except BrokenPipeError:
                raise
            except OSError as error:
                # The tables could not be written; without --json they would be all there was.
                if json_target is None:
                    failure = f"writing the output failed: {error.strerror or error}; "
                    failure += "the result document has its figures"
                    raise json_document.kept(keeping.named(run.document()), failure) from None
                raise
            finally:
                # Also when something failed: what was measured until then is not lost.
                if json_target is not None and run.outcomes:
                    json_document.write(keeping.named(run.document()), json_target)
                if plots is not None:
                    run.draw(plots)
    if stop.asked:
        measured = sum(result.estimate is not None for result in run.document().results)
        click.echo(f"xdplab: stopped early; {measured} figures were measured and kept", err=True)
        return INTERRUPTED_STATUS
    return 0


def _explained(suites: Sequence[Suite]) -> str:
    drawn = [suite.explain() for suite in suites if suite.explain is not None]
    if not drawn:
        able = ", ".join(one.name for one in find_suites().values() if one.explain is not None)
        raise UsageError(f"--explain draws the ways of packets, which have: {able}. Name one")
    return "\n\n".join(drawn)


def _refuse_idle_options(suites: Sequence[Suite]) -> None:
    """An option of a suite that does not run was meant for something: say so."""
    context = click.get_current_context()
    used = {option.name for suite in suites for option in suite.options}
    for owner in find_suites().values():
        for option in owner.options:
            source = context.get_parameter_source(option.name.replace("-", "_"))
            given = source is click.core.ParameterSource.COMMANDLINE
            if given and option.name not in used:
                raise UsageError(
                    f"--{option.name} belongs to {owner.name}, which does not run here. "
                    f"Add {owner.name} or leave the option out"
                )


def _able(suites: Sequence[Suite], engine: str | None, named: bool) -> Sequence[Suite]:
    """The suites that the chosen engine can run. UsageError for one that was asked for by name."""
    if engine is None:
        return suites
    unable = [suite for suite in suites if not suite.runs_on(engine)]
    if unable and named:
        raise UsageError(
            f"{unable[0].name} does not run on the {engine} engine, but on: "
            f"{', '.join(unable[0].engines)}. Choose that, or leave --engine out"
        )
    return [suite for suite in suites if suite not in unable]


def _chosen_datapath(
    words: Sequence[str], engine: str | None, suites: Sequence[Suite]
) -> dict[str, str]:
    if not words:
        return {}
    if engine not in {None, "user", "live"}:
        raise UsageError(
            "--datapath changes what lies around programs on the user-space engine and on live "
            f"paths, and --engine {engine} leaves that out: what it runs is as it is"
        )
    chosen: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--datapath has {word!r}; it must be NAME=VALUE")
        if name in chosen:
            raise UsageError(
                f"--datapath has {name} twice, and a run has one of each. Leave one out, or "
                "measure it in a run of its own"
            )
        users = _open_datapath().get(name)
        if users is None:
            raise UsageError(
                f"--datapath has {name!r}, which no suite leaves open. There are: "
                f"{_datapath_list()}"
            )
        if not any(suite.name in users for suite in suites):
            raise UsageError(
                f"--datapath {name} belongs to {', '.join(users)}, which does not run here. Add "
                f"{users[0]} or leave the option out"
            )
        chosen[name] = value
        if name in live_ways.CHOOSABLE:
            live_ways.check_choice(name, value)
        else:
            check_choice({name: value})
    return chosen


def _with_datapath(engine: Engine, chosen: Mapping[str, str]) -> Engine:
    """The engine with what of the choice is its own."""
    from xdplab.engines.user import UserEngine

    own = {name: value for name, value in chosen.items() if name in engine.datapath}
    if not own:
        return engine
    if isinstance(engine, UserEngine):
        return UserEngine(own)
    from xdplab.engines.live import LiveEngine

    return LiveEngine(own)


def _needed(suites: Sequence[Suite], chosen: str | None) -> list[str]:
    """Names of the engines to measure on: the chosen one, or all that these suites can run on."""
    if chosen is not None:
        return [chosen]
    return [name for name in ENGINES if any(suite.runs_on(name) for suite in suites)]


def _engines(needed: Sequence[str]) -> list[Engine]:
    """The engines of these names. The kernel is left out where it may not be measured and is not
    the only one, which one line on stderr then says; NotPossibleError where it is."""
    # Imported here, since nothing of Linux may be imported before it is asked for.
    from xdplab.engines.native import NativeEngine
    from xdplab.engines.user import UserEngine

    engines: list[Engine] = []
    in_kernel = [name for name in needed if name in {"kernel", "live"}]
    if in_kernel:
        from xdplab.engines.kernel import KernelEngine
        from xdplab.engines.live import LiveEngine
        from xdplab.kernel.features import require_kernel_engine

        try:
            require_kernel_engine()
            engines += [KernelEngine() if name == "kernel" else LiveEngine() for name in in_kernel]
        except NotPossibleError as error:
            if in_kernel == list(needed):
                raise
            click.echo(f"xdplab: measuring on the user-space engine, for {error}", err=True)
    if "user" in needed:
        engines.append(UserEngine())
    if "native" in needed:
        engines.append(NativeEngine())
    return engines
