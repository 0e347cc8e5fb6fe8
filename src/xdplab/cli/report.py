"""xdplab report: a run, or a comparison, as one page of HTML with plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xdplab.cli import completion
from xdplab.cli.choosing import documents_meant
from xdplab.cli.compare import sides_meant
from xdplab.cli.keeping import store_option
from xdplab.errors import UsageError
from xdplab.views.json_document import check_target, write_text

if TYPE_CHECKING:
    from xdplab.comparison import Side
    from xdplab.records import Document
    from xdplab.store.history import Past
    from xdplab.views.html_building import Page

_RUNS_BACK = 30
"""How many stored runs a history shows."""


@click.command()
@click.argument("run", metavar="[RUN|FILE|-]...", nargs=-1, shell_complete=completion.runs)
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE|-",
    default="report.html",
    show_default=True,
    help="Where the page goes.",
)
@click.option(
    "--plot",
    "plot_target",
    metavar="FOLDER",
    help="Write each plot of the page into this folder as well.",
)
@click.option(
    "--plot-format",
    type=click.Choice(("svg", "png")),
    default="svg",
    show_default=True,
    help="png: without distributions and histories, which are SVG alone.",
)
@click.option(
    "--across",
    is_flag=True,
    help="Judge two runs also where their environments are unlike.",
)
@store_option
def command(
    run: tuple[str, ...],
    target: str,
    plot_target: str | None,
    plot_format: str,
    across: bool,
    store: Path | None,
) -> None:
    """Write a report of RUN (default: the last one): one page with tables, plots, warnings and how
    it was measured, which needs no network.

    Of two runs (ids, tags or files, as xdplab compare takes them) it shows what changed; of more
    their figures side by side. Of a tag that several runs have it shows the newest.
    """
    check_target(target)
    folder = None
    if plot_target is not None:
        from xdplab.views.plot_folder import PlotFolder

        folder = PlotFolder(plot_target, plot_format)
    page, document = _page(run or ("last",), across, store)
    write_text(page.text, target)
    if folder is not None:
        count = folder.write(page.plots, document)
        click.echo(f"xdplab: {count} plots are in {plot_target}", err=True)
    if target != "-":
        click.echo(f"xdplab: the report is {target}", err=True)


def _page(words: tuple[str, ...], across: bool, store: Path | None) -> tuple[Page, Document]:
    if len(words) == 1:
        documents = documents_meant(words[0], store)
        if not documents:
            raise UsageError(f"{words[0]} holds no run. Give another")
        document = documents[-1]
        notes = []
        if len(documents) > 1:
            notes.append(f"{words[0]} means {len(documents)} runs; this is the newest of them.")
        from xdplab.views.html_run import run_page

        return run_page(document, _history(document, store), notes), document
    sides = [_lasting(side) for side in sides_meant(words, store)]
    last = sides[-1].documents[-1]
    from xdplab.comparison import compare
    from xdplab.views.html_comparison import columns_page, comparison_page

    if len(sides) > 2:
        return columns_page(sides), last

    comparison = compare(*sides, across=across)
    if not comparison.rows and not any(comparison.only):
        raise UsageError(f"{sides[0].name} and {sides[1].name} have no figure at all")
    return comparison_page(comparison), last


def _lasting(side: Side) -> Side:
    """The side by a name that still says something when the page is read elsewhere."""
    if side.name.partition("~")[0] != "last" or len(side.documents) > 1:
        return side
    run = side.documents[0].run
    return replace(side, name=f"{run.id} ({', '.join(run.tags)})" if run.tags else run.id)


def _history(document: Document, store: Path | None) -> list[Sequence[Past]]:
    from xdplab.store.history import history
    from xdplab.store.schema import default_path
    from xdplab.store.store import Store

    path = store or default_path()
    if not path.exists():
        return []
    with Store(path) as opened:
        return history(opened, document, _RUNS_BACK)
