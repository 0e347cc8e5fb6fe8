"""What commands on one's own programs share: OBJ[:PROG], and how a source is compiled."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from xdplab.cli.arguments import FilePath
from xdplab.errors import UsageError
from xdplab.program.chosen import Chosen, program_of


@dataclass(frozen=True, slots=True)
class Compiling:
    """How a .bpf.c among the programs is compiled."""

    include: Sequence[Path]
    defines: Mapping[str, str]

    def program(self, word: str) -> Chosen:
        """The program that OBJ[:PROG] names; see program.chosen.program_of."""
        return program_of(word, self.include, self.defines)


def defines_of(macros: Sequence[str]) -> dict[str, str]:
    """NAME or NAME=TEXT as macro -> text. UsageError for what names none."""
    defines = {}
    for macro in macros:
        name, equals, text = macro.partition("=")
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"-D {macro!r} names no macro. Give NAME or NAME=TEXT")
        defines[name] = text if equals else "1"
    return defines


def compile_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """-I and -D, passed on as `compiling`."""

    @click.option(
        "-I",
        "include",
        type=FilePath(),
        multiple=True,
        metavar="DIR",
        help="Where a .bpf.c finds its headers, besides its own directory; may be given several "
        "times.",
    )
    @click.option(
        "-D",
        "macros",
        multiple=True,
        metavar="NAME[=TEXT]",
        help="A macro for every .bpf.c, 1 without TEXT; may be given several times.",
    )
    @functools.wraps(function)
    def with_compiling(
        *arguments: Any, include: Sequence[Path], macros: Sequence[str], **options: Any
    ) -> Any:
        return function(*arguments, compiling=Compiling(include, defines_of(macros)), **options)

    return with_compiling
