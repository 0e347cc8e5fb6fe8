"""xdplab import: result documents into the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from xdplab.cli import completion
from xdplab.cli.choosing import documents_meant
from xdplab.cli.keeping import store_option
from xdplab.errors import UsageError
from xdplab.store.schema import default_path
from xdplab.store.store import Store, check_tag
from xdplab.views.stored import heading


@click.command("import")
@click.argument("file", metavar="FILE|-", nargs=-1, required=True, shell_complete=completion.files)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Call the runs so as well.")
@store_option
def command(file: tuple[str, ...], tags: tuple[str, ...], store: Path | None) -> None:
    """Put result documents (of --json or of xdplab export) into the store, and say which.

    A run that is there already is left as it is.
    """
    added = [check_tag(tag) for tag in tags]
    # All of them first: a file that cannot be read must not leave half of them imported.
    documents = [
        document
        for name in file
        for document in documents_meant(name if name == "-" else str(Path(name).absolute()), None)
    ]
    with Store(store or default_path(), write=True) as opened:
        for document in documents:
            if not document.run.id:
                raise UsageError(
                    "a run without an id cannot be stored: give it one in the document"
                )
            names = dict.fromkeys((*document.run.tags, *added))
            named = replace(document, run=replace(document.run, tags=tuple(names)))
            is_new = opened.add(named)
            click.echo(f"{'imported' if is_new else 'there already:'} {heading(named.run)}")
