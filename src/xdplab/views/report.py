"""A suite's tables with the environment beneath, in the format that was asked for."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdplab.records import Document
from xdplab.suites.table import Table
from xdplab.views import environment
from xdplab.views.text import markdown, org

ENGINE_TITLES = {
    "kernel": "in this kernel",
    "live": "live",
    "user": "on the user-space engine",
    "guest": "in a guest kernel",
    "native": "as native code in this process",
}

FORMATS = ("terminal", "markdown", "org")


class Report:
    """Writes tables to stdout, one suite after the other. `text_format` is one of FORMATS."""

    def __init__(self, text_format: str) -> None:
        self._format = text_format

    def show(
        self,
        tables: Sequence[Table],
        document: Document,
        engine: str,
        chosen: Mapping[str, str],
    ) -> None:
        """Write one suite's tables, then the environment and the warnings of its document.

        `engine` is that of the result document, `chosen` what the run chose of its data path:
        each table's title says both, since rows keep their names.
        """
        self.show_tables(tables, engine, chosen)
        self.show_environment(document)

    def show_tables(self, tables: Sequence[Table], engine: str, chosen: Mapping[str, str]) -> None:
        """Write tables whose titles say on which engine they were measured, with which choices."""
        choices = [f"{name}={value}" for name, value in chosen.items()]
        where = " with ".join((ENGINE_TITLES.get(engine, engine), *choices))
        self.show_bare([replace(table, title=f"{table.title}, {where}") for table in tables])

    def show_environment(self, document: Document) -> None:
        """Write a document's environment, how it came about, and its warnings."""
        if sys.stdout is None:
            # Closed by the caller (>&-): there is nobody to show them to.
            return
        # Rich is for who has something to show: --help need not wait for it.
        from xdplab.views.terminal import encodable, make_console

        console = make_console()
        lines = environment.lines(document)
        if self._format == "terminal":
            for line in lines:
                for part in self._wrapped(encodable(line, console.encoding), console.width):
                    console.print(part, soft_wrap=True, style="dim")
            console.print()
        else:
            # Both formats have lists with a hyphen in front.
            self._write("\n".join(f"- {line}" for line in lines) + "\n")
        sys.stdout.flush()

    def show_bare(self, tables: Sequence[Table]) -> None:
        """Write tables alone: for figures that are the same wherever they come from."""
        if sys.stdout is None:
            return
        from xdplab.views.terminal import make_console, render

        console = make_console()
        for table in tables:
            if self._format == "terminal":
                render(table, console)
                console.print()
            else:
                self._write(markdown(table) if self._format == "markdown" else org(table))

    @staticmethod
    def _wrapped(line: str, width: int) -> list[str]:
        # At blanks only: a path or an option in two pieces cannot be pasted.
        return textwrap.wrap(
            line,
            max(width, 20),
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )

    @staticmethod
    def _write(text: str) -> None:
        from xdplab.views.terminal import encodable

        sys.stdout.write(encodable(text, sys.stdout.encoding or "utf-8") + "\n")
