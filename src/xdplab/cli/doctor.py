"""`xdplab doctor`: what can be measured here, what disturbs it, and what to do about both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from xdplab import records
    from xdplab.kernel.features import ProbeOutcome

_SCHEMA = 1
_ABOUT = {
    "bpf_syscall": "load programs: bpf(2)",
    "libbpf": "load objects: libbpf",
    "btf": "kernel's own types: BTF",
    "jit": "compiled programs: JIT",
    "netns": "private network namespaces",
    "test_run": "time programs: test run",
    "xdp_link": "attach to interfaces",
    "xdp_frags": "multi-buffer frames",
}
_STYLES = {"supported": "green", "not supported": "red", "could not tell": "yellow"}


@click.command("doctor")
@click.option(
    "--json", "json_target", metavar="FILE|-", help="Write everything as JSON to FILE or stdout."
)
def command(json_target: str | None) -> None:
    """Say what can be measured here, what disturbs measuring, and what to do.

    Needs no privileges and changes nothing that outlives it. Remedies are commands for root.
    """
    from xdplab.kernel.disturbances import disturbances
    from xdplab.kernel.features import probe_all
    from xdplab.kernel.host import environment
    from xdplab.views.json_document import check_target, write_json
    from xdplab.views.terminal import make_console

    if json_target is not None:
        check_target(json_target)
    facts = environment()
    outcomes = probe_all()
    warnings = disturbances(facts)
    # With JSON on standard output, nothing else may stand there.
    console = make_console(stderr=json_target == "-")
    _show_features(console, outcomes)
    _show_warnings(console, warnings)
    _show_environment(console, facts)
    if json_target is not None:
        write_json(
            {
                "schema": _SCHEMA,
                "environment": facts,
                "features": {
                    name: {
                        "outcome": outcome.probe.value,
                        "reason": outcome.reason,
                        "remedy": outcome.remedy,
                    }
                    for name, outcome in outcomes.items()
                },
                "warnings": [warning.to_json() for warning in warnings],
            },
            json_target,
        )


def _show_features(console: Console, outcomes: Mapping[str, ProbeOutcome]) -> None:
    from xdplab.errors import NotPossibleError
    from xdplab.kernel.features import require_kernel_engine

    _heading(console, "What can be measured here")
    try:
        require_kernel_engine()
        _line(console, "  Programs can be measured in this kernel.")
    except NotPossibleError as error:
        _line(console, f"  {str(error)[0].upper()}{str(error)[1:]}.")
    _line(console, f"  {_user_engine()}")
    shown_remedies = set()
    for name, outcome in outcomes.items():
        label = _ABOUT.get(name, f"kfunc {name}")
        state = outcome.probe.value
        _line(console, f"  {label:<27} {state:<15} {outcome.reason}", (30, state))
        if outcome.remedy and outcome.remedy not in shown_remedies:
            shown_remedies.add(outcome.remedy)
            _line(console, f"  {'':<27} -> {outcome.remedy}")


def _user_engine() -> str:
    from xdplab.errors import NotPossibleError
    from xdplab.user import runtime

    try:
        runtime.library()
    except NotPossibleError as error:
        return f"The user-space engine cannot run: {error}."
    return (
        "The user-space engine can run, which takes no privileges: xdplab run --engine user, "
        "xdplab count."
    )


def _show_warnings(console: Console, warnings: tuple[records.Warning, ...]) -> None:
    _line(console, "")
    _heading(console, "What disturbs measuring here")
    if not warnings:
        _line(console, "  Nothing that was found.")
    for warning in warnings:
        _line(console, f"  [{warning.code}] {warning.message}")
        if warning.remedy:
            _line(console, f"      -> {warning.remedy}")


def _show_environment(console: Console, facts: Mapping[str, Any]) -> None:
    from xdplab.views.environment import machine_lines

    _line(console, "")
    _heading(console, "Environment")
    for line in machine_lines(facts):
        _line(console, f"  {line}")
    _line(console, f"  {facts['python']}, {facts['distribution'] or 'unknown distribution'}")


def _heading(console: Console, text: str) -> None:
    console.print(text, style="bold", soft_wrap=True)


def _line(console: Console, text: str, state: tuple[int, str] | None = None) -> None:
    """One line; `state` is a feature's outcome in it and where that begins."""
    from rich.text import Text

    from xdplab.views.format import one_line
    from xdplab.views.terminal import encodable

    line = Text(encodable(one_line(text), console.encoding))
    if state is not None:
        start, value = state
        line.stylize(_STYLES[value], start, start + len(value))
    console.print(line, soft_wrap=True)
