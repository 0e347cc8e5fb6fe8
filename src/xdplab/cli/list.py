"""xdplab list: the stored runs."""

from __future__ import annotations

from pathlib import Path

import click

from xdplab.cli.keeping import store_option
from xdplab.store.schema import default_path
from xdplab.store.store import Store
from xdplab.views.json_document import write_json
from xdplab.views.report import FORMATS, Report
from xdplab.views.stored import list_rows, list_table

_LIMIT = 20


@click.command()
@click.option("--tag", metavar="TAG", help="Only runs that have this tag.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=_LIMIT,
    show_default=True,
    help="How many of the newest; 0 for all.",
)
@click.option(
    "--format",
    "text_format",
    type=click.Choice((*FORMATS, "json")),
    default=FORMATS[0],
    show_default=True,
    help="How the list is written.",
)
@store_option
def command(tag: str | None, limit: int, text_format: str, store: Path | None) -> None:
    """List stored runs, the newest last.

    Other commands take a run by its id, by the beginning of the id or of its last part, by a tag,
    or as last, last~1, last~2 ...
    """
    path = store or default_path()
    with Store(path) as opened:
        summaries = opened.runs(tag=tag, limit=limit or None)
        total = opened.count(tag=tag)
    if text_format == "json":
        write_json(list_rows(summaries), "-")
    else:
        Report(text_format).show_bare([list_table(summaries, str(path), total)])
