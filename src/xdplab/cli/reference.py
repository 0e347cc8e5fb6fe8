"""Writes docs/commands.md from the commands themselves; `--check` says whether it is up to date.

python -m xdplab.cli.reference [--check] FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from xdplab.cli.main import cli

_WIDTH = 90


def reference() -> str:
    """The whole page: every command's help text as it prints it."""
    parts = [
        "# Commands\n",
        "Generated from the commands by `python -m xdplab.cli.reference docs/commands.md`.\n",
        _section(cli, "xdplab"),
    ]
    context = click.Context(cli, info_name="xdplab")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command is None:
            continue
        parts.append(_section(command, f"xdplab {name}"))
        if isinstance(command, click.Group):
            parts += [
                _section(one, f"xdplab {name} {below}") for below, one in command.commands.items()
            ]
    return "\n".join(parts)


def _section(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name, terminal_width=_WIDTH, **cli.context_settings)
    return f"## `{name}`\n\n```text\n{command.get_help(context)}\n```\n"


def main(arguments: list[str]) -> int:
    """Write the file, or with --check compare it; 0 done or equal, 1 out of date."""
    path = Path(arguments[-1])
    text = reference()
    if "--check" not in arguments:
        path.write_text(text)
        return 0
    if path.exists() and path.read_text() == text:
        return 0
    sys.stderr.write(f"{path} is out of date: run python -m xdplab.cli.reference {path}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
