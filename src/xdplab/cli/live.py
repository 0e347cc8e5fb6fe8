"""What the live commands have in common: options, and conducting a plan until its end."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from xdplab.cli.arguments import Seconds, WholeNumber
from xdplab.cli.keeping import Keeping, keeping_options
from xdplab.cli.main import INTERRUPTED_STATUS
from xdplab.errors import NotPossibleError, OutputError, UsageError
from xdplab.live.choices import ACCESSES, MODES, Mode
from xdplab.records import Warning

if TYPE_CHECKING:
    from xdplab.live.readings import Reading
    from xdplab.live.session import Plan, Session
    from xdplab.net.interface import Interface
    from xdplab.views.live import View

STDOUT = "-"
"""The name of a file that stands for standard output."""

load_mode_option = click.option(
    "-l",
    "--load-mode",
    "access",
    type=click.Choice(ACCESSES),
    default=ACCESSES[0],
    show_default=True,
    help="How packets are read and written: direct packet access, or bpf_xdp_load_bytes and "
    "bpf_xdp_store_bytes.",
)


interval_option = click.option(
    "-i",
    "--interval",
    "interval_s",
    type=Seconds(0.05, 86_400.0),
    default=2.0,
    show_default=True,
    help="Time between two lines.",
)

duration_option = click.option(
    "-d",
    "--duration",
    "duration_s",
    type=Seconds(0.05, 31_536_000.0),
    help="End after this time. By default Ctrl-C ends it.",
)

json_option = click.option(
    "--json",
    "json_target",
    is_flag=False,
    flag_value=STDOUT,
    metavar="[FILE|-]",
    help="Write a JSON object a line: start, intervals, summary. To stdout in place of "
    "the text (put --json last, or write --json=-), or to FILE beside it.",
)

yes_option = click.option(
    "--yes-this-interface",
    "yes",
    is_flag=True,
    help="Take an interface that carries the default route.",
)


def common_options(
    extended: tuple[str, ...] = ("-e", "--extended"),
    mode: tuple[str, ...] = ("-m", "--mode", "--xdp-mode"),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that every live command has; their values fill a `Common`.

    `extended` and `mode` are the names of those that xdp-bench calls by several.
    """
    options = (
        interval_option,
        duration_option,
        click.option(
            "-n",
            "--packets",
            type=WholeNumber(1),
            help="End once so many packets came in; what comes in meanwhile is counted, too.",
        ),
        click.option(
            *extended,
            "extended",
            is_flag=True,
            help="Show figures by CPU, tracepoints, the driver's own counters. Ctrl-\\ switches.",
        ),
        click.option(
            *mode,
            "mode",
            type=click.Choice(MODES),
            default=MODES[0],
            show_default=True,
            help="Run the program in the driver, or behind it, where every interface can (skb).",
        ),
        json_option,
        yes_option,
    )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return keeping_options(function)

    return decorate


@dataclass(frozen=True, slots=True)
class Common:
    """Values of the options that every live command has."""

    interval_s: float
    duration_s: float | None
    packets: int | None
    extended: bool
    mode: Mode
    json_target: str | None
    yes: bool
    keeping: Keeping
    quiet: bool = False

    def interface(self, name: str) -> Interface:
        """The interface that the user named, unless the machine hangs on it."""
        if sys.platform != "linux":
            raise NotPossibleError(
                f"{name} was not touched: XDP is Linux's, and this is {sys.platform}. "
                "Run it on Linux"
            )
        from xdplab.net.interface import named_interface

        return named_interface(name, self.yes)

    def conduct(self, plan: Plan) -> int:
        """Attach, show every interval, and sum up; return the exit status."""
        from xdplab.cli.live_keeping import LiveRun
        from xdplab.kernel.host import environment
        from xdplab.live.readings import fates
        from xdplab.live.session import Session
        from xdplab.live.watch import Ending, Signals, Why, watch
        from xdplab.views.live import Lines, in_one_line

        ending = Ending(self.duration_s, self.packets)
        # Closed, standard output is None: then there is nobody to read lines.
        lines = Lines(sys.stdout, self.extended) if sys.stdout and not self._json_only else None

        def toggle() -> None:
            if lines is not None:
                lines.extended = not lines.extended

        check_json_target(self.json_target)
        facts = environment()
        run = LiveRun(plan.command, facts)
        with (
            # Outermost: whoever else writes to the store must not keep the program attached.
            run.kept(self.keeping),
            Signals(toggle).handled() as signals,
            Session(plan, self.mode) as session,
            self._json_view(facts) as json_view,
        ):
            views: list[View] = [view for view in (lines, json_view) if view is not None]
            run.warnings += _warn(session, facts)

            def show(part: Reading, total: Reading) -> None:
                run.interval(part.seconds, part.packets, fates(part))
                for view in () if self.quiet else views:
                    view.interval(part, total)

            try:
                for view in views:
                    view.begin(session)
                why, total = watch(session, ending, self.interval_s, signals, show)
                # Without an end of its own, a signal is how it is meant to end.
                was_ended = why is Why.ASKED and not ending.is_open
                run.end(fates(total), is_whole=why is not Why.GONE and not was_ended)
                for view in views:
                    view.end(why, total)
            except OutputError as error:
                raise OutputError(f"{error}. {in_one_line(session.detach())}") from None
        if why is Why.GONE:
            consumer = plan.consumer
            raise (consumer and consumer.error) or NotPossibleError(
                f"{plan.command} ended early: an interface was removed. What was counted until "
                "then was shown"
            )
        return INTERRUPTED_STATUS if was_ended else 0

    @property
    def _json_only(self) -> bool:
        return self.json_target == STDOUT

    @contextlib.contextmanager
    def _json_view(self, facts: Mapping[str, Any]) -> Iterator[View | None]:
        from xdplab.views.live import JsonLines

        with json_output(self.json_target) as out:
            yield None if out is None else JsonLines(out, facts)


def check_json_target(target: str | None) -> None:
    """UsageError, before anything is touched, where --json cannot be written."""
    from xdplab.views.json_document import check_target

    if target == STDOUT and sys.stdout is None:
        raise UsageError("--json - was asked for, but standard output is closed")
    if target is not None:
        check_target(target)


@contextlib.contextmanager
def json_output(target: str | None) -> Iterator[IO[str] | None]:
    """Where JSON lines go: a file, standard output for STDOUT, None for None."""
    if target is None or target == STDOUT:
        yield None if target is None else sys.stdout
    else:
        with Path(target).open("w", encoding="utf-8") as file:
            yield file


def _warn(session: Session, facts: Mapping[str, Any]) -> list[Warning]:
    """Say on stderr what the user should know before packets flow, and then what begins."""
    plan = session.plan
    names = ", ".join(one.name for one in plan.interfaces)
    others = [one.name for one in plan.sends_by if one not in plan.interfaces]
    to = f" to {', '.join(others)}" if others else ""
    how = [session.mode, *(["frags"] if session.frags else [])]
    if plan.consumer is not None:
        how.append(plan.consumer.kind)
    warnings = [Warning("doubt", doubt) for doubt in session.doubts]
    if facts.get("bpf_stats_enabled"):
        warnings.append(
            Warning(
                "bpf-stats",
                "BPF statistics are on, which costs each packet tens of nanoseconds",
                "sysctl kernel.bpf_stats_enabled=0",
            )
        )
    warnings += [
        Warning("not-counted", f"{event} is not counted here: {reason}")
        for event, reason in session.missing.items()
    ]
    for warning in warnings:
        remedy = f" -> {warning.remedy}" if warning.remedy else ""
        click.echo(f"xdplab: {warning.message}{remedy}", err=True)
    click.echo(f"xdplab: {plan.command} on {names}{to} ({', '.join(how)})", err=True)
    return warnings
