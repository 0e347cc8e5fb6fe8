"""xdplab completion: what a shell asks for when the user presses Tab, and what it is answered."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from xdplab.errors import XdplabError

_VARIABLE = "_XDPLAB_COMPLETE"
"""By which a shell tells xdplab that it wants words instead of a run; click's name for it."""

_MOST_RUNS = 30

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print what SHELL must read to complete xdplab's words with Tab.

    \b
    bash: echo 'eval "$(xdplab completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(xdplab completion zsh)"' >> ~/.zshrc
    fish: xdplab completion fish > ~/.config/fish/completions/xdplab.fish

    Commands, options and their values, suites, interfaces, stored runs and tags are completed.
    """
    from xdplab.cli.main import cli

    of_shell = get_completion_class(shell)
    assert of_shell is not None
    click.echo(of_shell(cli, {}, "xdplab", _VARIABLE).source())


def files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Whatever files the shell finds."""
    return [CompletionItem(incomplete, type="file")]


def suites(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Suites of this package."""
    from xdplab.suites.base import find_suites

    return [
        CompletionItem(suite.name, help=suite.title)
        for suite in find_suites().values()
        if suite.name.startswith(incomplete)
    ]


def guest_suites(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Suites that guests can run."""
    from xdplab.before_after.plan import SUITES

    return [CompletionItem(name) for name in SUITES if name.startswith(incomplete)]


def interfaces(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Interfaces of this network namespace."""
    with contextlib.suppress(OSError):
        names = sorted(os.listdir("/sys/class/net"))  # noqa: PTH208
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return []


def runs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The last stored runs and their tags; files where it looks like one.

    A store that cannot be read has no words: nobody would see a message."""
    if os.sep in incomplete:
        return [CompletionItem(incomplete, type="file")]
    from xdplab.store.schema import default_path
    from xdplab.store.store import Store

    found = {"last": "the run before this", "last~1": "the one before that"}
    chosen = ctx.params.get("store")
    with (
        contextlib.suppress(XdplabError, OSError),
        Store(Path(chosen) if chosen else default_path()) as store,
    ):
        for summary in store.runs(limit=_MOST_RUNS):
            of_run = f"{', '.join(summary.suites)} {summary.run.started_at[:16]}"
            found |= dict.fromkeys(summary.run.tags, of_run)
            found[summary.run.id] = of_run
    return [
        CompletionItem(word, help=text)
        for word, text in found.items()
        if word.startswith(incomplete)
    ]
