"""xdplab show: a stored run's tables again."""

from __future__ import annotations

from pathlib import Path

import click

from xdplab.cli import completion
from xdplab.cli.choosing import documents_meant
from xdplab.cli.keeping import store_option
from xdplab.views.report import FORMATS, Report
from xdplab.views.stored import document_tables, heading


@click.command()
@click.argument("run", metavar="[RUN|FILE|-]", default="last", shell_complete=completion.runs)
@click.option(
    "--format",
    "text_format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="How the tables are written.",
)
@store_option
def command(run: str, text_format: str, store: Path | None) -> None:
    """Show the tables of a stored RUN (default: the last one), or of a result document.

    A tag shows every run that has it.
    """
    report = Report(text_format)
    for document in documents_meant(run, store):
        click.echo(f"{heading(document.run)}\n")
        for engine, chosen, tables in document_tables(document):
            if engine:
                report.show_tables(tables, engine, chosen)
            else:
                report.show_bare(tables)
        report.show_environment(document)
