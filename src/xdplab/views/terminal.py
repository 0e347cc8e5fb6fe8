"""Tables on a terminal or through a pipe."""

from __future__ import annotations

import codecs
import os
import re
from typing import IO

from rich.console import Console
from rich.text import Text

from xdplab.suites.table import Table
from xdplab.views.layout import RULE, Role, arrange

_PIPE_WIDTH = 160
_SIZE = re.compile("[0-9]{1,6}")
_STYLES: dict[Role, str] = {
    "title": "bold",
    "heading": "bold",
    "rule": "dim",
    "plain": "",
    "noise": "dim",
    "published": "cyan",
    "note": "italic",
}
# One character each, so that what was aligned stays so.
_ASCII = str.maketrans(
    {RULE: "-", "µ": "u", "–": "-", "—": "-", "−": "-", "×": "x", "→": ">", "’": "'"}  # noqa: RUF001
)


class _Console(Console):
    """Leaves a closed pipe to the command, which knows what must still be saved."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def make_console(file: IO[str] | None = None, *, stderr: bool = False) -> Console:
    """A console as xdplab uses it: NO_COLOR and TERM=dumb respected, no markup.

    What is no terminal gets neither colour nor cursor movement, and 160 columns (or COLUMNS):
    a pipe has no width, and 80 would fold tables that the reader has room for.
    """
    # Rich takes every sort of digit for a number, and then fails to read it.
    known = {
        name: value
        for name, value in os.environ.items()
        if name not in {"COLUMNS", "LINES"} or _SIZE.fullmatch(value)
    }
    console = _Console(
        file=file, stderr=stderr, highlight=False, markup=False, emoji=False, _environ=known
    )
    if not console.is_terminal and not int(known.get("COLUMNS", "0")):
        console.width = _PIPE_WIDTH
    return console


def render(table: Table, console: Console) -> None:
    """Write a table and its notes; figures are never cut, however narrow the console."""
    for line in arrange(table, max(console.width, 1)):
        text = Text()
        for piece in line:
            text.append(encodable(piece.text, console.encoding), _STYLES[piece.role])
        # Lines are as long as they must be: rich must neither fold nor crop them.
        console.print(text, soft_wrap=True)


def encodable(text: str, encoding: str) -> str:
    """`text` with what the encoding lacks replaced, character for character."""
    if codecs.lookup(encoding).name == "utf-8":
        return text
    plain = text.translate(_ASCII)
    return plain.encode(encoding, "replace").decode(encoding)
